// Feedfilter is the service that tells a feed which candidates a viewer must not
// see, and the commands around its data. "feedfilter --help" lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// The command exits with 0, one of these, or 128 and the number of the signal that
// ended it early.
const (
	exitFailure = 1
	exitUsage   = 2
)

type cli struct {
	Serve   serveCmd    `cmd:"" help:"Run the service."`
	Import  importCmd   `cmd:"" help:"Import activities from a CSV or NDJSON file."`
	Export  exportCmd   `cmd:"" help:"Export the activities of the ledger as NDJSON."`
	Doctor  doctorCmd   `cmd:"" help:"Check what the service would work with, and say what to do."`
	Plan    planCmd     `cmd:"" help:"Size a deployment: memory, shards, network and cost, beside exact sets and RedisBloom."`
	Reshape reshapeCmd  `cmd:"" help:"Change the number of pages while the service runs."`
	Inspect inspectCmds `cmd:"" help:"Look inside a page, a user or an activity: what the page says, and what the ledger says."`
	Rebuild rebuildCmd  `cmd:"" help:"Make pages anew from the ledger while the service runs."`
	Scrub   scrubCmd    `cmd:"" help:"Compare every page with the ledger now, and make anew what is amiss."`
	Health  healthCmd   `cmd:"" help:"Ask a service whether it can answer feeds; exit with 0 if so, else with 1."`
	Bench   benchCmds   `cmd:"" help:"Measure feed checks and writes on this machine."`
	Version versionCmd  `cmd:"" help:"Print the version."`
}

// BeforeResolve is called by kong when the command line and the environment are
// known, and before anything else may supply a flag.
func (*cli) BeforeResolve(command *kong.Context) error { return addConfigFile(command) }

// stdio is what a command reads and writes.
type stdio struct {
	in, out, err *os.File
}

// note writes a line to std.err. There is nowhere to report that it fails.
func (std stdio) note(line string) { _, _ = fmt.Fprintln(std.err, line) }

func main() {
	os.Exit(run(os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// run runs the command that args name, says on std.err what went wrong, and returns
// the exit code.
func run(args []string, std stdio) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	err := execute(ctx, args, std)
	if err == nil {
		return 0
	}
	// One line: errors that were joined have one each.
	std.note("feedfilter: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitCode(err)
}

func execute(ctx context.Context, args []string, std stdio) error {
	parser, err := newParser(&cli{}, std)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return fmt.Errorf("%w (see %s --help)", err, commandOf(parser, err))
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return command.Run(std)
}

func newParser(commands *cli, std stdio) (*kong.Kong, error) {
	return kong.New(commands,
		kong.Name("feedfilter"),
		kong.Description(description),
		kong.DefaultEnvars("FEEDFILTER"),
		flagHelp(),
		kong.ValueFormatter(withDefault),
		kong.Writers(std.out, std.err))
}

// commandOf names the command that arguments were refused for.
func commandOf(parser *kong.Kong, err error) string {
	var refused *kong.ParseError
	if errors.As(err, &refused) && refused.Context != nil {
		if node := refused.Context.Selected(); node != nil {
			return node.FullPath()
		}
	}
	return parser.Model.Name
}

// usageError is about a command line that cannot be followed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal os.Signal }

func (e interruption) Error() string { return "interrupted (" + e.signal.String() + ")" }

func exitCode(err error) int {
	var parse *kong.ParseError
	var usage usageError
	var interrupted interruption
	switch {
	case errors.As(err, &parse), errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &interrupted):
		if number, ok := interrupted.signal.(syscall.Signal); ok {
			return 128 + int(number)
		}
	}
	return exitFailure
}

// untilSignal returns a context that ends, with an interruption as its cause, at the
// first SIGINT or SIGTERM. The second one ends the process at once.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(interruption{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(context.Canceled)
	}
}
