package settings_test

import (
	"strings"
	"testing"
)

// TestVariablesOfKubernetes ignores variables that Kubernetes sets for a Service with the program's
// name.
func TestVariablesOfKubernetes(t *testing.T) {
	for variable, refused := range map[string]bool{
		"PROG_SERVICE_HOST=10.0.0.1":            false,
		"PROG_SERVICE_PORT=8080":                false,
		"PROG_SERVICE_PORT_HTTP=8080":           false,
		"PROG_PORT=tcp://10.0.0.1:8080":         false,
		"PROG_PORT_8080_TCP=tcp://10.0.0.1":     false,
		"PROG_PORT_8080_TCP_PROTO=tcp":          false,
		"PROG_PORT_8080_TCP_PORT=8080":          false,
		"PROG_PORT_8080_TCP_ADDR=10.0.0.1":      false,
		"PROG_PORT_53_UDP_ADDR=10.0.0.1":        false,
		"PROG_REDIS_SERVICE_HOST=10.0.0.1":      false,
		"PROG_REDIS_PORT=tcp://10.0.0.1:6379":   false,
		"PROG_PORT=8080":                        true,
		"PROG_REDSI=tcp://10.0.0.1:6379":        true,
		"PROG_REDIS_PORT=6379":                  true,
		"PROG_PORT_HTTP_TCP_ADDR=10.0.0.1":      true,
		"PROG_SERVICE=10.0.0.1":                 true,
		"PROG_=1":                               true,
		"PROGRAM_LIMIT=1":                       false,
		"PROG_USERS=1":                          false, // for another command
		"PROG_USERS=x":                          false, // wrong for that command
		"PROG_DEPTH=1":                          true,  // for a command that reads no variables
		"PROG_OTHER=1":                          false, // the program itself reads it
		"PROG_HELP=true":                        true,
		"PROG_PORT_8080_TCP_ADDR_LONG=10.0.0.1": true,
	} {
		name, value, _ := strings.Cut(variable, "=")
		_, _, err := resolve(t, map[string]string{name: value}, "", "serve")
		if (err != nil) != refused {
			t.Errorf("%s: got %v, want it refused: %v", variable, err, refused)
		}
	}
}

// TestEmptyVariable checks that an empty variable also sets a flag, so that it can override the
// file.
func TestEmptyVariable(t *testing.T) {
	p, _, err := resolve(t, map[string]string{"PROG_REDIS": ""}, `{"redis": "redis://h"}`, "serve", "--config", "settings.json")
	if err != nil || p.Serve.Data.Redis != "" {
		t.Errorf("got %q, %v, want nothing", p.Serve.Data.Redis, err)
	}
}
