// Containers checks the Dockerfile, the compose file and the manifests of the Helm chart. It needs
// no Docker engine and no cluster:
//
//	containers dockerfile <Dockerfile>          prints the RUN instructions of the build
//	containers context <directory> <new one>    copies what .dockerignore lets through
//	containers compose <compose.yaml>
//	containers images <Dockerfile> <compose.yaml>              prints the images that the files pull
//	containers pinned <Dockerfile> <compose.yaml> <exceptions> checks that each has a digest
//	containers chart                            reads what helm template prints from standard input
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: containers dockerfile|context|compose|images|pinned|chart")
	}
	switch name, args := args[0], args[1:]; {
	case name == "dockerfile" && len(args) == 1:
		return checkDockerfile(args[0])
	case name == "context" && len(args) == 2:
		return copyContext(args[0], args[1])
	case name == "compose" && len(args) == 1:
		return checkCompose(context.Background(), args[0])
	case name == "images" && len(args) == 2:
		all, err := images(context.Background(), args[0], args[1])
		for _, image := range all {
			fmt.Println(image)
		}
		return err
	case name == "pinned" && len(args) == 3:
		return checkPinned(context.Background(), args[0], args[1], args[2])
	case name == "chart" && len(args) == 0:
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		return checkChart(text)
	default:
		return fmt.Errorf("containers %s: no such check, or not its arguments", name)
	}
}

// findings collects the errors in a file.
type findings struct {
	file string
	errs []error
}

// want adds an error unless holds is true. The format says what the file must have.
func (f *findings) want(holds bool, format string, args ...any) {
	if !holds {
		f.errs = append(f.errs, fmt.Errorf("%s: want %s", f.file, fmt.Sprintf(format, args...)))
	}
}

func (f *findings) err() error { return errors.Join(f.errs...) }
