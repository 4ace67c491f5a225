package follow

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgtype"
)

// listMark ends the name of a column that is an array.
const listMark = "[]"

var (
	errNoArray = errors.New("not an array")
	errElement = errors.New("an element is neither a string nor a whole number such as 15")
)

// elements returns the elements of an array that are not NULL. The text is one of PostgreSQL, such
// as {1,NULL,"a b"}, or JSON. Arrays within an array of PostgreSQL are parts of it, as for unnest.
func elements(text string) (all []string, err error) {
	if !strings.HasSuffix(text, "}") { // [0:1]={1,2} is one of PostgreSQL
		return jsonElements(text)
	}
	if text != "{}" && jsontext.Value(text).IsValid() { // which pgtype would take apart
		return nil, errNoArray
	}
	var values []*string
	types := pgtype.NewMap()
	if types.Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, []byte(text), &values) != nil {
		return nil, errNoArray
	}
	for _, v := range values {
		if v != nil {
			all = append(all, *v)
		}
	}
	return all, nil
}

func jsonElements(text string) (all []string, err error) {
	var values []jsontext.Value
	if json.Unmarshal([]byte(text), &values) != nil {
		return nil, errNoArray
	}
	for _, v := range values {
		switch v.Kind() {
		case jsontext.KindNull:
		case jsontext.KindString:
			id, _ := jsontext.AppendUnquote(nil, v)
			all = append(all, string(id))
		case jsontext.KindNumber:
			if !isWhole(string(v)) {
				return nil, errElement
			}
			all = append(all, string(v))
		default:
			return nil, errElement
		}
	}
	return all, nil
}
