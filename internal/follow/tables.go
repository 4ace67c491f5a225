package follow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

const maxTables = 100

// Table says what activities the rows of a table give. Columns are given by their names. A field
// that is added is left out where it has no value: see [Tables.fingerprint].
type Table struct {
	Table  string     `json:"table"`            // "name", or "schema.name"
	Kind   string     `json:"kind"`             // its name; in the file also its plural
	User   text       `json:"user"`             // a column, or a template such as "list:{list_id}"
	Target text       `json:"target"`           // as User
	Since  timeColumn `json:"since,omitzero"`   // none: the commit
	Until  timeColumn `json:"until,omitzero"`   // none, or NULL: no end
	While  []string   `json:"while,omitempty"`  // a row counts while all of them are set, or true
	Unless []string   `json:"unless,omitempty"` // a row counts while none of them is set, or true
	Where  conditions `json:"where,omitempty"`  // a row counts while the columns have these texts

	partitioned bool // as the source says
}

// name returns the name of the table and its schema: public, unless the name has another.
func (t *Table) name() (schema, table string) {
	if schema, table, found := strings.Cut(t.Table, "."); found {
		return schema, table
	}
	return "public", t.Table
}

// quoted returns the name of the table in SQL.
func (t *Table) quoted() string {
	schema, table := t.name()
	return pgx.Identifier{schema, table}.Sanitize()
}

// only returns the table in SQL without tables that inherit from it: the stream has these by their
// own names. Partitions are in the stream as rows of the table.
func (t *Table) only() string {
	if t.partitioned {
		return t.quoted()
	}
	return "ONLY " + t.quoted()
}

// conditions are texts by column.
type conditions map[string]string

// UnmarshalJSONFrom parses an object of texts. A row with NULL is what unless is for.
func (c *conditions) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var texts map[string]*string
	if err := json.UnmarshalDecode(dec, &texts); err != nil {
		return err
	}
	*c = make(conditions)
	for column, text := range texts {
		if text == nil {
			return fmt.Errorf(
				`where: column %q: null is no text: use "unless" for a column that is not set`, column,
			)
		}
		(*c)[column] = *text
	}
	return nil
}

// text is a column, or a template with columns in braces. A column whose name ends in [] is an
// array: its row gives an activity for each element.
type text struct {
	parts []string // the parts with an odd index are columns
}

// UnmarshalText parses a column, or a template.
func (t *text) UnmarshalText(in []byte) error {
	rest := string(in)
	if !strings.ContainsAny(rest, "{}") {
		if rest == "" {
			return errors.New("no column")
		}
		t.parts = []string{"", rest, ""}
		return nil
	}
	t.parts = nil
	for {
		before, after, found := strings.Cut(rest, "{")
		if t.parts = append(t.parts, before); strings.Contains(before, "}") {
			return fmt.Errorf("%q: } without {", in)
		}
		if !found {
			break
		}
		column, tail, closed := strings.Cut(after, "}")
		if !closed || column == "" || strings.Contains(column, "{") {
			return fmt.Errorf("%q: want columns in braces", in)
		}
		t.parts, rest = append(t.parts, column), tail
	}
	if len(t.parts) == 1 {
		return fmt.Errorf("%q names no column", in)
	}
	return nil
}

// MarshalText returns the text that UnmarshalText parses.
func (t *text) MarshalText() ([]byte, error) {
	if len(t.parts) == 3 && t.parts[0] == "" && t.parts[2] == "" {
		return []byte(t.parts[1]), nil
	}
	var b []byte
	for i, part := range t.parts {
		if i%2 == 1 {
			part = "{" + part + "}"
		}
		b = append(b, part...)
	}
	return b, nil
}

// columns returns the columns by their names.
func (t *text) columns() (all []string) {
	for i := 1; i < len(t.parts); i += 2 {
		all = append(all, strings.TrimSuffix(t.parts[i], listMark))
	}
	return all
}

// lists returns the columns that are arrays.
func (t *text) lists() (all []string) {
	for i := 1; i < len(t.parts); i += 2 {
		if column, list := strings.CutSuffix(t.parts[i], listMark); list {
			all = append(all, column)
		}
	}
	return all
}

// fill returns the text with the values of the columns, once for each element of its arrays. It
// returns none if a column is NULL, or an array has no elements.
func (t *text) fill(
	value func(column string) *string, types columnTypes,
) (all []string, err error) {
	if len(t.lists()) > 0 {
		return t.fillEach(value, types)
	}
	var b strings.Builder
	for i, part := range t.parts {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		v := value(part)
		if v == nil {
			return nil, nil
		}
		b.WriteString(types.trim(part, *v))
	}
	return []string{b.String()}, nil
}

