// Assemble makes parts of a release: third-party notices, archives and the image. packaging/build
// calls it. The output depends only on the arguments and on the files that they name.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const usage = `usage:
	assemble notices <goos>/<goarch>                    print the licences of what the command links
  assemble archive <file.tar.gz> <time> <from>=<to>   with the files under their names <to>
  assemble image <file.tar> <time> <Dockerfile> <version> <commit> <roots.pem> <goarch>=<command>`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "assemble:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "notices":
		return printNotices(context.Background(), os.Stdout, args[1])
	case len(args) >= 4 && args[0] == "archive":
		at, err := timeOf(args[2])
		if err != nil {
			return err
		}
		return writeArchive(args[1], at, args[3:])
	case len(args) >= 8 && args[0] == "image":
		at, err := timeOf(args[2])
		if err != nil {
			return err
		}
		i := image{at: at, version: args[4], revision: args[5], roots: args[6]}
		return i.write(args[1], args[3], args[7:])
	default:
		return errors.New(usage)
	}
}

// timeOf reads seconds since 1970.
func timeOf(text string) (time.Time, error) {
	var seconds int64
	if _, err := fmt.Sscan(text, &seconds); err != nil {
		return time.Time{}, fmt.Errorf("time %q: not seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
