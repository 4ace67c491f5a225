package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// checkDockerfile parses the file as BuildKit does. Every warning of BuildKit is an error.
func checkDockerfile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	f := &findings{file: name}
	parsed, err := parser.Parse(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		f.want(false, "no %s: %s", rule, message)
	}})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.want(len(parsed.Warnings) == 0, "no warnings: %v", parsed.Warnings)
	for _, s := range stages {
		first, rest, path := strings.Cut(s.BaseName, "/")
		f.want(
			!path || !strings.ContainsAny(first, ".:") && rest != "", "no registry named: %s", s.BaseName,
		)
		f.want(
			s.BaseName == "scratch" || tagOf(s.BaseName) != "" && tagOf(s.BaseName) != "latest",
			"a tag of %s", s.BaseName,
		)
	}
	final := stages[len(stages)-1]
	f.want(len(stages) == 2 && final.BaseName == "scratch", "two stages, the last from scratch")
	toolchain, err := toolchainOf(filepath.Join(filepath.Dir(name), "go.mod"))
	if err != nil {
		return err
	}
	// The golang image uses only the version of Go that it contains, not the one that go.mod asks
	// for.
	f.want(
		strings.HasPrefix(stages[0].BaseName, "golang:"+toolchain+"-"),
		"Go %s, which go.mod asks for: %s", toolchain, stages[0].BaseName,
	)
	checkFinal(f, final)
	for _, c := range stages[0].Commands {
		if c, ok := c.(*instructions.RunCommand); ok {
			fmt.Println(strings.Join(c.CmdLine, " "))
		}
	}
	return f.err()
}

// toolchainOf returns the version of Go that a go.mod asks for, such as 1.26.3.
func toolchainOf(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "toolchain go"); ok {
			return version, nil
		}
	}
	return "", fmt.Errorf("%s: no toolchain", name)
}

// checkFinal checks the last stage, which becomes the image.
func checkFinal(f *findings, stage instructions.Stage) {
	var user, stop string
	var health, entry, data bool
	for _, c := range stage.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.StopSignalCommand:
			stop = c.Signal
		case *instructions.HealthCheckCommand:
			health = slices.Equal(c.Health.Test, []string{"CMD", "/usr/bin/feedfilter", "health"})
		case *instructions.EntrypointCommand:
			entry = !c.PrependShell && slices.Equal([]string(c.CmdLine), []string{"/usr/bin/feedfilter"})
		case *instructions.VolumeCommand:
			data = slices.Equal(c.Volumes, []string{"/data"})
		case *instructions.EnvCommand:
			for _, e := range c.Env {
				f.want(
					e.Key != "FEEDFILTER_INSECURE_NO_AUTH",
					"no FEEDFILTER_INSECURE_NO_AUTH in the image: its user must set it",
				)
			}
		case *instructions.RunCommand:
			f.want(false, "nothing run in the last stage, which has no shell")
		}
	}
	f.want(user == "65532:65532", "user 65532:65532, by number")
	f.want(stop == "SIGTERM", "SIGTERM to stop")
	f.want(health, "the health check of feedfilter itself")
	f.want(entry, "feedfilter as the entry point, without a shell")
	f.want(data, "a volume /data")
}

// copyContext copies the build context: the files of a directory that .dockerignore does not
// exclude.
func copyContext(from, to string) error {
	file, err := os.Open(filepath.Join(from, ".dockerignore"))
	if err != nil {
		return err
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return err
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == from {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		skip, err := ignored.MatchesOrParentMatches(name)
		switch {
		case err != nil:
			return err
		case skip && entry.IsDir() && !ignored.Exclusions():
			return filepath.SkipDir
		case skip || !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o644)
	})
}
