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
	for _, part := range command.Path {
		if flag := part.Flag; flag != nil {
			s.give(flag.Name, given{fmt.Sprint(command.FlagValue(flag)), "--" + flag.Name, true})
		}
	}
	_, help := s.given[command.Model.HelpFlag.Name]
	if _, all := s.given[HelpAllFlag]; help || all {
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

// checkValues notes the flags and arguments of a command that are required and not set, and those
// that are not in their enum.
func (s *sources) checkValues(node *kong.Node) {
	for _, value := range node.Values() {
		if value.Required && !value.Set {
			s.note(fmt.Errorf("%s: required", value.ShortSummary()))
		} else if value.Enum != "" {
			s.checkEnum(value, value.Target)
		}
	}
}

// checkEnum notes a given value, or elements of it, that are not in the enum.
func (s *sources) checkEnum(value *kong.Value, given reflect.Value) {
	if given.Kind() == reflect.Slice {
		for _, one := range given.Seq2() {
			s.checkEnum(value, one)
		}
	} else if got := fmt.Sprint(given); !slices.Contains(value.EnumSlice(), got) {
		all := strings.Join(value.EnumSlice(), ", ")
		s.note(fmt.Errorf("%s: %q is not one of %s", value.ShortSummary(), got, all))
	}
}

// checkChosen notes that one of the subcommands has to be chosen.
func (s *sources) checkChosen(node *kong.Node) {
	commands := make([]string, 0, len(node.Children))
	for _, below := range node.Children {
		commands = append(commands, below.Name)
	}
	if len(commands) > 0 {
		s.note(fmt.Errorf("expected one of %s", strings.Join(commands, ", ")))
	}
}
