package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	kongcompletion "github.com/jotaen/kong-completion"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"${completion_shell}"`
}

// Run prints the code for the shell to read.
func (c *completionCmd) Run(_ context.Context, std stdio) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	_, err = fmt.Fprintln(std.out, shellCode(c.Shell, program))
	return err
}

// shellCode returns code with which the shell asks program for completions. kong-completion has the
// same code in templates, which would double the size of the program: see [settings.Parse].
func shellCode(shell, program string) string {
	const compgen = "complete -o default -o bashdefault -C PROGRAM feedfilter"
	code := map[string]string{
		"bash": compgen,
		"zsh":  "autoload -U +X bashcompinit && bashcompinit\n" + compgen,
		"fish": `function __complete_feedfilter
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    PROGRAM
end
complete -f -c feedfilter -a "(__complete_feedfilter)"`,
	}[shell]
	return strings.ReplaceAll(code, "PROGRAM", program)
}

// answerShell prints the completions of the line in COMP_LINE, which the shell sets. It reports
// whether there is such a line.
func answerShell(std stdio) (bool, error) {
	line := os.Getenv("COMP_LINE")
	if line == "" {
		return false, nil
	}
	cursor, err := strconv.Atoi(os.Getenv("COMP_POINT"))
	if err == nil && cursor >= 0 && cursor < len(line) {
		line = line[:cursor]
	}
	parser, err := newParser(&cli{}, std)
	if err != nil {
		return true, err
	}
	command, err := kongcompletion.Command(parser)
	if err != nil {
		return true, fmt.Errorf("complete %q: %w", line, err)
	}
	args := typed(line)
	for _, word := range command.Predict(args) {
		if strings.HasPrefix(word, args.Last) {
			if _, err := fmt.Fprintln(std.out, word); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

// lineWords are the words of a line. As an alias of a struct without a name, it is assignable to
// the argument of Predict.
type lineWords = struct {
	All, Completed      []string
	Last, LastCompleted string
}

// typed splits a line into words. The last word is incomplete. It is empty after a space, and after
// the = of a flag it is the value.
func typed(line string) lineWords {
	words := strings.Fields(line)
	if len(words) == 0 || strings.TrimRight(line, " \t") != line {
		words = append(words, "")
	}
	end := len(words) - 1
	words = slices.Concat(words[:end], strings.Split(words[end], "="))[1:]
	args := lineWords{All: words}
	if end = len(words) - 1; end >= 0 {
		args.Completed, args.Last = words[:end], words[end]
	}
	if end > 0 {
		args.LastCompleted = words[end-1]
	}
	return args
}
