// Prose checks comments, documents and messages. It refuses sentences of more than 30 words, lines
// of more than 100 columns, the words in words.txt, and links in comments of Go that name nothing.
//
//	go -C tools run ./prose [path...]
//
// It checks the files below the paths, or all files, except those that git ignores. Paths start at
// the root of the repository. It prints each violation as file:line: rule: text, and then exits
// with 1.
package main

import (
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
	root, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return 0, err
	}
	if err := os.Chdir(strings.TrimSuffix(root, "\n")); err != nil {
		return 0, err
	}
	broken, err := brokenLinks()
	if err != nil {
		return 0, err
	}
	rules, found := wordRules(), 0
	err = eachFile(paths, func(name string, source []byte) error {
		violations, err := scan(name, source, rules)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		violations = append(violations, broken[name]...)
		slices.SortFunc(violations, violation.compare)
		for _, v := range violations {
			if _, err := fmt.Fprintf(out, "%s:%d: %s: %s\n", name, v.line, v.rule, v.text); err != nil {
				return err
			}
		}
		found += len(violations)
		return nil
	})
	return found, err
}

// brokenLinks returns the links of all Go files that name nothing, by file.
func brokenLinks() (map[string][]violation, error) {
	t := newTree()
	err := eachFile([]string{"*.go"}, t.add)
	return t.broken(), err
}

// eachFile calls do with each file below the paths, or all.
func eachFile(paths []string, do func(name string, source []byte) error) error {
	args := []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}
	names, err := git(append(args, paths...)...)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(names, "\x00"), "\x00") {
		source, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) { // deleted, and not yet committed
			continue
		}
		if err == nil {
			err = do(name, source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// git returns what a command of git prints.
func git(args ...string) (string, error) {
	//nolint:gosec,noctx // the arguments are paths, and git ends by itself
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}
