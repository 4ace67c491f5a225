//go:build unix

package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Documents returns the texts of all Markdown documents at and below a directory, by their path
// with slashes. It leaves out hidden files and the packages of npm.
func Documents(t testing.TB, root string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	hidden := func(name string) bool {
		return strings.HasPrefix(name, ".") || name == "node_modules"
	}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && hidden(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // the repository is its own
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		texts[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// Block is code in a document.
type Block struct {
	Line     int    // number of its first line
	Info     string // the text after the ```
	Text     string
	Indented bool // marked by four spaces instead of ```
}

// Blocks returns all blocks of code. It returns an error with the line of a block that has no end,
// or whose start is not at the start of its line.
func Blocks(document string) ([]Block, error) {
	var blocks []Block
	var fenced, indented *Block
	end := func(b **Block) {
		if *b != nil {
			blocks = append(blocks, **b)
		}
		*b = nil
	}
	for i, line := range strings.Split(document, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		code, deep := strings.CutPrefix(line, "    ")
		if fence || !deep {
			end(&indented)
		}
		switch {
		case fence && fenced == nil:
			fenced = &Block{Line: i + 2, Info: strings.TrimSpace(info)}
		case fence:
			end(&fenced)
		case fenced != nil:
			fenced.Text += line + "\n"
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			return nil, fmt.Errorf("%d: the block does not begin with its line", i+1)
		case deep:
			if indented == nil {
				indented = &Block{Line: i + 1, Indented: true}
			}
			indented.Text += code + "\n"
		}
	}
	end(&indented)
	if fenced != nil {
		return nil, fmt.Errorf("%d: the block has no end", fenced.Line)
	}
	return blocks, nil
}
