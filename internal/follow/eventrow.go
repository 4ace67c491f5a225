package follow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// unchanged is what Debezium sends for a large value that an update did not change.
const unchanged = "__debezium_unavailable_value"

// mayBeID reports whether a value of a column of ids is neither a boolean nor a fraction.
func mayBeID(value jsontext.Value) bool {
	switch value.Kind() {
	case jsontext.KindTrue, jsontext.KindFalse:
		return false
	case jsontext.KindNumber:
		return isWhole(string(value))
	default:
		return true
	}
}

// row returns the row that an event has in a member. old has the values that it does not repeat.
func (e *Event) row(t *Table, member string, object jsontext.Value, old row) (row, error) {
	var values map[string]jsontext.Value
	if json.Unmarshal(object, &values) != nil || values == nil {
		return nil, fmt.Errorf("%s is missing", member)
	}
	texts := make(map[string]*string)
	for _, column := range t.columns() {
		value := values[column]
		if t.isID(column) && !mayBeID(value) {
			return nil, &rowError{
				t.Table, []cell{{column, string(value)}},
				errors.New("an id is a whole number such as 15, or a string"), reasonID,
			}
		}
		switch value.Kind() {
		case jsontext.KindInvalid: // it is missing
		case jsontext.KindNull:
			texts[column] = nil
		case jsontext.KindNumber:
			texts[column] = new(e.number(t, column, string(value)))
		case jsontext.KindString:
			text, _ := jsontext.AppendUnquote(nil, value)
			if string(text) != unchanged {
				texts[column] = new(string(text))
			}
		case jsontext.KindTrue, jsontext.KindFalse:
			texts[column] = new(t.boolean(column, string(value)))
		case jsontext.KindBeginArray:
			if t.isList(column) {
				texts[column] = new(string(value))
				continue
			}
			fallthrough
		default:
			return nil, &rowError{
				t.Table, []cell{{column, string(value)}},
				errors.New("want a string, a number or a boolean"), reasonID,
			}
		}
	}
	return func(column string) (*string, bool) {
		text, known := texts[column]
		if !known && old != nil {
			return old(column)
		}
		return text, known
	}, nil
}

// isWhole reports whether the text of a number is that of an id: a whole number as databases print
// it, of any size. Others, such as 1.5, 1.0, 1e3 and -0, have several texts, and each would be an
// id of its own.
func isWhole(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return strings.Trim(digits, "0123456789") == "" && text != "-0" // JSON has no leading zeros
}

// number returns the text of a number: a time if the column is one of times.
func (e *Event) number(t *Table, column, text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil && t.isTimestamp(column):
		return timeOf(n)
	case e.Source.File != "" && (text == "0" || text == "1"): // may be MySQL's boolean
		return t.boolean(column, text)
	default:
		return text
	}
}

// boolean returns the text of a boolean that an event has as true, false, 1 or 0. That is the one
// which the file has for it, or the one of while and unless.
func (t *Table) boolean(column, text string) string {
	truth, _ := truthOf(text)
	want, given := t.Where[column]
	wanted, is := truthOf(want)
	switch {
	case given && is && wanted == truth:
		return want
	case text == "1" || text == "0" && !slices.Contains(slices.Concat(t.While, t.Unless), column):
		return text
	default:
		return strconv.FormatBool(truth)[:1]
	}
}

// timeOf returns the text of a time that Debezium sends as a number. From July 1979 to 9999, its
// size tells the unit: days, milliseconds, microseconds or nanoseconds. Greater ones are infinity.
// Any other number is no time, but 0, which is the same in each unit.
func timeOf(n int64) string {
	var at time.Time
	switch {
	case n == 0, n >= 3500 && n < 3e6:
		at = time.Unix(n*24*60*60, 0)
	case n < 3e11:
		return strconv.FormatInt(n, 10)
	case n < 3e14:
		at = time.UnixMilli(n)
	case n < 3e17:
		at = time.UnixMicro(n)
	default:
		at = time.Unix(0, n)
	}
	if at.Year() > 9999 || n > 9e18 {
		return "infinity"
	}
	return at.UTC().Format(time.RFC3339Nano)
}
