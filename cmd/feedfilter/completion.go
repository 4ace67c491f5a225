package main

import (
	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"${completion_shell}"`
}

// Help is shown by kong below the summary.
func (*completionCmd) Help() string {
	return "Have the shell read the code at its start, in zsh after compinit. The shell then runs this program, at its present " +
		"path, for completions. Where it has none, bash and zsh offer file names."
}

// Run prints code for the shell.
func (c *completionCmd) Run(command *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(command)
}
