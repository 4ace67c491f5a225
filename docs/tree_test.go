package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTopLevel keeps the top level of the repository. It is the map by which people find their way:
// each folder is one part of the design, in the order of imports. Other programs import the
// packages by these paths. A part that merges into another one leaves a hole in both, even if all
// tests pass: its users no longer compile, and a newcomer no longer sees it. So each folder is
// there, with files of its own, and docs/ARCHITECTURE.md says what it holds.
func TestTopLevel(t *testing.T) {
	_, pieces, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "\n## The pieces\n")
	pieces, _, _ = strings.Cut(pieces, "\n## ")
	for folder, files := range map[string]string{
		"cmd/feedfilter":  "*.go",
		"favfilter":       "*.go",
		"regions":         "*.go",
		"activity":        "*.go",
		"feed":            "*.go",
		"infra/terraform": "*.tf",
		"integration":     "*_test.go",
	} {
		found, err := filepath.Glob(filepath.Join("..", folder, files))
		if err != nil {
			t.Fatal(err)
		}
		if files == "*.go" {
			found = slices.DeleteFunc(found, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		}
		if len(found) == 0 {
			t.Errorf("%s has no files %s: it is part of the top level", folder, files)
		}
		if !strings.Contains(pieces, "\n    "+folder+"/ ") {
			t.Errorf("docs/ARCHITECTURE.md does not say what %s holds", folder)
		}
	}
	for _, file := range []string{"go.mod", "README.md"} {
		if _, err := os.Stat(filepath.Join("..", file)); err != nil {
			t.Errorf("%v: it is part of the top level", err)
		}
	}
}

// TestRegionsIsUsed sees to it that the arithmetic of regions stands in one place: what computes
// with regions imports the package. It imports no other, so that anyone can use it.
func TestRegionsIsUsed(t *testing.T) {
	const path = `"github.com/feedfilter/feedfilter/regions"`
	for _, folder := range []string{"favfilter", "favfilter/redisstore", "internal/sizing"} {
		if text := sources(t, folder); !strings.Contains(text, path) {
			t.Errorf("%s does not import package regions: does it compute on its own?", folder)
		}
	}
	if text := sources(t, "regions"); strings.Contains(text, `"github.com/`) || strings.Contains(text, `"golang.org/`) {
		t.Error("package regions imports more than the standard library")
	}
}

// TestPackagesToTest: CONTRIBUTING says for each package with tests which ones to run after it
// changed, and names no package that does not exist.
func TestPackagesToTest(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "../CONTRIBUTING.md"), "\n| you change | packages |")
	table, _, _ = strings.Cut(table, "\n\n")
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\./([a-z/]+[a-z])(/\.{3})?`).FindAllStringSubmatch(table, -1) {
		named[m[1]] = m[2] != ""
		if names, _ := filepath.Glob(filepath.Join("..", m[1], "*_test.go")); len(names) == 0 {
			t.Errorf("CONTRIBUTING names the package %s, which has no tests", m[1])
		}
	}
	eachFile(t, func(path string) {
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		if !strings.HasSuffix(path, "_test.go") || slices.Contains([]string{"client/typescript", "examples", "packaging"}, folder) ||
			strings.HasPrefix(folder, "tools/") {
			return // they have targets of their own
		}
		if _, ok := named[folder]; ok || named[filepath.ToSlash(filepath.Dir(folder))] {
			return
		}
		t.Errorf("CONTRIBUTING does not say what to run after a change of %s", folder)
		named[folder] = false
	})
}

// sources returns the text of the Go files in a folder that are no tests.
func sources(t *testing.T, folder string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			all.WriteString(read(t, name))
		}
	}
	return all.String()
}
