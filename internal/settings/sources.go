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
	prefix   string           // of variables
	others   []string         // variables that set no flag
	given    map[string]given // what sets a flag, by flag
	mistakes []string
	unused   []string // variables that set a flag of other commands only
}

// given is the value that the command line, the environment or else the file has for a flag.
type given struct {
	value  string
	from   string // "--pages", a variable, or the file and the flag
	parsed bool   // by kong, because it is on the command line
}

// give notes what sets a flag, unless something before it does.
func (s *sources) give(flag string, by given) {
	if _, set := s.given[flag]; !set {
		s.given[flag] = by
	}
}

// set sets the flags that the command line does not set. It notes values that kong cannot parse.
func (s *sources) set(command *kong.Context) {
	for _, flag := range command.Flags() {
		if given, ok := s.given[flag.Name]; ok && !given.parsed {
			value := reflect.New(flag.Target.Type()).Elem()
			err := flag.Parse(kong.Scan().PushTyped(given.value, kong.FlagValueToken), value)
			if err == nil {
				flag.Target.Set(value)
			}
			s.note(err)
		}
	}
}

// read reads the environment and the file, and notes variables and keys that set no flag: a
// misspelt one has no effect.
//
// A variable may set a flag of another command only, because commands share an environment: a probe
// runs in the container of the service. A file belongs to the first command of the program, the
// service. Other commands also take their own flags from it.
func (s *sources) read(command *kong.Context) {
	isFile := func(f *kong.Flag) bool { return f.Name == FileFlag && len(f.Envs) > 0 }
	if !slices.ContainsFunc(command.Flags(), isFile) {
		return
	}
	flags := Variables(command.Model.Node, s.prefix)
	for _, pair := range slices.Sorted(slices.Values(os.Environ())) {
		name, value, _ := strings.Cut(pair, "=")
		suffix, ours := strings.CutPrefix(name, s.prefix+"_")
		if flag, known := flags[name]; known {
			s.give(flag, given{value, name, false})
			if !slices.ContainsFunc(command.Flags(), func(f *kong.Flag) bool { return f.Name == flag }) {
				s.unused = append(s.unused, name+near(command, flag, s.variable))
			}
		} else if ours && !slices.Contains(s.others, name) && !ofKubernetes(suffix, value) {
			s.note(fmt.Errorf("%s: sets no flag%s", name, near(command, flagOf(suffix), s.variable)))
		}
	}
	if file := s.given[FileFlag].value; file != "" {
		s.readFile(file, command)
	}
}

// readFile reads values of flags from the file.
func (s *sources) readFile(name string, command *kong.Context) {
	var values map[string]jsontext.Value
	if text, err := os.ReadFile(name); err != nil {
		s.note(fmt.Errorf("--%s: %w", FileFlag, err))
	} else if err := json.Unmarshal(text, &values); err != nil {
		s.note(fmt.Errorf("%s: not a JSON object of flags: %w", name, err))
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		from, text := name+": "+key, values[key].String()
		switch kind := values[key].Kind(); {
		case !slices.Contains(inFile(command), key):
			flag := flagOf(strings.TrimPrefix(key, s.prefix+"_"))
			likely := near(command, flag, func(flag string) string { return flag })
			s.note(fmt.Errorf("%s: sets no flag of %s%s", from, command.Selected().FullPath(), likely))
			continue
		case kind == '"':
			unquoted, _ := jsontext.AppendUnquote(nil, text) // it is valid
			text = string(unquoted)
		case kind != '0' && kind != 't' && kind != 'f': // a password may be in it
			s.note(fmt.Errorf("%s: neither text, a number, true nor false", from))
			continue
		}
		s.give(key, given{text, from, false})
	}
}

// variable returns the name of the variable that sets a flag.
func (s *sources) variable(flag string) string {
	return s.prefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
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

// Masked returns text without the passwords of the URL that it may be. They are what is between
// the first colon and the last @, and parameters of the query whose names end in password. An @ in
// the query masks too much.
func Masked(text string) string {
	text = regexp.MustCompile(`(?i)([?&][a-z_]*password=)[^&#]+`).ReplaceAllString(text, "${1}"+mask)
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return text
	}
	password := regexp.MustCompile(`^([^:@]*):.*@`)
	return scheme + "://" + password.ReplaceAllString(rest, "${1}:"+mask+"@")
}
