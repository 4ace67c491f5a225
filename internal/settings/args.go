package settings

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// line reads a command line ahead of kong, which stops at the first mistake.
type line struct {
	mistakes *mistakes
	args     []string // without those that were refused
	guessed  bool     // arguments may have been taken for values, or values for arguments
}

// readLine notes the long flags that are unknown, or whose values are none, and leaves them out. What else can be wrong with a
// command line is left to kong.
func readLine(app *kong.Node, args []string, m *mistakes) *line {
	l := &line{mistakes: m}
	for node := app; len(args) > 0; {
		arg := args[0]
		switch {
		case arg == "--":
			l.args = append(l.args, args...)
			return l
		case strings.HasPrefix(arg, "--"):
			n := l.flag(node, args)
			args = args[n:]
			continue
		case strings.HasPrefix(arg, "-") && arg != "-":
			n := min(1+valuesAfter(node, arg), len(args))
			l.args, args = append(l.args, args[:n]...), args[n:]
			continue
		}
		below := child(node, arg)
		if below == nil && len(node.Children) > 0 {
			l.args = append(l.args, arg) // no command: what comes after it is nobody's flags
			return l
		}
		if below != nil {
			node = below
		}
		l.args, args = append(l.args, arg), args[1:]
	}
	return l
}

// child returns the command that arg names, or the default one; nil if there is neither.
func child(node *kong.Node, arg string) *kong.Node {
	for _, below := range node.Children {
		if below.Name == arg || slices.Contains(below.Aliases, arg) {
			return below
		}
	}
	return node.DefaultCmd
}

// flagsOf are the flags that may stand after the name of a command.
func flagsOf(node *kong.Node) []*kong.Flag {
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	return slices.Concat(node.AllFlags(false)...)
}

// valuesAfter is how many arguments the short flag takes with it.
func valuesAfter(node *kong.Node, short string) int {
	for _, flag := range flagsOf(node) {
		if short == "-"+string(flag.Short) && !flag.IsBool() && !flag.IsCounter() {
			return 1
		}
	}
	return 0
}

// flag reads the flag that args begin with, and returns how many of them it takes up.
func (l *line) flag(node *kong.Node, args []string) int {
	name, value, given := strings.Cut(args[0][len("--"):], "=")
	flags := flagsOf(node)
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool {
		return f.Name == name || slices.Contains(f.Aliases, name) || f.Tag.Negatable != "" && "no-"+f.Name == name
	})
	if i < 0 {
		return l.unknown(flags, name, args, given)
	}
	flag := flags[i]
	tokens, scan := 1, kong.Scan()
	if given {
		scan.PushTyped(value, kong.FlagValueToken)
	} else if !flag.IsBool() && !flag.IsCounter() {
		tokens = min(2, len(args))
		scan = kong.Scan(args[1:tokens]...)
	}
	if !given && tokens == 1 {
		if flag.IsBool() || flag.IsCounter() {
			l.args = append(l.args, args[0])
		} else {
			l.mistakes.add(flag.Name, "--"+name, ": a value is missing")
		}
		return 1
	}
	if err := parse(flag, scan); err != nil {
		if !given && strings.HasPrefix(args[1], "-") && args[1] != "-" {
			l.mistakes.add(flag.Name, "--"+name, fmt.Sprintf(": %s is no value; if it is meant to be one: --%s=%s", args[1], name, args[1]))
			return 1 + len(regexp.MustCompile(`^-[0-9.]`).FindAllString(args[1], 1)) // a number is no flag
		}
		l.mistakes.add(flag.Name, "--"+name, ": "+err.Error())
		return tokens
	}
	l.args = append(l.args, args[:tokens]...)
	return tokens
}

// unknown notes a flag that there is not.
func (l *line) unknown(flags []*kong.Flag, name string, args []string, given bool) int {
	names := make([]string, 0, len(flags))
	for _, flag := range flags {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	}
	l.mistakes.add("", "", fmt.Sprintf(": unknown flag --%s%s", name,
		suggestion(name, names, func(near string) string { return "--" + near })))
	if given || len(args) == 1 || strings.HasPrefix(args[1], "-") {
		return 1
	}
	// What comes next may be its value. The flag that was meant, if there is one, says.
	near := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == nearest(name, names) })
	if near < 0 {
		l.guessed = true
		return 1
	}
	if flags[near].IsBool() {
		return 1
	}
	return 2
}

// parse tries the value of a flag on the side.
func parse(flag *kong.Flag, scan *kong.Scanner) error {
	scratch := reflect.New(flag.Target.Type()).Elem()
	was := flag.Set
	err := flag.Parse(scan, scratch)
	flag.Set = was
	if err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), flag.ShortSummary()+": "))
	}
	return checkEnum(flag.Value, scratch)
}

// checkEnum refuses what is none of the values that there are.
func checkEnum(value *kong.Value, target reflect.Value) error {
	if value.Enum == "" {
		return nil
	}
	for target.Kind() == reflect.Pointer {
		if target.IsNil() {
			return nil
		}
		target = target.Elem()
	}
	if target.Kind() == reflect.Slice {
		for i := range target.Len() {
			if err := checkEnum(value, target.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	text := fmt.Sprint(target)
	if slices.Contains(value.EnumSlice(), text) {
		return nil
	}
	var quoted []string
	for _, one := range value.EnumSlice() {
		if one != "" {
			quoted = append(quoted, fmt.Sprintf("%q", one))
		}
	}
	return fmt.Errorf("must be one of %s but got %q", strings.Join(quoted, ","), text)
}
