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
	return "The shell reads it at its start, zsh after compinit. Then it asks this program, at its present path, " +
		"for what may follow. Where that is nothing, bash and zsh offer names of files."
}

// Run prints the code that the shell is to read.
func (c *completionCmd) Run(command *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(command)
}
