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
	prefix   string            // prefix of variables
	others   []string          // variables that set no flag
	values   map[string]string // in the file
	from     map[string]string // what sets a flag, by its name: a variable, or the file and the flag
	file     string
	mistakes []string
}

// resolve is a [kong.Resolver]. It returns what the environment or else the file sets a flag to. It
// notes a value that kong cannot parse and leaves it out, so that kong goes on with other flags.
func (s *sources) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if len(flag.Envs) == 0 {
		return nil, nil //nolint:nilnil // as kong has it: no value
	}
	from := flag.Envs[0]
	value, ok := os.LookupEnv(from)
	if !ok {
		from = s.file + ": " + flag.Name
		if value, ok = s.values[flag.Name]; !ok {
			return nil, nil //nolint:nilnil // no value
		}
	}
	s.from[flag.Name] = from
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), scratch); err != nil {
		s.note(err)
		return nil, nil //nolint:nilnil // no value
	}
	return value, nil
}

// read reads the file, and notes variables and keys that set no flag: a misspelt one has no effect.
func (s *sources) read(command *kong.Context) {
	i := slices.IndexFunc(command.Flags(), func(f *kong.Flag) bool { return f.Name == FileFlag && len(f.Envs) > 0 })
	if i < 0 {
		return
	}
	known := make(map[string]bool) // keys and variables
	for _, leaf := range command.Model.Leaves(false) {
		for _, flag := range leaf.Flags {
			if len(flag.Envs) > 0 {
				known[flag.Name], known[flag.Envs[0]] = flag.Name != FileFlag, true
			}
		}
	}
	for _, variable := range slices.Sorted(slices.Values(os.Environ())) {
		name, value, _ := strings.Cut(variable, "=")
		suffix, ours := strings.CutPrefix(name, s.prefix)
		if ours && !known[name] && !slices.Contains(s.others, name) && !ofKubernetes(suffix, value) {
			s.unknown(command.Args, name, strings.ToLower(strings.ReplaceAll(suffix, "_", "-")))
		}
	}
	flag := command.Flags()[i]
	s.file, _ = command.FlagValue(flag).(string)
	if name, ok := os.LookupEnv(flag.Envs[0]); ok && !onLine(command, flag) {
		s.file, s.from[FileFlag] = name, flag.Envs[0]
	}
	var values map[string]jsontext.Value
	if text, err := os.ReadFile(s.file); err != nil && s.file != "" {
		s.note(fmt.Errorf("--%s: %w", FileFlag, err))
	} else if err := json.Unmarshal(text, &values); err != nil && s.file != "" {
		s.note(fmt.Errorf("%s: not a JSON object of flags: %w", s.file, err))
	}
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
