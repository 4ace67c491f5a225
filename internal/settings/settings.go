// Package settings sets the flags of a kong command from the command line, the environment and a
// JSON file, in this order of precedence, and refuses what sets no flag. The file belongs to the
// first command of the program: others take its flags and their own.
package settings

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// FileFlag names the file. Commands without this flag read neither the environment nor a file.
const FileFlag = "config"

// HelpAllFlag names a flag of the program that prints help, like --help.
const HelpAllFlag = "help-all"

// Setting is the value of a flag.
type Setting struct {
	Name   string // of the flag, without dashes
	Value  any    // text, a number or a bool, as in the file; nil: not set
	Source string // "default", or what sets it: "--pages", "FEEDFILTER_PAGES" or "settings.json"
}

// Masked returns the value without the passwords in it.
func (s Setting) Masked() any {
	if text, ok := s.Value.(string); ok {
		return Masked(text)
	}
	return s.Value
}

// Command is a command whose flags are set.
type Command struct {
	*kong.Context

	Settings []Setting // in the order of the command's flags, without FileFlag

	// Unused are the variables that set no flag of this command, but one of another, each with the
	// variable that may be meant.
	Unused []string
}

// MistakesError holds what is wrong with the settings of a command.
type MistakesError struct {
	Command  string   // such as "feedfilter serve"
	Mistakes []string // one or more; each begins with its flag, its variable, or its file and key
}

// Error returns all mistakes in one line.
func (e *MistakesError) Error() string { return strings.Join(e.Mistakes, "; ") }

// Checker is a command, or flags that kong embeds in one, whose values can be wrong.
type Checker interface {
	// Check is called when all flags are set, and changes nothing. The error joins all mistakes.
	// One about a flag begins with it, as in "--pages: 0 is not 1 or more".
	Check(ctx context.Context) error
}

// Variables names the variable of each flag, prefix_FLAG, for commands that have FileFlag. It is
// called after [kong.New], and returns the names of the flags by variable.
func Variables(program *kong.Node, prefix string) map[string]string {
	flags := make(map[string]string)
	for _, command := range program.Leaves(false) {
		if slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == FileFlag }) {
			for _, flag := range command.Flags {
				variable := prefix + "_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
				flag.Envs, flags[variable] = []string{variable}, flag.Name
			}
		}
	}
	return flags
}

// Parse has kong parse args, sets the flags and calls Check. It refuses variables that begin with
// prefix and an underscore and set no flag, except others. The error is a [*MistakesError]. It
// holds the first mistake on the command line, or else every mistake in other places.
func Parse(
	ctx context.Context, parser *kong.Kong, prefix string, args []string, others ...string,
) (*Command, error) {
	s := &sources{prefix: prefix, others: others, given: make(map[string]given)}
	command, err := kong.Trace(parser, args)
	if err != nil {
		return nil, err
	}
	node := cmp.Or(command.Selected(), command.Model.Node)
	result := &Command{Context: command}
	s.note(command.Error)
	if command.Error == nil {
		s.apply(command)
		s.checkChosen(node)
		for _, part := range command.Path {
			if node := part.Node(); node != nil {
				s.checkValues(node)
				s.check(ctx, node.Target)
			}
		}
		result.Settings, result.Unused = s.settings(command), s.unused
	}
	if len(s.mistakes) == 0 {
		return result, nil
	}
	return nil, &MistakesError{node.FullPath(), s.mistakes}
}

// check notes the mistakes of a command and of what is embedded in it.
func (s *sources) check(ctx context.Context, target reflect.Value) {
	if checker, ok := reflect.TypeAssert[Checker](target.Addr()); ok {
		s.note(checker.Check(ctx))
	}
	for i := range target.NumField() {
		if _, embedded := target.Type().Field(i).Tag.Lookup("embed"); embedded {
			s.check(ctx, target.Field(i))
		}
	}
}

// note adds every mistake that err joins, once, without passwords. A mistake that begins with a
// flag begins with what sets that flag instead.
func (s *sources) note(err error) {
	if err == nil {
		return
	}
	// Only err itself: an error that wraps a joined one is a single mistake.
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			s.note(one)
		}
		return
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	flag := regexp.MustCompile(`^--[a-z0-9-]+`).FindString(text)
	if given, ok := s.given[strings.TrimPrefix(flag, "--")]; ok {
		text = given.from + text[len(flag):]
	}
	text = regexp.MustCompile(`\S+://\S+`).ReplaceAllStringFunc(text, Masked)
	if !slices.Contains(s.mistakes, text) {
		s.mistakes = append(s.mistakes, text)
	}
}

// settings returns the values of the flags, and refuses a value whose password is masked.
func (s *sources) settings(command *kong.Context) []Setting {
	var all []Setting
	for _, flag := range command.Flags() {
		if flag.Name == FileFlag || flag.Name == HelpAllFlag || flag == command.Model.HelpFlag {
			continue
		}
		from := strings.TrimSuffix(s.given[flag.Name].from, ": "+flag.Name)
		one := Setting{Name: flag.Name, Source: cmp.Or(from, "default")}
		if value := reflect.Indirect(flag.Target); value.IsValid() { // not a nil pointer
			one.Value = value.Interface()
		}
		if text, ok := one.Value.(fmt.Stringer); ok {
			one.Value = text.String()
		}
		text := fmt.Sprint(one.Value)
		if strings.Contains(text, ":"+mask+"@") || strings.Contains(text, "password="+mask) {
			s.note(fmt.Errorf("--%s: the password in it is masked (%s)", flag.Name, mask))
		}
		all = append(all, one)
	}
	return all
}
