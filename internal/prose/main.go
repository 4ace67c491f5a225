// Prose checks comments, documents and messages. It refuses sentences of more than 30 words, lines
// of more than 100 columns, and the words in words.txt.
//
//	go run ./internal/prose [path...]
//
// It checks the files below the paths, or below the working directory, except those that git
// ignores. It prints each violation as file:line: rule: text, and then exits with 1.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	found, err := check(os.Stdout, os.Args[1:])
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "prose:", err)
	}
	if found > 0 || err != nil {
		os.Exit(1)
	}
}

// check prints the violations in the files below the paths, and returns how many there are.
func check(out io.Writer, paths []string) (int, error) {
	args := append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, paths...)
	//nolint:gosec,noctx // the arguments are paths, and git ends by itself
	names, err := exec.Command("git", args...).Output()
	if err != nil {
		return 0, fmt.Errorf("listing files with git: %w", err)
	}
	rules, found := wordRules(), 0
	for name := range strings.SplitSeq(string(bytes.TrimRight(names, "\x00")), "\x00") {
		source, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted, and not yet committed
			continue
		case err != nil:
			return found, err
		}
		violations, err := scan(name, source, rules)
		if err != nil {
			return found, fmt.Errorf("%s: %w", name, err)
		}
		slices.SortFunc(violations, violation.compare)
		for _, v := range violations {
			if _, err := fmt.Fprintf(out, "%s:%d: %s: %s\n", name, v.line, v.rule, v.text); err != nil {
				return found, err
			}
		}
		found += len(violations)
	}
	return found, nil
}
