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

// sources reads the environment and the file, and collects mistakes.
type sources struct {
	parser   *kong.Kong
	prefix   string            // of variables
	others   []string          // variables that set no flag
	given    map[string]given  // by flag
	from     map[string]string // what sets a flag that the command line does not set
	file     string
	mistakes []string
}

// given is the value that the environment or else the file has for a flag.
type given struct {
	value string
	from  string // a variable, or the file and the flag
}

// resolve is a [kong.Resolver]. It notes a value that kong cannot parse and leaves it out, so that
// kong goes on with other flags.
func (s *sources) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	given, ok := s.given[flag.Name]
	if !ok {
		return nil, nil //nolint:nilnil // as kong has it: no value
	}
	s.from[flag.Name] = given.from
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.Scan().PushTyped(given.value, kong.FlagValueToken), scratch); err != nil {
		s.note(err)
		return nil, nil //nolint:nilnil // no value
	}
	return given.value, nil
}

// variable returns the name of the variable that sets a flag.
func variable(prefix, flag string) string {
	return prefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// read reads the environment and the file, and notes variables and keys that set no flag: a
// misspelt one has no effect.
func (s *sources) read(command *kong.Context) {
	i := slices.IndexFunc(command.Flags(), func(f *kong.Flag) bool { return f.Name == FileFlag && len(f.Envs) > 0 })
	if i < 0 {
		return
	}
	flags := make(map[string]string) // names, by variable
	for _, leaf := range command.Model.Leaves(false) {
		for _, flag := range leaf.Flags {
			if len(flag.Envs) > 0 {
				flags[flag.Envs[0]] = flag.Name
			}
		}
	}
	for _, pair := range slices.Sorted(slices.Values(os.Environ())) {
		name, value, _ := strings.Cut(pair, "=")
		suffix, ours := strings.CutPrefix(name, s.prefix+"_")
		if flag, known := flags[name]; known {
			s.given[flag] = given{value, name}
		} else if ours && !slices.Contains(s.others, name) && !ofKubernetes(suffix, value) {
			s.unknown(command.Args, name, strings.ToLower(strings.ReplaceAll(suffix, "_", "-")))
		}
	}
	flag := command.Flags()[i]
	s.file, _ = command.FlagValue(flag).(string)
	if given, ok := s.given[FileFlag]; ok && !onLine(command, flag) {
		s.file, s.from[FileFlag] = given.value, given.from
	}
	if s.file == "" {
		return
	}
	var values map[string]jsontext.Value
	if text, err := os.ReadFile(s.file); err != nil {
		s.note(fmt.Errorf("--%s: %w", FileFlag, err))
	} else if err := json.Unmarshal(text, &values); err != nil {
		s.note(fmt.Errorf("%s: not a JSON object of flags: %w", s.file, err))
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		from, text := s.file+": "+key, values[key].String()
		switch kind := values[key].Kind(); {
		case key == FileFlag || flags[variable(s.prefix, key)] != key:
			s.unknown(command.Args, from, key)
			continue
		case kind == '"':
			unquoted, _ := jsontext.AppendUnquote(nil, text) // it is valid
			text = string(unquoted)
		case kind != '0' && kind != 't' && kind != 'f': // a password may be in it
			s.note(fmt.Errorf("%s: neither text, a number, true nor false", from))
			continue
		}
		if _, set := s.given[key]; !set {
			s.given[key] = given{text, from}
		}
	}
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

const mask = "***" // what a password is shown as

// Masked returns text without the passwords of the URL that it may be: the one before the @ of its
// host, and parameters of its query whose names end in password. Where text is not quite a URL,
// Masked masks too much rather than too little.
func Masked(text string) string {
	text = regexp.MustCompile(`(?i)([?&][a-z_]*password=)[^&#]+`).ReplaceAllString(text, "${1}"+mask)
	scheme, rest, _ := strings.Cut(text, "://")
	beforeQuery, _, _ := strings.Cut(rest, "?")
	password := regexp.MustCompile(`^([^:@]*):.*@`)
	hosts := regexp.MustCompile(`^[^:@/?#]*(:\d*)?(,[^:@/?#]*(:\d*)?)*([/?#]|$)`)
	masked := password.ReplaceAllString(beforeQuery, "${1}:"+mask+"@")
	switch {
	case masked != beforeQuery:
		return scheme + "://" + masked + rest[len(beforeQuery):]
	case !hosts.MatchString(rest): // the password may have a ? in it
		return scheme + "://" + password.ReplaceAllString(rest, "${1}:"+mask+"@")
	}
	return text
}
