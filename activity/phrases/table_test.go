package phrases

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// Each rule in the table of docs/KINDS.md holds for its examples.
func TestRulesOfTheDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/KINDS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(document), "| rule | the phrase | is found in | not in |\n|---|---|---|---|\n")
	table, _, _ := strings.Cut(after, "\n\n")
	// codes returns what stands between backquotes in each part that a semicolon ends, and all of it.
	codes := func(cell string) (groups [][]string) {
		for part := range strings.SplitSeq(cell, ";") {
			var group []string
			for i, code := range strings.Split(part, "`") {
				if i%2 == 1 {
					text, err := strconv.Unquote(`"` + strings.ReplaceAll(code, `"`, `\"`) + `"`)
					if err != nil {
						t.Fatalf("%q: %v", code, err)
					}
					group = append(group, text)
				}
			}
			groups = append(groups, group)
		}
		return groups
	}
	rules, examples := 0, 0
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		if len(cells) != 4 {
			t.Fatalf("%d cells: %s", len(cells), row)
		}
		rules++
		found, not := codes(cells[2]), codes(cells[3])
		for i, phrases := range codes(cells[1]) {
			canonical, _, err := Canonical(phrases[0])
			if err != nil {
				t.Fatalf("%q: %v", phrases[0], err)
			}
			check := func(groups [][]string, want bool) {
				if i >= len(groups) {
					return
				}
				for _, text := range groups[i] {
					var cut Text
					cut.Cut(text)
					_, end := cut.Find(canonical)
					examples++
					if (end > 0) != want {
						t.Errorf("%s: %q in %q: found %v", cells[0], phrases[0], text, end > 0)
					}
				}
			}
			check(found, true)
			check(not, false)
		}
	}
	if rules < 15 || examples < 25 {
		t.Errorf("%d rules, %d examples", rules, examples)
	}
}
