package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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
			s.parser.Exit(0)
		}
	}
	s.note(command.Reset())
	s.read(command)
	s.note(command.Resolve())
	_, err := command.Apply()
	s.note(err)
	for _, part := range command.Path {
		if node := part.Node(); node != nil {
			for _, value := range node.Values() {
				s.checkEnum(value)
			}
		}
	}
	s.checkMissing(command)
}

// checkEnum notes a value, or an element of it, that is not in the value's enum.
func (s *sources) checkEnum(value *kong.Value) {
	if value.Enum == "" || value.Required && !value.Set {
		return
	}
	given := []any{value.Target}
	if value.Target.Kind() == reflect.Slice {
		given = nil
		for i := range value.Target.Len() {
			given = append(given, value.Target.Index(i))
		}
	}
	allowed := value.EnumSlice()
	for _, one := range given {
		if got := fmt.Sprint(one); !slices.Contains(allowed, got) {
			s.note(fmt.Errorf(`%s must be one of "%s" but got %q`, value.ShortSummary(), strings.Join(allowed, `","`), got))
		}
	}
}

// checkMissing notes the required flags and arguments that are not set, and the subcommands if one
// has to be chosen.
func (s *sources) checkMissing(command *kong.Context) {
	var flags, arguments, missing []string
	for _, flag := range command.Flags() {
		if flag.Required && !flag.Set {
			flags = append(flags, flag.Summary())
		}
	}
	if len(flags) > 0 {
		slices.Sort(flags)
		s.note(errors.New("missing flags: " + strings.Join(flags, ", ")))
	}
	node := selected(command)
	for _, argument := range node.Positional {
		if argument.Required && !argument.Set {
			arguments = append(arguments, argument.Summary())
		}
	}
	if len(arguments) > 0 {
		missing = append(missing, strconv.Quote(strings.Join(arguments, " ")))
	}
	for _, below := range node.Children {
		if !below.Hidden {
			missing = append(missing, strconv.Quote(below.Name))
		}
	}
	switch {
	case len(missing) == 1:
		s.note(errors.New("expected " + missing[0]))
	case len(missing) > 1:
		if len(missing) > 5 {
			missing = append(missing[:5], "...")
		}
		s.note(errors.New("expected one of " + strings.Join(missing, ", ")))
	}
}
