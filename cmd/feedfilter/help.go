package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/settings"
)

// exitStatus is printed below the help of the program.
const exitStatus = `
Exit status:
  0        The command succeeded and found nothing wrong.
  1        The command failed, or found something wrong.
  2        The settings are invalid; nothing was done.
  128 + n  Signal n ended the command: 130 is SIGINT, 143 SIGTERM.
`

const description = "Filters feeds: users block each other, hide, like and see posts, and " +
	"a feed check tells which of hundreds of candidates a viewer must not see.\n\n" +
	"Every flag of a command that has --config can also be set in the environment, " +
	"as FEEDFILTER_<FLAG>, or in a JSON file of flags by name. " +
	"A flag overrides the environment, and the environment overrides the file. " +
	"Unknown names are refused. In the file, a command takes flags of serve, and its own; " +
	"in the environment, those of all commands."

// helpText holds the help of flags and arguments by the names that the tags use, each below a line
// "# <name>". It also holds what the help of a command says below its summary, below a line
// "# feedfilter <command>".
//
//go:embed help.md
var helpText string

// examplesText holds the examples of each command, below a line "# <command>".
//
//go:embed examples.txt
var examplesText string

// examples returns the examples in the help of each command, by command. TestExamples parses them
// all.
func examples() map[string][]string { return sections(examplesText) }

// helpTexts returns all texts. withDefault adds the defaults of the tags.
func helpTexts() map[string]string {
	all := make(map[string]string)
	for name, lines := range sections(helpText) {
		all[name] = strings.Join(lines, " ")
	}
	return all
}

// sections returns the lines below each line "# <name>" of a text, without blank lines.
func sections(text string) map[string][]string {
	all := make(map[string][]string)
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, heads := strings.CutPrefix(line, "# ")
		switch {
		case heads:
			section = name
		case line != "":
			all[section] = append(all[section], line)
		}
	}
	return all
}

// flagHelp replaces help:"${name}" in the tags by the texts, and adds details and examples to
// commands. kong.Vars would expand every text for every flag, which takes a tenth of a second at
// each start.
func flagHelp() kong.Option { //nolint:ireturn // the type that kong takes
	return kong.PostBuild(func(k *kong.Kong) error {
		texts, shown := helpTexts(), examples()
		return kong.Visit(k.Model, func(visited kong.Visitable, next kong.Next) error {
			switch of := visited.(type) {
			case *kong.Value:
				return next(putText(&of.Help, texts))
			case *kong.Node:
				of.Detail = cmp.Or(of.Detail, texts[of.FullPath()])
				if lines := shown[of.Path()]; len(lines) > 0 {
					list := strings.Join(lines, "\n    ")
					of.Detail = strings.TrimSpace(of.Detail + "\n\nExamples:\n\n    " + list)
				}
				return next(putText(&of.Help, texts))
			default:
				return next(nil)
			}
		})
	})
}

// putText replaces the name of a text by the text.
func putText(help *string, texts map[string]string) error {
	name, ok := strings.CutPrefix(*help, "${")
	if !ok {
		return nil
	}
	text, ok := texts[strings.TrimSuffix(name, "}")]
	if !ok {
		return fmt.Errorf("no help text for %s", *help)
	}
	*help = strings.ReplaceAll(text, "$", "$$") // kong expands the remaining text
	return nil
}

// printHelp prints kong's help, and the exit statuses below the program's help. Only --help-all
// explains flags that a command shares with serve: below the command's own.
func printHelp(options kong.HelpOptions, command *kong.Context) error {
	flags := command.Model.Flags
	isAll := func(f *kong.Flag) bool { return f.Name == settings.HelpAllFlag }
	all := flags[slices.IndexFunc(flags, isAll)]
	asked := slices.ContainsFunc(command.Path, func(part *kong.Path) bool { return part.Flag == all })
	shared := sharedFlags(cmp.Or(command.Selected(), command.Model.Node), command.Model.Children[0])
	names := make([]string, 0, len(shared))
	for _, flag := range shared {
		flag.Hidden = !asked
		flag.Group = &kong.Group{Key: "shared", Title: "Flags of serve, too:"}
		names = append(names, "--"+flag.Name)
	}
	all.Hidden = len(shared) == 0
	all.Help = "Also explain these flags of serve: " + strings.Join(names, ", ")
	err := kong.DefaultHelpPrinter(options, command)
	if err == nil && command.Selected() == nil {
		_, err = fmt.Fprint(command.Stdout, exitStatus)
	}
	return err
}

// sharedFlags returns the flags that a command shares with serve, with the same help and default.
func sharedFlags(command, serve *kong.Node) (shared []*kong.Flag) {
	for _, flag := range command.Flags {
		same := func(s *kong.Flag) bool {
			return s.Name == flag.Name && s.Help == flag.Help && s.Default == flag.Default
		}
		if command != serve && !flag.Hidden && slices.ContainsFunc(serve.Flags, same) {
			shared = append(shared, flag)
		}
	}
	return shared
}

// withDefault returns the help of a flag, with its default and its variable.
func withDefault(value *kong.Value) string {
	text := value.Help
	if value.Flag != nil && value.Default != "" {
		text += " Default: " + value.Default
	}
	if value.Flag != nil && len(value.Flag.Envs) > 0 {
		text += " ($" + strings.Join(value.Flag.Envs, ", $") + ")"
	}
	return text
}
