package settings

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
)

// FileFlag is the flag that names the file. Commands that have it read the environment and the file; others have their command line.
const FileFlag = "config"

// Setting is what a flag of a command is set to.
type Setting struct {
	Name   string // of the flag, without dashes
	Value  any    // text, a number, a bool or a list of texts, as a file may have it; nil: it is not set
	Source string // "default", or what sets it: "--pages", "FEEDFILTER_PAGES" or "settings.json"
	Secret bool   // all of it is
}

// Masked is the value without the secrets in it.
func (s Setting) Masked() any {
	switch value := s.Value.(type) {
	case string:
		if s.Secret && value != "" {
			return Mask
		}
		return Masked(value)
	case []any:
		shown := make([]any, len(value))
		for i, one := range value {
			shown[i] = Setting{Value: one, Secret: s.Secret}.Masked()
		}
		return shown
	default:
		return value
	}
}

// Resolved is a command that was chosen, its flags set, and what they are set to.
type Resolved struct {
	Command  *kong.Context // to be run
	Settings []Setting     // in the order of the command's flags, without FileFlag
}

// Checker is a command that can tell mistakes that Validate cannot: those that take a look at the machine, such as into files that
// flags name. Its error joins all of them. Nothing may come of it: a service that runs checks what it might be changed to.
type Checker interface {
	// Check is called when the flags are set, also where Validate has found mistakes.
	Check(ctx context.Context) error
}

// Resolve reads the command line args, the environment (variables that begin with prefix and an underscore) and the file, and
// refuses variables that set no flag, but for those that others names, which the program reads itself. It
// sets the flags of the command, once for a parser, which Own was called with. It calls Validate of the command and of what is embedded
// in it, and then Check, if it is a Checker. The error is a [*MistakesError] that names all that is wrong. Where help is asked for,
// kong prints it, and ends the process.
func Resolve(ctx context.Context, parser *kong.Kong, prefix string, args []string, others ...string) (*Resolved, error) {
	r := &resolver{prefix: prefix, others: others, mistakes: &mistakes{about: make(map[string]string)}, values: make(map[*kong.Flag]given)}
	read := readLine(parser.Model.Node, args, r.mistakes)
	command, err := kong.Trace(parser, read.args)
	if err != nil {
		return nil, err
	}
	for _, part := range command.Path {
		if part.Flag != nil && part.Flag == parser.Model.HelpFlag {
			_, err := parser.Parse(read.args)
			return nil, err
		}
	}
	if command.Error != nil {
		if !read.guessed {
			r.mistakes.add("", "", ": "+command.Error.Error())
		}
		r.gather(command) // what can be told of an incomplete line
		return nil, r.refuse(parser, command)
	}
	r.gather(command)
	if err := r.apply(ctx, command); err != nil {
		return nil, err
	}
	if len(r.mistakes.list) == 0 {
		r.backstop(command)
	}
	if len(r.mistakes.list) > 0 {
		return nil, r.refuse(parser, command)
	}
	return &Resolved{Command: command, Settings: r.settings(command)}, nil
}

// resolver finds out what the flags of one command are set to.
type resolver struct {
	prefix   string
	others   []string // variables that set no flag
	mistakes *mistakes
	values   map[*kong.Flag]given // of the environment and the file
}

// given is a value, and what gives it: a variable or a file.
type given struct {
	value any
	by    string
}

func (r *resolver) refuse(parser *kong.Kong, command *kong.Context) error {
	name := parser.Model.Name
	if node := command.Selected(); node != nil {
		name = node.FullPath()
	}
	return &MistakesError{Command: name, Mistakes: r.mistakes.list}
}

// gather takes from the environment and the file what the command line does not set.
func (r *resolver) gather(command *kong.Context) {
	onLine, named := onLine(command), false
	for _, flag := range command.Flags() {
		r.mistakes.about[flag.Name] = "--" + flag.Name
		named = named || flag.Name == FileFlag
	}
	if !named {
		return
	}
	checkNames(command.Model, r.prefix, r.others, r.mistakes)
	f := r.file(command, onLine)
	for _, flag := range command.Flags() {
		if onLine[flag] || flag.Name == FileFlag || flag == command.Model.HelpFlag {
			continue
		}
		if name, text, ok := variable(flag); ok {
			r.mistakes.about[flag.Name] = name
			r.take(flag, given{text, name})
			continue
		}
		value, err := f.value(flag)
		if value == nil && err == nil {
			continue
		}
		r.mistakes.about[flag.Name] = f.name + ": " + flag.Name
		if err != nil {
			r.mistakes.add(flag.Name, r.mistakes.about[flag.Name], ": "+err.Error())
			continue
		}
		r.take(flag, given{value, f.name})
	}
}

