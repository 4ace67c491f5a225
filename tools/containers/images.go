package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// pinned matches an image that has a tag and a digest. Docker pulls by the digest; the tag is for
// readers.
var pinned = regexp.MustCompile(`^[^@]+:[^:@/]+@sha256:[0-9a-f]{64}$`)

// tagOf returns the tag of an image, "" if it has none.
func tagOf(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return tag
}

// images returns the images that a Dockerfile and a compose file pull, without duplicates.
func images(ctx context.Context, dockerfile, compose string) ([]string, error) {
	all, err := dockerfileImages(dockerfile)
	if err != nil {
		return nil, err
	}
	options, err := cli.NewProjectOptions(
		[]string{compose}, cli.WithEnv([]string{"POSTGRES_PASSWORD=x"}),
	)
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", compose, err)
	}
	for _, s := range project.Services {
		if s.Build == nil {
			all = append(all, s.Image)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// dockerfileImages returns the images that the FROM and COPY --from instructions of a Dockerfile
// name. It leaves out scratch and earlier stages.
func dockerfileImages(name string) (all []string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, s := range stages {
		from := []string{s.BaseName}
		for _, c := range s.Commands {
			if c, ok := c.(*instructions.CopyCommand); ok {
				from = append(from, c.From)
			}
		}
		for _, image := range from {
			_, stage := instructions.HasStage(stages[:i], image)
			if number, err := strconv.Atoi(image); err == nil && number < i {
				stage = true
			}
			if image != "" && image != "scratch" && !stage {
				all = append(all, image)
			}
		}
	}
	return all, nil
}

// exceptions reads the images that need no digest. Each line of the file is "<image> <reason>".
func exceptions(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		image, reason, _ := strings.Cut(line, " ")
		all[image] = strings.TrimSpace(reason)
	}
	return all, nil
}

// checkPinned returns an error for each image without a digest, unless the file of exceptions lists
// it with a reason. An exception that no image needs is also an error.
func checkPinned(ctx context.Context, dockerfile, compose, excepted string) error {
	all, err := images(ctx, dockerfile, compose)
	if err != nil {
		return err
	}
	reasons, err := exceptions(excepted)
	if err != nil {
		return err
	}
	f := &findings{file: filepath.Base(dockerfile) + ", " + filepath.Base(compose)}
	for _, image := range all {
		reason, exempt := reasons[image]
		if exempt {
			f.want(reason != "", "a reason why %s has no digest, in %s", image, excepted)
			fmt.Fprintf(os.Stderr, "NOT PINNED by digest: %s: %s\n", image, reason)
			delete(reasons, image)
			continue
		}
		f.want(pinned.MatchString(image), "a tag and a digest of %s: run scripts/pin-images", image)
	}
	for image := range reasons {
		f.want(false, "no exception for %s in %s: nothing pulls it without a digest", image, excepted)
	}
	return f.err()
}
