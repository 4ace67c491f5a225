package follow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// Arrays are read as PostgreSQL and Debezium print them. An object is none.
func TestElements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{}`:                          nil,
		`{1,NULL,"a b"}`:              {"1", "a b"},
		`{"NULL","","a\"b\\c","x,y"}`: {"NULL", "", `a"b\c`, "x,y"},
		`{{1,2},{3,NULL}}`:            {"1", "2", "3"},
		`[0:1]={7,8}`:                 {"7", "8"},
		`{a:b}`:                       {"a:b"},
		`[]`:                          nil,
		`["2", null, 15, ""]`:         {"2", "15", ""},
		`null`:                        nil,
	} {
		if got, err := elements(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{``, `x`, `{`, `{1`, `{1}}`, `{"a": "b"}`, `{"a": [1]}`, `[1.5]`, `[true]`, `[["7"]]`, `"x"`, `[1`} {
		if got, err := elements(text); err == nil {
			t.Errorf("%q has the elements %q", text, got)
		}
	}
}

// A row gives an activity once, however often its array has the element. Otherwise an update that
// removes one of two would leave the ledger with a row too many.
func TestElementsOnce(t *testing.T) {
	t.Parallel()
	kinds := activity.BuiltinKinds()
	tables, err := ParseTables([]byte(strings.Replace(identityFile, `"v"`, `"v[]"`, 1)), kinds)
	must(t, err)
	m := newMapper(tables, kinds)
	array := func(text string) row {
		return func(column string) (*string, bool) {
			return map[string]*string{"u": new("1"), "v": new(text)}[column], true
		}
	}
	for _, c := range []struct{ before, after, want string }{
		{"{}", "{2,2}", "+block 1 2"},
		{"{2,2}", "{2}", ""},
		{"{2,2}", "{}", "-block 1 2"},
		{"{2,3}", "{3,4}", "-block 1 2, +block 1 4"},
	} {
		changes, err := m.changes(&m.tables[0], time.Time{}, array(c.before), array(c.after))
		if got := done(changes); err != nil || got != c.want {
			t.Errorf("%s to %s: %q, %v, want %q", c.before, c.after, got, err, c.want)
		}
	}
}
