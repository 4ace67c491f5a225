// Feedfilter is the service that tells a feed which candidates a viewer must not
// see, and the commands around its data. "feedfilter --help" lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/settings"
)

// The command exits with 0, one of these, or 128 and the number of the signal that
// ended it early.
const (
	exitFailure = 1
	exitUsage   = 2
)

// envPrefix begins the names of the variables that set flags.
const envPrefix = "FEEDFILTER"

type cli struct {
	Serve      serveCmd      `cmd:"" help:"Run the service."`
	Import     importCmds    `cmd:"" help:"Import activities from a CSV or NDJSON file, or from sets in Redis."`
	Export     exportCmd     `cmd:"" help:"Export the activities of the ledger as NDJSON."`
	Compare    compareCmds   `cmd:"" help:"Compare what the service has with an app's sets in Redis, or a file."`
	Doctor     doctorCmd     `cmd:"" help:"Check what the service would work with, and say what to do."`
	Plan       planCmd       `cmd:"" help:"Size a deployment: memory, shards, network and cost, beside exact sets and RedisBloom."`
	Reshape    reshapeCmd    `cmd:"" help:"Raise the number of pages while the service runs."`
	Inspect    inspectCmds   `cmd:"" help:"Look inside a page, a user or an activity: what the page says, and what the ledger says."`
	Rebuild    rebuildCmd    `cmd:"" help:"Make pages anew from the ledger while the service runs."`
	Scrub      scrubCmd      `cmd:"" help:"Compare every page with the ledger now, and make anew what is amiss."`
	Token      tokenCmds     `cmd:"" help:"Make and look at tokens, which --auth-file asks for."`
	HashID     hashIDCmd     `cmd:"" help:"Print what logs show of ids."`
	Health     healthCmd     `cmd:"" help:"Ask a service whether it can answer feeds; exit with 0 if so, else with 1."`
	Bench      benchCmd      `cmd:"" help:"Measure feed checks, writes and rebuilds, and compare them with the project's goals."`
	Config     configCmds    `cmd:"" help:"Check or print the settings of the service."`
	Completion completionCmd `cmd:"" help:"Print what a shell needs to complete command lines of feedfilter."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

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
	hangups() // end nothing: to a service they say that its settings may have changed, to others nothing
	ctx, stop := untilSignal(context.Background())
	defer stop()
	err := execute(ctx, args, std)
	if err == nil {
		return 0
	}
	if _, told := errors.AsType[toldError](err); !told {
		stop() // a signal ends the process if nobody reads std.err
		complain(std.err, err)
	}
	return exitCode(err)
}

// toldError is one that the command has told of itself.
type toldError struct{ error }

func (e toldError) Unwrap() error { return e.error }

// complain writes what went wrong: a line, or one for each mistake in the settings. There is
// nowhere to report that it fails.
func complain(to io.Writer, err error) {
	note := func(line string) { _, _ = fmt.Fprintln(to, line) }
	var wrong *settings.MistakesError
	if !errors.As(err, &wrong) {
		// One line: errors that were joined have one each, and pgx's are a list.
		note("feedfilter: " + strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ").Replace(err.Error()))
		return
	}
	help := "(see " + wrong.Command + " --help)"
	if len(wrong.Mistakes) == 1 {
		note(fmt.Sprintf("feedfilter: %s %s", wrong.Mistakes[0], help))
		return
	}
	for _, mistake := range wrong.Mistakes {
		note("feedfilter: " + mistake)
	}
	note(fmt.Sprintf("feedfilter: %d mistakes %s", len(wrong.Mistakes), help))
}

func execute(ctx context.Context, args []string, std stdio) error {
	if done, err := answerShell(std); done {
		return err
	}
	chosen, err := invoke(ctx, args, std)
	if err != nil {
		return err
	}
	return chosen.run(ctx, std)
}

// invocation is a command line, and what it came to.
type invocation struct {
	args     []string
	std      stdio
	commands *cli
	command  *settings.Command
}

// run runs the command that was chosen. A command has one of these methods.
func (i *invocation) run(ctx context.Context, std stdio) error {
	switch command := i.command.Selected().Target.Addr().Interface().(type) {
	case interface{ Run(std stdio) error }:
		return command.Run(std)
	case interface {
		Run(std stdio, chosen *invocation) error
	}:
		return command.Run(std, i)
	case interface {
		Run(ctx context.Context, std stdio) error
	}:
		return command.Run(ctx, std)
	case interface {
		Run(ctx context.Context, std stdio, chosen *invocation) error
	}:
		return command.Run(ctx, std, i)
	default:
		return fmt.Errorf("%s: %T has no method Run that takes what commands get", i.command.Command(), command)
	}
}

// invoke finds out which command is to run, and with what settings.
func invoke(ctx context.Context, args []string, std stdio) (*invocation, error) {
	commands := &cli{}
	parser, err := newParser(commands, std)
	if err != nil {
		return nil, err
	}
	command, err := settings.Parse(ctx, parser, envPrefix, meant(args), tokenVariable)
	if err != nil {
		return nil, err
	}
	return &invocation{args, std, commands, command}, nil
}

// meant are args, where they are what other programs take in place of "version" and "--help".
func meant(args []string) []string {
	switch {
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	default:
		return args
	}
}

// again finds out what the same command line comes to by now.
func (i *invocation) again(ctx context.Context) (*invocation, error) {
	return invoke(ctx, i.args, i.std)
}

func newParser(commands *cli, std stdio) (*kong.Kong, error) {
	parser, err := kong.New(commands,
		kong.Name("feedfilter"),
		kong.Description(description),
		kong.Help(printHelp),
		flagHelp(),
		kong.ValueFormatter(withDefault),
		kong.Writers(std.out, std.err))
	if err != nil {
		return nil, err
	}
	settings.Variables(parser.Model.Node, envPrefix)
	addExamples(parser.Model.Node, examples())
	return parser, nil
}

// usageError is about a command line that cannot be followed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal os.Signal }

func (e interruption) Error() string { return "interrupted (" + e.signal.String() + ")" }

func exitCode(err error) int {
	var wrong *settings.MistakesError
	var usage usageError
	var interrupted interruption
	switch {
	case errors.As(err, &wrong), errors.As(err, &usage):
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

// hangups returns the SIGHUPs from now on, which do not end the process any more, whether they are received or not.
func hangups() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals
}
