package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// apply sets the flags of a traced command and notes every mistake. It does what
// [kong.Kong.Parse] does, for commands without hooks, validators and groups of flags.
//
// It calls no method that kong looks up by name. With one such call in the program, the linker must
// keep every exported method of every type, and the program is half again as large.
func (s *sources) apply(command *kong.Context) {
	if onLine(command, command.Model.HelpFlag) {
		s.note(command.PrintUsage(false))
		if len(s.mistakes) == 0 {
			command.Exit(0)
		}
	}
	s.note(command.Reset())
	s.read(command)
	s.set(command)
	_, err := command.Apply()
	s.note(err)
}

// checkEnums notes values, or elements of them, that are not in their enum.
func (s *sources) checkEnums(node *kong.Node) {
	for _, value := range node.Values() {
		if value.Enum == "" || value.Required && !value.Set {
			continue
		}
		given := []reflect.Value{value.Target}
		if value.Target.Kind() == reflect.Slice {
			given = nil
			for _, one := range value.Target.Seq2() {
				given = append(given, one)
			}
		}
		for _, one := range given {
			if got := fmt.Sprint(one); !slices.Contains(value.EnumSlice(), got) {
				s.note(fmt.Errorf("%s: %q is not one of %s", value.ShortSummary(), got, strings.Join(value.EnumSlice(), ", ")))
			}
		}
	}
}

// checkMissing notes the required flags and arguments that are not set, and the subcommands if one
// has to be chosen.
func (s *sources) checkMissing(flags []*kong.Flag, node *kong.Node) {
	for _, flag := range flags {
		if flag.Required && !flag.Set {
			s.note(fmt.Errorf("--%s: required", flag.Name))
		}
	}
	for _, argument := range node.Positional {
		if argument.Required && !argument.Set {
			s.note(fmt.Errorf("%s: required", argument.Summary()))
		}
	}
	var commands []string
	for _, below := range node.Children {
		if !below.Hidden {
			commands = append(commands, below.Name)
		}
	}
	if len(commands) > 0 {
		s.note(fmt.Errorf("expected one of %s", strings.Join(commands, ", ")))
	}
}