// take sets a flag to what stands in the environment or the file.
func (r *resolver) take(flag *kong.Flag, g given) {
	if err := parse(flag, kong.Scan().PushTyped(g.value, kong.FlagValueToken)); err != nil {
		r.mistakes.add(flag.Name, r.mistakes.about[flag.Name], ": "+err.Error())
		return
	}
	r.values[flag] = g
}

// file reads the file that the command line or the environment names.
func (r *resolver) file(command *kong.Context, onLine map[*kong.Flag]bool) *file {
	for _, flag := range command.Flags() {
		if flag.Name != FileFlag {
			continue
		}
		name, _ := command.FlagValue(flag).(string)
		if variable, value, ok := variable(flag); ok && !onLine[flag] {
			name, r.mistakes.about[FileFlag] = value, variable
			r.values[flag] = given{value, variable}
		}
		if name == "" {
			return nil
		}
		return readFile(name, r.mistakes.about[FileFlag], command.Model, r.mistakes)
	}
	return nil
}

// apply sets the flags, and has the command check them.
func (r *resolver) apply(ctx context.Context, command *kong.Context) error {
	command.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		return r.values[flag].value, nil
	}))
	if err := command.Reset(); err != nil {
		return fmt.Errorf("settings: %w", err) // a default that is none
	}
	if err := command.Resolve(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if _, err := command.Apply(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	for _, flag := range command.Flags() {
		text, isText := reflect.TypeAssert[string](flag.Target)
		switch {
		case r.mistakes.has(flag.Name):
		case flag.Required && !flag.Set:
			r.mistakes.add(flag.Name, "--"+flag.Name, ": it is needed")
		case isText && masked(text, isSecret(flag)):
			r.mistakes.add(flag.Name, r.mistakes.about[flag.Name], fmt.Sprintf(": a secret in it is masked (%s)", Mask))
		}
	}
	for _, part := range command.Path {
		if node := part.Node(); node != nil {
			r.mistakes.addAll(validate(node.Target))
		}
	}
	if node := command.Selected(); node != nil && node.Target.CanAddr() {
		if checker, ok := reflect.TypeAssert[Checker](node.Target.Addr()); ok {
			r.mistakes.addAll(checker.Check(ctx))
		}
	}
	return nil
}

// backstop notes what kong finds that nobody else does, such as arguments that are missing.
func (r *resolver) backstop(command *kong.Context) {
	if err := command.Validate(); err != nil {
		r.mistakes.add("", "", ": "+err.Error())
	}
}

// settings are those that the flags are set to now.
func (r *resolver) settings(command *kong.Context) []Setting {
	onLine := onLine(command)
	var all []Setting
	for _, flag := range command.Flags() {
		if flag.Name == FileFlag || flag == command.Model.HelpFlag {
			continue
		}
		s := Setting{Name: flag.Name, Value: plain(flag.Target), Source: "default", Secret: isSecret(flag)}
		if g, ok := r.values[flag]; ok {
			s.Source = g.by
		} else if onLine[flag] {
			s.Source = "--" + flag.Name
		}
		all = append(all, s)
	}
	return all
}

// onLine are the flags that the command line sets.
func onLine(command *kong.Context) map[*kong.Flag]bool {
	set := make(map[*kong.Flag]bool)
	for _, part := range command.Path {
		if part.Flag != nil && !part.Resolved {
			set[part.Flag] = true
		}
	}
	return set
}

// plain is a value as a file may have it.
func plain(value reflect.Value) any {
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return nil
		}
		return plain(value.Elem())
	}
	if value.Kind() == reflect.Slice {
		list := make([]any, value.Len())
		for i := range list {
			list[i] = plain(value.Index(i))
		}
		return list
	}
	switch v := value.Interface().(type) {
	case time.Duration:
		return v.String()
	case bool, float64, float32, int, int64, int32, uint, uint64, uint32, uint16, string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// validate joins what Validate of a struct, and of what is embedded in it, says.
func validate(target reflect.Value) error {
	var errs []error
	walkEmbedded(target, func(value reflect.Value) {
		if !value.CanAddr() {
			return
		}
		if v, ok := reflect.TypeAssert[interface{ Validate() error }](value.Addr()); ok {
			errs = append(errs, v.Validate())
		}
	})
	return errors.Join(errs...)
}

// walkEmbedded visits a struct, and those that kong takes flags of it from.
func walkEmbedded(value reflect.Value, visit func(reflect.Value)) {
	for value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	if value.Kind() != reflect.Struct {
		return
	}
	visit(value)
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if _, embedded := field.Tag.Lookup("embed"); field.IsExported() && (embedded || field.Anonymous) {
			walkEmbedded(value.Field(i), visit)
		}
	}
}
