package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/manual"
)

// program is what there is to say of this one beside its commands.
func program() *manual.Program {
	v := thisVersion()
	return &manual.Program{Version: v.Version, Date: v.Date[:min(len(v.Date), len("2006-01-02"))], Exit: exitStatuses()}
}

// exitStatuses are those that all commands exit with.
func exitStatuses() []manual.Status {
	return []manual.Status{
		{Code: "0", Meaning: "All was done, and all is as it has to be."},
		{Code: "1", Meaning: "It failed, or something was found not to be as it has to be."},
		{Code: "2", Meaning: "The settings cannot be followed; nothing was begun."},
		{Code: "128 + n", Meaning: "Signal number n ended it early: 130 is SIGINT, 143 SIGTERM."},
	}
}

// printHelp is kong's help, and below that of the program the statuses that all commands exit with.
func printHelp(options kong.HelpOptions, command *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, command); err != nil || command.Selected() != nil {
		return err
	}
	_, err := fmt.Fprintln(command.Stdout, "\nExit status:")
	for _, s := range exitStatuses() {
		if err == nil {
			_, err = fmt.Fprintf(command.Stdout, "  %-7s  %s\n", s.Code, s.Meaning)
		}
	}
	return err
}

type manCmd struct {
	Dir     string   `help:"${man_dir}" placeholder:"DIR"`
	Command []string `arg:""            help:"${man_command}" optional:""`
}

// Run prints a page, or writes all.
func (c *manCmd) Run(std stdio, chosen *invocation) error {
	app := chosen.settings.Command.Model
	if c.Dir != "" {
		return writePages(c.Dir, program().Pages(app), std)
	}
	node, err := commandNamed(app, c.Command)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(std.out, program().Page(app, node))
	return err
}

// Validate is called when all flags are set.
func (c *manCmd) Validate() error {
	if c.Dir != "" && len(c.Command) > 0 {
		return errors.New("--dir: all pages are written, so no command can be named")
	}
	return nil
}

// commandNamed is the command that has these names, one below the other; of none, the program.
func commandNamed(app *kong.Application, names []string) (*kong.Node, error) {
	node := app.Node
	for _, name := range names {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name && !n.Hidden })
		if i < 0 {
			return nil, usageError{fmt.Errorf("%s has no command %q", node.FullPath(), name)}
		}
		node = node.Children[i]
	}
	return node, nil
}

// writePages writes files into a directory, which is made.
func writePages(dir string, pages map[string]string, std stdio) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // everybody may read pages
		return fmt.Errorf("--dir: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(pages[name]), 0o644); err != nil { //nolint:gosec // everybody may read pages
			return fmt.Errorf("--dir: %w", err)
		}
	}
	std.note(fmt.Sprintf("%d pages are in %s", len(pages), dir))
	return nil
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"${completion_shell}"`
}

// Run prints what the shell is to read.
func (c *completionCmd) Run(std stdio) error {
	_, err := fmt.Fprint(std.out, manual.Script(c.Shell, "feedfilter"))
	return err
}

// completeCmd is what that asks for.
type completeCmd struct {
	Shell string   `arg:""`
	Words []string `arg:"" optional:""`
}

// Run prints what the last of the words may be.
func (c *completeCmd) Run(std stdio, chosen *invocation) error {
	_, err := fmt.Fprint(std.out, manual.Answer(chosen.settings.Command.Model, c.Shell, c.Words))
	return err
}
