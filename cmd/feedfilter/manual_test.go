package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/manual"
	"github.com/feedfilter/feedfilter/internal/settings"
)

// updated reports whether what tests compare with is to be written anew: `make docs` says so.
func updated() bool { return os.Getenv("UPDATE") != "" }

// model is that of the command.
func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := newParser(&cli{}, stdio{os.Stdin, os.Stdout, os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// TestCommandReference compares docs/COMMAND.md with the commands that there are.
func TestCommandReference(t *testing.T) {
	const name = "../../docs/COMMAND.md"
	text := program().Markdown(model(t))
	if updated() {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != text {
		t.Error("docs/COMMAND.md is not as the commands are: run make docs")
	}
}

// leaves are the commands that can be run.
func leaves(t *testing.T, app *kong.Application) []*kong.Node {
	t.Helper()
	all := app.Leaves(true)
	if len(all) < 10 {
		t.Fatalf("%d commands", len(all))
	}
	return all
}

// TestExamples has every command show examples in its help, and understand them.
func TestExamples(t *testing.T) {
	shown, all := make(map[string]bool), examples()
	for _, node := range leaves(t, model(t)) {
		if len(all[node.Path()]) == 0 {
			t.Errorf("%s has no example: add one to examples.txt", node.FullPath())
		}
		for _, line := range all[node.Path()] {
			shown[line] = true
			if !strings.Contains(node.Detail, "\n    "+line) {
				t.Errorf("the help of %s lacks %s", node.FullPath(), line)
			}
		}
	}
	none := stdio{os.Stdin, os.Stdout, os.Stderr}
	for command, lines := range all {
		for _, line := range lines {
			found := regexp.MustCompile(`(?:^|[ (])feedfilter( [^|>&)]*)`).FindStringSubmatch(line)
			if found == nil {
				t.Errorf("%s is no example", line)
				continue
			}
			parser, err := newParser(&cli{}, none)
			if err != nil {
				t.Fatal(err)
			}
			// The file of settings that an example names is not there.
			args := strings.Fields(regexp.MustCompile(`--config \S+`).ReplaceAllString(found[1], ""))
			resolved, err := settings.Resolve(t.Context(), parser, envPrefix, args)
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			// "bench" is "bench goals"; "config" shows one of its commands.
			if path := resolved.Command.Selected().Path(); !strings.HasPrefix(path, command) && !strings.HasPrefix(command, path) {
				t.Errorf("%s is an example of %s, not of %s", line, path, command)
			}
		}
	}
}

// TestManPages has the tools that read man pages find nothing wrong with any.
func TestManPages(t *testing.T) {
	app := model(t)
	p := program()
	p.Date = "2026-11-22" // which a build outside of git does not know
	dir := t.TempDir()
	pages := p.Pages(app)
	var names []string
	for name, text := range pages {
		name = filepath.Join(dir, name)
		names = append(names, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range leaves(t, app) {
		name := strings.ReplaceAll(node.FullPath(), " ", "-") + ".1"
		for _, flag := range node.Flags {
			if !flag.Hidden && !strings.Contains(pages[name], `\-\-`+strings.ReplaceAll(flag.Name, "-", `\-`)) {
				t.Errorf("%s lacks --%s", name, flag.Name)
			}
		}
	}
	checked := false
	for _, tool := range [][]string{{"mandoc", "-Tlint", "-Wwarning"}, {"groff", "-ww", "-man", "-z", "-Tutf8"}} {
		if _, err := exec.LookPath(tool[0]); err != nil {
			continue
		}
		checked = true
		out, err := exec.CommandContext(t.Context(), tool[0], append(tool[1:], names...)...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", tool[0], err, out)
		}
	}
	if !checked {
		t.Log("neither mandoc nor groff is here: the pages were not read by either")
	}
}

// TestManual prints and writes pages.
func TestManual(t *testing.T) {
	wantContains(t, feedfilter(t, 0, "man").stdout, `.TH "FEEDFILTER" 1 `, `\fBfeedfilter\-serve\fR(1)`, ".SH EXIT STATUS")
	wantContains(t, feedfilter(t, 0, "man", "bench", "growth").stdout, `.TH "FEEDFILTER-BENCH-GROWTH" 1 `, `\-\-redis`)
	wantContains(t, feedfilter(t, exitUsage, "man", "complete").stderr, `feedfilter has no command "complete"`)
	wantContains(t, feedfilter(t, exitUsage, "man", "--dir", "x", "serve").stderr, "--dir: all pages are written")
	dir := filepath.Join(t.TempDir(), "new", "man1")
	feedfilter(t, 0, "man", "--dir", dir)
	written, err := filepath.Glob(filepath.Join(dir, "feedfilter*.1"))
	if want := len((&manual.Program{}).Pages(model(t))); err != nil || len(written) != want || want < 15 {
		t.Errorf("%d pages, %v, want %d", len(written), err, want)
	}
}
