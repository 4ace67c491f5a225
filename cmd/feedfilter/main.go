// Feedfilter runs the service that tells a feed which candidates a viewer must not see, and
// commands for its data. "feedfilter --help" lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/doctor"
	"github.com/feedfilter/feedfilter/internal/settings"
)

// Exit codes besides 0, and besides 128 plus the number of the signal that ended the command.
const (
	exitFailure = 1
	exitUsage   = 2
)

// envPrefix begins the names of environment variables that set flags.
const envPrefix = "FEEDFILTER"

type cli struct {
	HelpAll bool `help:""` // see printHelp

	Serve      serveCmd      `cmd:"" help:"Run the service."`
	Import     importCmds    `cmd:"" help:"Import activities from a CSV or NDJSON file, or from sets in Redis."`
	Export     exportCmd     `cmd:"" help:"Export the activities of the ledger as NDJSON."`
	Follow     followCmd     `cmd:"" help:"Follow the tables of an app's database, so that the app writes each activity once."`
	Compare    compareCmds   `cmd:"" help:"Compare what the service has with an app's sets in Redis, or a file."`
	Doctor     doctorCmd     `cmd:"" help:"Check the service's dependencies and settings, and say what to fix."`
	Plan       planCmd       `cmd:"" help:"Size a deployment: pages, memory, nodes, network and CPU."`
	Reshape    reshapeCmd    `cmd:"" help:"Raise the number of pages while the service runs."`
	Token      tokenCmds     `cmd:"" help:"Manage the tokens of --auth-file."`
	Health     healthCmd     `cmd:"" help:"Ask a service whether it can answer feeds: exit 0 if so, else 1."`
	Config     configCmds    `cmd:"" help:"Check or print the settings of the service."`
	Debug      debugCmds     `cmd:"" help:"Look inside, repair and measure: seldom needed."`
	Completion completionCmd `cmd:"" help:"Print code that lets a shell complete feedfilter commands."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// debugCmds are the commands that operators seldom use.
type debugCmds struct {
	Inspect inspectCmds `cmd:"" help:"Compare a page, a user or an activity with the ledger."`
	Rebuild rebuildCmd  `cmd:"" help:"Rebuild pages from the ledger while the service runs."`
	Scrub   scrubCmd    `cmd:"" help:"Compare every page with the ledger now, and rebuild those that differ."`
	HashID  hashIDCmd   `cmd:"" help:"Print ids as logs show them, hashed."`
	Bench   benchCmd    `cmd:"" help:"Measure feed checks, writes and fan-outs on this machine and its Redis."`
}

// stdio holds the standard streams of a command.
type stdio struct {
	in, out, err *os.File
}

// note writes a line to std.err, and ignores errors, which cannot be reported.
func (std stdio) note(line string) { _, _ = fmt.Fprintln(std.err, line) }

func main() {
	os.Exit(run(os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// run runs the command in args, prints its error on std.err, and returns the exit code.
func run(args []string, std stdio) int {
	hangups() // SIGHUP must not end the process: services reload, other commands ignore it
	ctx, stop := untilSignal(context.Background())
	defer stop()
	err := execute(ctx, args, std)
	if err == nil {
		return 0
	}
	if _, told := errors.AsType[toldError](err); !told {
		stop() // from here a signal ends the process, even if std.err blocks
		complain(std.err, err)
	}
	return exitCode(err)
}

// toldError is an error that the command has already printed.
type toldError struct{ error }

func (e toldError) Unwrap() error { return e.error }

// complain prints an error on one line, or one line per mistake in the settings. It ignores errors
// of writing, which cannot be reported.
func complain(to io.Writer, err error) {
	note := func(line string) { _, _ = fmt.Fprintln(to, line) }
	var wrong *settings.MistakesError
	if !errors.As(err, &wrong) {
		note("feedfilter: " + doctor.OneLine(err))
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

// invocation is a command line, and the command and settings that it sets.
type invocation struct {
	args     []string
	std      stdio
	commands *cli
	command  *settings.Command
}

// run runs the chosen command. Each command has one of these methods.
func (i *invocation) run(ctx context.Context, std stdio) error {
	switch command := i.command.Selected().Target.Addr().Interface().(type) {
	case interface {
		Run(ctx context.Context, std stdio) error
	}:
		return command.Run(ctx, std)
	case interface {
		Run(ctx context.Context, std stdio, chosen *invocation) error
	}:
		return command.Run(ctx, std, i)
	default:
		return fmt.Errorf(
			"%s: %T has no method Run that takes what commands get", i.command.Command(), command,
		)
	}
}

// invoke parses the command line into a command and its settings.
func invoke(ctx context.Context, args []string, std stdio) (*invocation, error) {
	commands := &cli{}
	parser, err := newParser(commands, std)
	if err != nil {
		return nil, err
	}
	words := meant(args)
	debug := []string{"inspect", "rebuild", "scrub", "hash-id", "bench"}
	if len(words) > 0 && slices.Contains(debug, words[0]) {
		err := fmt.Errorf("%[1]s is not a command: use feedfilter debug %[1]s", words[0])
		return nil, usageError{err}
	}
	command, err := settings.Parse(ctx, parser, envPrefix, words, tokenVariable)
	if err != nil {
		return nil, err
	}
	return &invocation{args, std, commands, command}, nil
}

// meant translates "--version" and "help" to "version" and "--help".
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
	return parser, nil
}

// usageError is an error of the command line.
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

// causeOr returns the cause of the end of ctx, or err if ctx has not ended.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// hangups returns a channel of SIGHUPs. From now on SIGHUP does not end the process, even if the
// channel is not read.
func hangups() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals
}
