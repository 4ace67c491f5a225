package docs_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	goBlock  = regexp.MustCompile("(?s)```go\n(.*?\n)```")
	declared = regexp.MustCompile(`(?m)^([\w, ]+?) :=`)
)

// goPackages are those that blocks of Go use, by name.
func goPackages() map[string]string {
	const module = "github.com/feedfilter/feedfilter/"
	return map[string]string{
		"client": module + "client", "favfilter": module + "favfilter", "redisstore": module + "favfilter/redisstore",
		"redis": "github.com/redis/go-redis/v9",
	}
}

// program has the statements of a block in a function, which makes something of every variable.
func program(block string) string {
	var b strings.Builder
	b.WriteString("package block\n\nimport \"context\"\n") // which, unlike a program, is not linked
	packages := goPackages()
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(block) {
			fmt.Fprintf(&b, "import %q\n", packages[name])
		}
	}
	fmt.Fprintf(&b, "\nfunc block() {\nctx := context.Background()\n_ = ctx\n%s", block)
	for _, m := range declared.FindAllStringSubmatch(block, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			fmt.Fprintf(&b, "_ = %s\n", name)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// TestGo compiles the blocks of Go in documents.
func TestGo(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go")
	}
	n := 0
	for path, text := range documents(t) {
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			n++
			file := filepath.Join(t.TempDir(), "block.go")
			if err := os.WriteFile(file, []byte(program(block[1])), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), tool, "build", file).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s%s", path, err, out, block[1])
			}
		}
	}
	if n == 0 {
		t.Fatal("no document has a block of Go")
	}
}
