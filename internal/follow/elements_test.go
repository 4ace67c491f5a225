package follow

import (
	"slices"
	"testing"
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
