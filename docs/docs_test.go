// Package docs_test checks what the documents say of the repository: that links lead somewhere, and
// that tests exist.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents are all of the repository's, by path from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	eachFile(t, func(path string) {
		if filepath.Ext(path) == ".md" {
			texts[path] = read(t, path)
		}
	})
	return texts
}

func eachFile(t *testing.T, do func(path string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case !entry.IsDir():
			do(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	testName = regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Z][A-Za-z0-9_]*)`")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)[A-Z][A-Za-z0-9_]*)\(`)
)

// anchors are those of a document's headings, as they are made of their text.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := noAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

func TestLinks(t *testing.T) {
	texts := documents(t)
	if len(texts) < 10 {
		t.Fatalf("%d documents: they are looked for in the wrong place", len(texts))
	}
	for path, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			file := path
			if to != "" {
				file = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: a link to %s, which is not there", path, m[1])
				continue
			}
			if target, ok := texts[file]; ok && anchor != "" && !slices.Contains(anchors(target), anchor) {
				t.Errorf("%s: a link to %s, which has no such heading", path, m[1])
			}
		}
	}
}

// TestNamesOfTests sees to it that a test that a document names as proof exists.
func TestNamesOfTests(t *testing.T) {
	exist := make(map[string]bool)
	eachFile(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test") && filepath.Ext(path) == ".go" {
			for _, m := range testFunc.FindAllStringSubmatch(read(t, path), -1) {
				exist[m[1]] = true
			}
		}
	})
	named := 0
	for path, text := range documents(t) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			named++
			if !exist[m[1]] {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
	}
	if named == 0 {
		t.Fatal("no document names a test")
	}
}

// TestTables: a row that is broken in two ends its table, and the rest of it is text.
func TestTables(t *testing.T) {
	rows := 0
	for path, text := range documents(t) {
		for i, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			rows++
			if !strings.HasSuffix(line, "|") {
				t.Errorf("%s:%d: a row of a table that does not end: %s", path, i+1, line)
			}
		}
	}
	if rows == 0 {
		t.Fatal("no document has a table")
	}
}

// TestVersion: what names the version of the program names the newest one of the changelog, which
// links each.
func TestVersion(t *testing.T) {
	changelog := read(t, "../CHANGELOG.md")
	released := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$`).FindAllStringSubmatch(changelog, -1)
	if len(released) < 2 {
		t.Fatalf("versions in the changelog: %q", released)
	}
	for _, one := range released {
		if !regexp.MustCompile(`(?m)^\[` + regexp.QuoteMeta(one[1]) + `\]: https://\S+v` + regexp.QuoteMeta(one[1]) + `$`).MatchString(changelog) {
			t.Errorf("CHANGELOG.md has no link for %s", one[1])
		}
	}
	want := released[0][1]
	first := regexp.MustCompile(`(?i)version[^\d\n]+(\d+\.\d+\.\d+)`)
	for path, times := range map[string]int{ // further matches are of other programs
		"infra/helm/feedfilter/Chart.yaml": 2, "client/python/src/feedfilter/_version.py": 1,
		"client/typescript/package.json": 1, "client/typescript/package-lock.json": 2, "docs/PUBLISH.md": 1,
	} {
		named := first.FindAllStringSubmatch(read(t, filepath.Join("..", path)), times)
		if len(named) != times || slices.ContainsFunc(named, func(m []string) bool { return m[1] != want }) {
			t.Errorf("%s: versions %q, want %d times %s", path, named, times, want)
		}
	}
	file, mentions := regexp.MustCompile(`feedfilter\S*?[@:_=-]v?(\d\.\d+\.\d+)`), 0
	for path, text := range documents(t) {
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			mentions++
			if m[1] != want {
				t.Errorf("%s: %s, but the newest version is %s", path, m[0], want)
			}
		}
	}
	if mentions == 0 {
		t.Error("no document names a file of the version")
	}
}