func (t *text) fillEach(value func(column string) *string, types columnTypes) ([]string, error) {
	all := []string{""}
	for i, part := range t.parts {
		values := []string{part}
		if i%2 == 1 {
			column, list := strings.CutSuffix(part, listMark)
			v := value(column)
			if v == nil {
				return nil, nil
			}
			values = []string{*v}
			if list {
				var err error
				if values, err = elements(*v); err != nil {
					return nil, fmt.Errorf("column %q: %w", column, err)
				}
			}
			for k := range values {
				values[k] = types.trim(column, values[k])
			}
		}
		var longer []string
		for _, before := range all {
			for _, v := range values {
				longer = append(longer, before+v)
			}
		}
		all = longer
	}
	return all, nil
}

// Tables are the tables of a source.
type Tables []Table

// ParseTables parses a file such as {"tables": [{"table": "blocks", "kind": "block", ...}]}. Kinds
// are those of the service. Errors name the table.
func ParseTables(file []byte, kinds *activity.Kinds) (Tables, error) {
	var f struct {
		Tables []Table `json:"tables"`
	}
	if err := json.Unmarshal(file, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf(
			`not of the form {"tables": [{"table": ..., "kind": ..., "user": ..., "target": ...}]}: %w`,
			err,
		)
	}
	if n := len(f.Tables); n == 0 || n > maxTables {
		return nil, fmt.Errorf("tables: %d, want 1 to %d", n, maxTables)
	}
	var errs []error
	for i := range f.Tables {
		if err := f.Tables[i].check(kinds); err != nil {
			errs = append(errs, fmt.Errorf("table %d (%q): %w", i+1, f.Tables[i].Table, err))
		}
	}
	return f.Tables, errors.Join(errs...)
}

// check checks what the file says of the table, and sets Kind to the name of the kind.
func (t *Table) check(kinds *activity.Kinds) error {
	k, ok := kinds.Named(t.Kind)
	switch {
	case !ok:
		return fmt.Errorf("kind: there is no kind %q: give its file with --kinds", t.Kind)
	case !k.InLedger():
		return fmt.Errorf(
			"kind: %s has a window, and only kinds that the ledger keeps are followed: "+
				"import its rows, see docs/FOLLOW.md", k.Name,
		)
	}
	t.Kind = k.Name
	schema, name, found := strings.Cut(t.Table, ".")
	if t.Table == "" || found && (schema == "" || name == "") {
		return errors.New(`table: want "name" or "schema.name"`)
	}
	for field, of := range map[string]*text{"user": &t.User, "target": &t.Target} {
		switch {
		case len(of.parts) == 0:
			return fmt.Errorf("%s: missing", field)
		case slices.Contains(of.lists(), ""):
			return fmt.Errorf("%s: no column before []", field)
		}
	}
	return nil
}

// Kinds returns the kinds of the tables, each once, in order.
func (all Tables) Kinds() []string {
	kinds := make(map[string]bool)
	for i := range all {
		kinds[all[i].Kind] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}

// isID reports whether a column is one of those that ids are made of.
func (t *Table) isID(column string) bool {
	return slices.Contains(t.User.columns(), column) || slices.Contains(t.Target.columns(), column)
}

// isList reports whether a column is an array of ids.
func (t *Table) isList(column string) bool {
	return slices.Contains(t.User.lists(), column) || slices.Contains(t.Target.lists(), column)
}

// columns returns the columns that the mapping of a row needs, each once, in order.
func (t *Table) columns() []string {
	where := slices.Collect(maps.Keys(t.Where))
	all := slices.Concat(t.User.columns(), t.Target.columns(), t.While, t.Unless, where)
	for _, one := range []timeColumn{t.Since, t.Until} {
		if one.Column != "" {
			all = append(all, one.Column)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// row returns the text of a column of a row, or nil for NULL. It returns false if it does not know
// the column.
type row func(column string) (text *string, known bool)

// hasAll reports whether none of the columns is NULL or unknown.
func (r row) hasAll(columns []string) bool {
	return !slices.ContainsFunc(columns, func(column string) bool {
		text, _ := r(column)
		return text == nil
	})
}

// mapped is what a row gives.
type mapped struct {
	item
	ledger.Span
}

// item is an activity.
type item struct{ kind, user, target string }

// cells returns the mapped columns of a row that are not NULL.
func (t *Table) cells(r row) (all []cell) {
	for _, column := range t.columns() {
		if text, _ := r(column); text != nil {
			all = append(all, cell{column, *text})
		}
	}
	return all
}
