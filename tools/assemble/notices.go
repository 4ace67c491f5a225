package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// linked is a package that the command links, as go list prints it.
//
//nolint:tagliatelle // the names are those of go list
type linked struct {
	Dir        string   `json:"Dir"`
	Standard   bool     `json:"Standard"`
	EmbedFiles []string `json:"EmbedFiles"`
	Module     *struct {
		Path    string `json:"Path"`
		Version string `json:"Version"`
		Dir     string `json:"Dir"`
		Main    bool   `json:"Main"`
	} `json:"Module"`
}

// notices maps the text of a licence or notice to the names of the modules that it is for.
type notices map[string][]string

// printNotices prints the licences of the modules that the command links on a platform, of Go's
// library, and of what the command embeds. A module without a licence is an error.
func printNotices(ctx context.Context, out io.Writer, platform string) error {
	packages, err := list(ctx, platform)
	if err != nil {
		return err
	}
	all := make(notices)
	licensed := make(map[string]bool)
	for _, p := range packages {
		if p.Standard {
			continue
		}
		name, dirs := p.places()
		licensed[name] = licensed[name] || p.Module.Main
		for _, dir := range dirs {
			found, err := all.add(name, dir)
			if err != nil {
				return err
			}
			licensed[name] = licensed[name] || found
		}
	}
	for name, found := range licensed {
		if !found {
			return fmt.Errorf("%s: no file with a licence", name)
		}
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	if found, err := all.add("Go", strings.TrimSpace(string(root))); err != nil || !found {
		return errors.Join(err, errors.New("go: no file with a licence"))
	}
	return all.print(out)
}

// list returns the packages that the command links.
func list(ctx context.Context, platform string) ([]linked, error) {
	system, processor, _ := strings.Cut(platform, "/")
	command := exec.CommandContext(
		ctx, "go", "list", "-deps", "-json=Dir,Standard,EmbedFiles,Module", "./cmd/feedfilter",
	)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return nil, err
	}
	var all []linked
	for decoder := json.NewDecoder(bytes.NewReader(text)); decoder.More(); {
		var p linked
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// places returns the module and version of a package, and the directories that may hold its
// licences. For another module, those are the directories from the package up to the module. For
// this module, they are the directories of the files that it embeds.
func (p *linked) places() (name string, dirs []string) {
	if p.Module.Main {
		for _, file := range p.EmbedFiles {
			if dir := filepath.Dir(filepath.Join(p.Dir, file)); dir != p.Module.Dir {
				dirs = append(dirs, dir)
			}
		}
		slices.Sort(dirs)
		return "web pages that the service shows", slices.Compact(dirs)
	}
	for dir := p.Dir; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == p.Module.Dir {
			return p.Module.Path + " " + p.Module.Version, dirs
		}
	}
}

// add adds the licences and notices in a directory, and reports whether there are any.
func (n notices) add(name, dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	found := false
	for _, entry := range entries {
		if !isNotice(entry.Name()) || entry.IsDir() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return false, err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n")) + "\n"
		if !slices.Contains(n[text], name) {
			n[text] = append(n[text], name)
		}
		found = true
	}
	return found, nil
}

func isNotice(file string) bool {
	names := regexp.MustCompile(`(?i)(^(un)?licen[cs]e|^copying|^notice|^patents|licen[cs]e\.txt$)`)
	return names.MatchString(file) && !strings.HasSuffix(file, ".go")
}

// print writes every text once, below the names of its modules.
func (n notices) print(out io.Writer) error {
	var text strings.Builder
	text.WriteString("feedfilter contains the following software, under the licences below.\n")
	for _, names := range n {
		slices.Sort(names)
	}
	order := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		if by := slices.Compare(n[a], n[b]); by != 0 {
			return by
		}
		return strings.Compare(a, b)
	})
	rule := strings.Repeat("=", 100)
	for _, notice := range order {
		fmt.Fprintf(&text, "\n%s\n\n%s\n\n%s", rule, strings.Join(n[notice], "\n"), notice)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
