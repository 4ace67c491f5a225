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

// parse does what [kong.Kong.Parse] does, for commands without hooks, validators and xor groups of
// required flags. The context is never nil.
//
// It calls no method that kong looks up by name. With one such call in the program, the linker must
// keep every exported method of every type, and the program is half again as large.
func parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	command, err := kong.Trace(parser, args)
	if err != nil {
		return command, err
	}
	if command.Error != nil {
		return command, command.Error
	}
	if onLine(command, parser.Model.HelpFlag) {
		if err := command.PrintUsage(false); err != nil {
			return command, err
		}
		parser.Exit(0)
	}
	if err := command.Reset(); err != nil {
		return command, err
	}
	if err := command.Resolve(); err != nil {
		return command, err
	}
	if _, err := command.Apply(); err != nil {
		return command, err
	}
	return command, complete(command)
}

// complete returns an error if a value is not in its enum or a required one is missing. It also
// does if the command lacks a subcommand, or two flags that exclude each other are set.
func complete(command *kong.Context) error {
	for _, part := range command.Path {
		if node := part.Node(); node != nil {
			for _, value := range node.Values() {
				if err := checkEnum(value, value.Target); err != nil && (!value.Required || value.Set) {
					return err
				}
			}
		}
	}
	for _, part := range command.Path {
		if err := checkRequired(part.Flags); err != nil {
			return err
		}
	}
	node := command.Selected()
	if node == nil {
		node = command.Model.Node
	}
	if err := checkNode(node); err != nil {
		return err
	}
	for _, part := range command.Path {
		if err := checkExclusive(part.Flags); err != nil {
			return err
		}
	}
	return nil
}

// checkEnum returns an error if the value, or an element of it, is not in the value's enum.
func checkEnum(value *kong.Value, target reflect.Value) error {
	if value.Enum == "" {
		return nil
	}
	if target.Kind() == reflect.Slice {
		for i := range target.Len() {
			if err := checkEnum(value, target.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	allowed, got := value.EnumSlice(), fmt.Sprint(target)
	if slices.Contains(allowed, got) {
		return nil
	}
	quoted := make([]string, len(allowed))
	for i, one := range allowed {
		quoted[i] = strconv.Quote(one)
	}
	return fmt.Errorf("%s must be one of %s but got %q", value.ShortSummary(), strings.Join(quoted, ","), got)
}

// checkRequired names the required flags that are not set.
func checkRequired(flags []*kong.Flag) error {
	var missing []string
	for _, flag := range flags {
		if flag.Required && !flag.Set {
			missing = append(missing, flag.Summary())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New("missing flags: " + strings.Join(missing, ", "))
}

// checkNode names the required arguments that are not set, and the subcommands if there are any.
func checkNode(node *kong.Node) error {
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
	case len(missing) == 0:
		return nil
	case len(missing) == 1:
		return errors.New("expected " + missing[0])
	case len(missing) > 5:
		missing = append(missing[:5], "...")
	}
	return errors.New("expected one of " + strings.Join(missing, ", "))
}

// checkExclusive names two flags that are set and exclude each other.
func checkExclusive(flags []*kong.Flag) error {
	first := make(map[string]*kong.Flag)
	for _, flag := range flags {
		for _, group := range flag.Xor {
			if other := first[group]; flag.Set && other != nil {
				return fmt.Errorf("--%s and --%s can't be used together", other.Name, flag.Name)
			} else if flag.Set {
				first[group] = flag
			}
		}
	}
	return nil
}
