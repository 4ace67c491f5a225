//go:build unix

// Package doctest runs the commands of a document, so that the document stays true.
//
// bash runs the blocks between ```sh and ``` one after another in one shell. Variables, the working
// directory and background processes last until the end of the document. As with set -euo pipefail,
// the first failing command ends the run. A block ```output or ```json after a block of commands is
// the expected standard output. In it, ... stands for any text within a line and, alone on a line,
// for any number of lines. The layout of JSON may differ. Other blocks are for readers only.
package doctest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Config says where and how the commands of a document are run.
type Config struct {
	// Replace maps words of the document, such as an address, to their values in the test. Longer
	// words are replaced first.
	Replace map[string]string
	// Path lists directories with commands. They come before the directories of PATH.
	Path []string
	// Env lists further variables as NAME=value.
	Env []string
	// Files are the files at the start, by name.
	Files map[string]string
	// AtEnd, if not nil, is called after the last command and before the processes that are left
	// are ended.
	AtEnd func()
	// Timeout is the upper bound for all commands together. Default: 2 minutes.
	Timeout time.Duration
}

// Run runs the commands of a document in a new directory, and ends the processes that they leave.
// It fails the test with the failing block, its line and its output.
func Run(t testing.TB, document string, c Config) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), string(text), t.TempDir(), c); err != nil {
		t.Fatalf("%s:%v", document, err)
	}
}

// block is a block of commands that the test runs.
type block struct {
	line  int // number of its first line
	text  string
	want  string // of the output block that follows
	wants bool
}

// parse returns the blocks to run.
func parse(document string) ([]block, error) {
	all, err := Blocks(document)
	if err != nil {
		return nil, err
	}
	var blocks []block
	previous := "" // info of the previous block
	for _, b := range all {
		switch {
		case b.Info == "sh":
			blocks = append(blocks, block{line: b.Line, text: b.Text})
		case b.Info != "output" && b.Info != "json":
		case previous == "sh":
			last := &blocks[len(blocks)-1]
			last.want, last.wants = b.Text, true
		case b.Info == "output":
			return nil, fmt.Errorf("%d: an output without a command", b.Line)
		}
		previous = b.Info
	}
	if len(blocks) == 0 {
		return nil, errors.New("0: there is nothing to run")
	}
	return blocks, nil
}

// run runs the commands of a document in dir.
func run(ctx context.Context, document, dir string, c Config) error {
	blocks, err := parse(document)
	if err != nil {
		return err
	}
	notes, err := os.MkdirTemp("", "doctest")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(notes) }()
	for name, text := range c.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	failed := c.bash(ctx, script(blocks, notes, c), dir)
	if failed != nil && ctx.Err() != nil {
		failed = fmt.Errorf("not done after %v", c.Timeout)
	}
	return judge(blocks, notes, failed)
}

// judge returns an error if a block failed or its output differs. Only the last block that was
// reached can have failed.
func judge(blocks []block, notes string, failed error) error {
	begun, _ := filepath.Glob(filepath.Join(notes, "*.out")) // the pattern is sound
	if len(begun) == 0 {
		return fmt.Errorf("0: nothing was run: %w", failed)
	}
	reached := len(begun) - 1
	for i, b := range blocks[:reached+1] {
		stdout, _ := os.ReadFile(filepath.Join(notes, strconv.Itoa(i)+".out"))
		stderr, _ := os.ReadFile(filepath.Join(notes, strconv.Itoa(i)+".err"))
		switch {
		case i == reached && failed != nil:
			return fmt.Errorf(
				"%d: %w\n%s--- standard output:\n%s--- standard error:\n%s",
				b.line, failed, b.text, stdout, stderr,
			)
		case b.wants && !matches(b.want, string(stdout)):
			return fmt.Errorf(
				"%d: the output differs\n%s--- got:\n%s--- want:\n%s--- standard error:\n%s",
				b.line, b.text, stdout, b.want, stderr,
			)
		}
	}
	return nil
}

// script returns the script for bash. Each block writes its output to its own files.
func script(blocks []block, notes string, c Config) string {
	byLength := func(a, b string) int { return len(b) - len(a) }
	longestFirst := slices.SortedFunc(maps.Keys(c.Replace), byLength)
	pairs := make([]string, 0, 2*len(longestFirst))
	for _, from := range longestFirst { // a replacer uses the first match
		pairs = append(pairs, from, c.Replace[from])
	}
	replace := strings.NewReplacer(pairs...)
	var s strings.Builder
	s.WriteString("set -euo pipefail\n")
	for i, b := range blocks {
		file := filepath.Join(notes, strconv.Itoa(i))
		fmt.Fprintf(&s, "exec >'%s.out' 2>'%s.err'\n%s\n", file, file, replace.Replace(b.text))
	}
	return s.String()
}

// bash runs a script, and ends all processes that it has started.
func (c Config) bash(ctx context.Context, script, dir string) error {
	//nolint:gosec // the document's commands
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-c", script)
	cmd.Dir = dir
	dirs := append(append([]string(nil), c.Path...), os.Getenv("PATH"))
	path := strings.Join(dirs, string(os.PathListSeparator))
	cmd.Env = append(append(os.Environ(), "PATH="+path, "HOME="+dir), c.Env...)
	// All processes are in one group, so that they can be killed together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	if c.AtEnd != nil {
		c.AtEnd()
	}
	// bash has ended. Its process id stays the id of the group while the group has processes.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return err
}

// matches reports whether the output equals the expected one.
func matches(want, got string) bool {
	if matchesLines(want, got) {
		return true
	}
	shown, ok := compact(want)
	compacted, isJSON := compact(got)
	return ok && isJSON && matchesLines(shown, compacted)
}

func matchesLines(want, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for line := range strings.Lines(strings.TrimRight(want, "\n") + "\n") {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `[^\n]*?`))
	}
	pattern.WriteString(`\z`)
	return regexp.MustCompile(pattern.String()).MatchString(strings.TrimRight(got, "\n") + "\n")
}

// compact removes the white space between the tokens of JSON, which may contain "...". ok is false
// if the text is not JSON.
func compact(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return "", false
	}
	var b strings.Builder
	inString, escaped := false, false
	for _, c := range text {
		if inString || !strings.ContainsRune(" \t\r\n", c) {
			b.WriteRune(c)
		}
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		}
	}
	return b.String(), !inString
}
