package settings

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// sources is a [kong.Resolver] for the environment and the file. It collects mistakes.
type sources struct {
	parser   *kong.Kong
	prefix   string   // prefix of variables
	others   []string // variables that set no flag
	values   map[string]string
	from     map[string]string // what sets a flag, by its name: a variable, or the file and the flag
	file     string
	mistakes []string
}

// resolve returns what the environment or else the file sets a flag to, if kong can parse it.
func (s *sources) resolve(command *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if s.values == nil {
		s.read(command)
	}
	for _, variable := range flag.Envs {
		if value, ok := os.LookupEnv(variable); ok {
			return s.take(flag, value, variable), nil
		}
	}
	if value, ok := s.values[flag.Name]; ok && len(flag.Envs) > 0 {
		return s.take(flag, value, s.file+": "+flag.Name), nil
	}
	return nil, nil //nolint:nilnil // as kong has it: no value
}

// take returns nil instead of a value that kong cannot parse, so that kong goes on with other
// flags.
func (s *sources) take(flag *kong.Flag, value, from string) any {
	s.from[flag.Name] = from
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), scratch); err != nil {
		s.note(err)
		return nil
	}
	return value
}

// read reads the file, and notes variables and keys that set no flag: a misspelt one has no effect.
func (s *sources) read(command *kong.Context) {
	s.values = make(map[string]string)
	i := slices.IndexFunc(command.Flags(), func(f *kong.Flag) bool { return f.Name == FileFlag })
	if i < 0 {
		return
	}
	known := make(map[string]bool) // keys and variables
	for _, leaf := range command.Model.Leaves(false) {
		for _, flag := range leaf.Flags {
			for _, variable := range flag.Envs {
				known[flag.Name], known[variable] = flag.Name != FileFlag, true
			}
		}
	}
	environment := os.Environ()
	slices.Sort(environment)
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		suffix, ours := strings.CutPrefix(name, s.prefix)
		if ours && !known[name] && !slices.Contains(s.others, name) && !ofKubernetes(suffix, value) {
			s.unknown(command.Args, name, strings.ToLower(strings.ReplaceAll(suffix, "_", "-")))
		}
	}
	values := s.readFile(command, command.Flags()[i])
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch kind := values[key].Kind(); {
		case !known[key]:
			s.unknown(command.Args, s.file+": "+key, key)
		case kind == '"':
			text, _ := jsontext.AppendUnquote(nil, values[key]) // it is valid
			s.values[key] = string(text)
		case kind == '0', kind == 't', kind == 'f':
			s.values[key] = values[key].String()
		default: // a password may be in it
			s.note(fmt.Errorf("%s: %s: neither text, a number, true nor false", s.file, key))
		}
	}
}

// readFile reads the file that the command line, or else the environment, names.
func (s *sources) readFile(
	command *kong.Context, flag *kong.Flag,
) (values map[string]jsontext.Value) {
	s.file, _ = command.FlagValue(flag).(string)
	for _, variable := range flag.Envs {
		if name, ok := os.LookupEnv(variable); ok && !onLine(command, flag) {
			s.file, s.from[FileFlag] = name, variable
		}
	}
	if s.file == "" {
		return nil
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		s.note(fmt.Errorf("--%s: %w", FileFlag, err))
	} else if err := json.Unmarshal(text, &values); err != nil {
		s.note(fmt.Errorf("%s: not a JSON object of flags: %w", s.file, err))
	}
	return values
}

// unknown records the name of an unknown flag. If args end with the name, the mistake has kong's
// suggestions.
func (s *sources) unknown(args []string, where, flag string) {
	problem := "sets no flag"
	line, err := kong.Trace(s.parser, append(slices.Clone(args), "--"+flag+"="))
	if err == nil && line.Error != nil && strings.HasPrefix(line.Error.Error(), "unknown flag") {
		problem = line.Error.Error()
	}
	s.note(fmt.Errorf("%s: %s", where, problem))
}

// ofKubernetes reports whether Kubernetes sets the variable in containers beside a Service whose
// name begins with the prefix: NAME_SERVICE_HOST, NAME_SERVICE_PORT[_<name>], NAME_PORT=tcp://...
// and NAME_PORT_<port>_TCP[_PROTO|_PORT|_ADDR].
func ofKubernetes(suffix, value string) bool {
	return regexp.MustCompile(`^([A-Z0-9_]*_)?(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|` +
		`PORT=(tcp|udp|sctp)://|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`).
		MatchString(suffix + "=" + value)
}
