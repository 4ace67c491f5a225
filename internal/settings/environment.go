package settings

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Own keeps kong from reading the environment, which is Resolve's to do: kong stops at the first variable that it does not
// understand. The parser is to be made with [kong.DefaultEnvars]. Flags keep their variables in Envs, but for those of commands
// without FileFlag, which have none.
func Own(parser *kong.Kong) { own(parser.Model.Node) }

func own(node *kong.Node) {
	reads := slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == FileFlag })
	for _, flag := range node.Flags {
		flag.Tag.Envs = nil
		if !reads {
			flag.Envs = nil
		}
	}
	for _, below := range node.Children {
		own(below)
	}
}

// allFlags are those of a command and of all below it.
func allFlags(node *kong.Node) []*kong.Flag {
	flags := slices.Clone(node.Flags)
	for _, below := range node.Children {
		flags = append(flags, allFlags(below)...)
	}
	return flags
}

// variable returns the variable that sets the flag, and its value.
func variable(flag *kong.Flag) (name, value string, ok bool) {
	for _, name := range flag.Envs {
		if value, ok := os.LookupEnv(name); ok {
			return name, value, true
		}
	}
	return "", "", false
}

// checkNames notes the variables that begin as the commands' own do, and are none of them: a mistyped one would have no effect.
func checkNames(app *kong.Application, prefix string, others []string, m *mistakes) {
	known := make(map[string]bool)
	for _, name := range others {
		known[name] = true
	}
	for _, flag := range allFlags(app.Node) {
		for _, name := range flag.Envs {
			known[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(known))
	environment := os.Environ()
	slices.Sort(environment)
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, prefix+"_") || known[name] || ofKubernetes(name[len(prefix):], value) {
			continue
		}
		m.add("", name, fmt.Sprintf(": there is no such setting%s", suggestion(name, names, func(near string) string { return near })))
	}
}

// ofKubernetes reports whether Kubernetes sets the variable in every container beside a Service that is called as the prefix, or begins
// so: NAME_SERVICE_HOST, NAME_SERVICE_PORT, NAME_SERVICE_PORT_<name of the port>, NAME_PORT=tcp://<address>:<port>,
// NAME_PORT_<port>_TCP, and that with _PROTO, _PORT and _ADDR.
func ofKubernetes(suffix, value string) bool {
	if regexp.MustCompile(`_PORT$`).MatchString(suffix) && regexp.MustCompile(`^(tcp|udp|sctp)://`).MatchString(value) {
		return true
	}
	return regexp.MustCompile(`_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`).MatchString(suffix)
}
