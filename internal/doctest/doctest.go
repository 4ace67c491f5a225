//go:build unix

// Package doctest runs the commands of a document, so that it stays true.
//
// What stands between ```sh and ``` is run by bash, one block after another in one shell:
// variables, the working directory and background processes last to the end of the document. The
// first command that fails ends it, as with set -euo pipefail. A block ```output or ```json after
// such a one is what that has to write to its standard output, where ... stands for any text within
// a line and, alone on its line, for any lines. JSON may be laid out in another way. Blocks with
// other words after the ``` are for readers.
package doctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Config says where and how the commands of a document are run.
type Config struct {
	// Replace are words of the document that stand for something else in the test, such as an
	// address, by what they stand for. Longer ones go first.
	Replace map[string]string
	// Path has directories with commands, before those of the PATH.
	Path []string
	// Env are further variables, NAME=value.
	Env []string
	// Files are what is there at the start, by name.
	Files map[string]string
	// AtEnd is called when all commands have ended, before what they have left running is ended;
	// nil: nothing is.
	AtEnd func()
	// Timeout ends the commands, all together. Default: 2 minutes.
	Timeout time.Duration
}

// Run runs the commands of a document in a directory of their own, and ends what they have left
// running. It fails the test with the block that failed, its line, and what it wrote.
func Run(t testing.TB, document string, c Config) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := run(t.Context(), string(text), t.TempDir(), c)
	for _, b := range blocks {
		t.Logf("%s:%d: took %v", filepath.Base(document), b.line, b.took)
	}
	if err != nil {
		t.Fatalf("%s:%v", document, err)
	}
}

// block is a block of commands that the test runs.
type block struct {
	line  int // of its first line
	text  string
	want  string // of the output block that follows
	wants bool
	took  time.Duration // by the clock of bash, if the next one was reached
}

// parse returns the blocks to run.
func parse(document string) ([]block, error) {
	all, err := Blocks(document)
	if err != nil {
		return nil, err
	}
	var blocks []block
	previous := "" // the info of the block before
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

// run runs the commands of a document in dir, and returns the blocks.
func run(ctx context.Context, document, dir string, c Config) ([]block, error) {
	blocks, err := parse(document)
	if err != nil {
		return nil, err
	}
	notes, err := os.MkdirTemp("", "doctest")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(notes) }()
	for name, text := range c.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
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
	return blocks, judge(blocks, notes, failed)
}

// judge returns what is wrong with what the blocks have done, of which the one that was reached
// last may have failed.
func judge(blocks []block, notes string, failed error) error {
	at, _ := os.ReadFile(filepath.Join(notes, "at"))
	lines := strings.Fields(string(at))
	if len(lines) == 0 {
		return fmt.Errorf("0: nothing was run: %w", failed)
	}
	reached := min(len(lines), len(blocks)) - 1
	for i := range lines[1:] {
		blocks[i].took = between(lines[i], lines[i+1])
	}
	for i, b := range blocks[:reached+1] {
		stdout, _ := os.ReadFile(filepath.Join(notes, strconv.Itoa(i)+".out"))
		stderr, _ := os.ReadFile(filepath.Join(notes, strconv.Itoa(i)+".err"))
		switch {
		case i == reached && failed != nil:
			return fmt.Errorf("%d: %w\n%s--- standard output:\n%s--- standard error:\n%s", b.line, failed, b.text, stdout, stderr)
		case b.wants && !matches(b.want, string(stdout)):
			return fmt.Errorf("%d: the output differs\n%s--- got:\n%s--- want:\n%s--- standard error:\n%s",
				b.line, b.text, stdout, b.want, stderr)
		}
	}
	return nil
}

// between is from one time of bash, in seconds, to another; some languages have a comma in these.
func between(from, to string) time.Duration {
	a, err := strconv.ParseFloat(strings.Replace(from, ",", ".", 1), 64)
	b, err2 := strconv.ParseFloat(strings.Replace(to, ",", ".", 1), 64)
	if err != nil || err2 != nil {
		return 0
	}
	return time.Duration((b - a) * float64(time.Second)).Round(time.Millisecond)
}

// script is what bash is to run: each block with files of its own for what it writes.
func script(blocks []block, notes string, c Config) string {
	pairs := make([]string, 0, 2*len(c.Replace))
	for from, to := range c.Replace {
		pairs = append(pairs, from, to)
	}
	longestFirst(pairs)
	replace := strings.NewReplacer(pairs...)
	var s strings.Builder
	s.WriteString("set -euo pipefail\n")
	for i, b := range blocks {
		file := func(name string) string { return "'" + filepath.Join(notes, name) + "'" }
		n := strconv.Itoa(i)
		fmt.Fprintf(&s, "echo $EPOCHREALTIME >>%s\nexec >%s 2>%s\n%s\n", file("at"), file(n+".out"), file(n+".err"), replace.Replace(b.text))
	}
	fmt.Fprintf(&s, "echo $EPOCHREALTIME >>'%s'\n", filepath.Join(notes, "at"))
	return s.String()
}

// longestFirst sorts pairs of words and what they stand for: a replacer takes the first that fits.
func longestFirst(pairs []string) {
	for i := 2; i < len(pairs); i += 2 {
		for j := i; j > 0 && len(pairs[j]) > len(pairs[j-2]); j -= 2 {
			pairs[j], pairs[j-2] = pairs[j-2], pairs[j]
			pairs[j+1], pairs[j-1] = pairs[j-1], pairs[j+1]
		}
	}
}

// bash runs a script, and ends all that it has started.
func (c Config) bash(ctx context.Context, script, dir string) error {
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-c", script) //nolint:gosec // the document's commands
	cmd.Dir = dir
	path := strings.Join(append(append([]string(nil), c.Path...), os.Getenv("PATH")), string(os.PathListSeparator))
	cmd.Env = append(append(os.Environ(), "PATH="+path, "HOME="+dir), c.Env...)
	// In a group of their own, which ends as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	if c.AtEnd != nil {
		c.AtEnd()
	}
	// bash is gone, and its number still the group's as long as anything of that is left.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return err
}

// matches reports whether the output is the one in the document.
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

// compact takes the white space between tokens out of JSON, which may have ... in it; not ok: it is
// none.
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
