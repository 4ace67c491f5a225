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

// apply sets the flags of a traced command and returns the first mistake. It does what
// [kong.Kong.Parse] does, for commands without hooks, validators and xor groups of required flags.
//
// It calls no method that kong looks up by name. With one such call in the program, the linker must
// keep every exported method of every type, and the program is half again as large.
func (s *sources) apply(command *kong.Context) error {
	if onLine(command, command.Model.HelpFlag) {
		if err := command.PrintUsage(false); err != nil {
			return err
		}
		s.parser.Exit(0)
	}
	for _, step := range []func() error{
		command.Reset,
		func() error { s.read(command); return command.Resolve() },
		func() error { _, err := command.Apply(); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, part := range command.Path {
		if node := part.Node(); node != nil {
			for _, value := range node.Values() {
				s.checkEnum(value)
			}
		}
		s.checkFlags(part.Flags)
	}
	s.checkNode(selected(command))
	return nil
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

// checkFlags notes the required flags that are not set, and two that exclude each other.
func (s *sources) checkFlags(flags []*kong.Flag) {
	var missing []string
	first := make(map[string]*kong.Flag) // by group of flags that exclude each other
	for _, flag := range flags {
		if flag.Required && !flag.Set {
			missing = append(missing, flag.Summary())
		}
		for _, group := range flag.Xor {
			if other := first[group]; flag.Set && other != nil {
				s.note(fmt.Errorf("--%s and --%s can't be used together", other.Name, flag.Name))
			} else if flag.Set {
				first[group] = flag
			}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		s.note(errors.New("missing flags: " + strings.Join(missing, ", ")))
	}
}

// checkNode notes the required arguments that are not set, and the subcommands if there are any.
func (s *sources) checkNode(node *kong.Node) {
	var missing, arguments []string
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
