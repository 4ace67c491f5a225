package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// configFile supplies the flags that neither the command line nor the environment
// sets from a JSON object: its names are those of flags, its values text, numbers, true or
// false. It may hold flags of other commands too, so that one file does for all.
type configFile struct {
	name   string
	values map[string]jsontext.Value
}

// addConfigFile reads the file that the selected command's --config names.
func addConfigFile(command *kong.Context) error {
	for _, flag := range command.Flags() {
		if flag.Name != "config" {
			continue
		}
		name, ok := command.FlagValue(flag).(string)
		if !ok || name == "" {
			return nil
		}
		file, err := readConfigFile(name)
		if err != nil {
			return err
		}
		command.AddResolver(file)
	}
	return nil
}

func readConfigFile(name string) (*configFile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read --config: %w", err)
	}
	file := &configFile{name: name}
	if err := json.Unmarshal(text, &file.values); err != nil {
		return nil, fmt.Errorf("read --config %s: %w", name, err)
	}
	return file, nil
}

// Validate implements [kong.Resolver]: it refuses names that are no flag's.
func (f *configFile) Validate(app *kong.Application) error {
	known := make(map[string]bool)
	for _, command := range app.Leaves(true) {
		for _, flag := range command.Flags {
			known[flag.Name] = flag.Name != "config"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if !known[name] {
			return fmt.Errorf("--config %s: unknown setting %q", f.name, name)
		}
	}
	return nil
}

// Resolve implements [kong.Resolver].
func (f *configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := f.values[flag.Name]
	if !ok || fromEnvironment(flag) {
		return nil, nil //nolint:nilnil // kong's word for "not here"
	}
	text, err := settingText(value)
	if err == nil {
		// Tried on the side: the error has to name the file.
		scratch := reflect.New(flag.Target.Type()).Elem()
		err = flag.Parse(kong.Scan().PushTyped(text, kong.FlagValueToken), scratch)
	}
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", f.name, err)
	}
	return text, nil
}

func fromEnvironment(flag *kong.Flag) bool {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return true
		}
	}
	return false
}

// settingText returns the value as it would stand on the command line.
func settingText(value jsontext.Value) (string, error) {
	switch value.Kind() {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	case '0', 't', 'f':
		return value.String(), nil
	default:
		return "", fmt.Errorf("%s is neither text, a number, true nor false", value)
	}
}
