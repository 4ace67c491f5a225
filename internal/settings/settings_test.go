package settings_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/settings"
)

// program is a command line with commands of several sorts.
type program struct {
	Serve serve `cmd:""`
	Load  load  `cmd:""`
	Group struct {
		One struct {
			Left   bool `help:"-" short:"l"`
			Config string
		} `cmd:"" default:"withargs"`
		Two struct{} `cmd:""`
	} `cmd:""`
	Plain struct {
		Depth int `default:"3"`
	} `cmd:""`
}

type serve struct {
	Data    common        `embed:""`
	Limit   int           `default:"512"`
	Timeout time.Duration `default:"15s"`
	Open    bool
	Names   []string
	Format  string `default:"text" enum:"text,json" short:"o"`
	Token   string
	Config  string
	Exact   *int
	Sorted  bool `default:"true" negatable:""`

	checked bool
}

type common struct {
	Pages *uint32
	Redis string
	Rate  float64 `default:"0.001"`
}

func (c *common) Validate() error {
	var errs []error
	if c.Pages != nil && *c.Pages == 0 {
		errs = append(errs, errors.New("--pages: 0 is not 1 or more"))
	}
	if !(c.Rate > 0) {
		errs = append(errs, fmt.Errorf("--rate: %g is not above 0", c.Rate))
	}
	return errors.Join(errs...)
}

func (s *serve) Validate() error {
	if s.Limit < 1 {
		return fmt.Errorf("--limit %d: not 1 or more", s.Limit)
	}
	return nil
}

func (s *serve) Check(context.Context) error {
	s.checked = true
	if s.Open && s.Data.Redis == "" {
		return errors.Join(errors.New("--open: needs --redis"), errors.New("--limit: said before"), errors.New("something else"))
	}
	return nil
}

type load struct {
	Users    int    `required:""`
	Batch    int    `default:"7"`
	Key      string `secret:""`
	Password string
	Config   string
	File     string `arg:""`
}

// resolve resolves args with the environment env alone, on a file settings.json of that text.
func resolve(t *testing.T, env map[string]string, text string, args ...string) (*program, *settings.Resolved, error) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PROG_") {
			t.Fatalf("%s is set already", name)
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	defer func() {
		for name := range env {
			_ = os.Unsetenv(name) // t.Setenv brings back what was before, but only at the end
		}
	}()
	if text != "" {
		t.Chdir(t.TempDir())
		if err := os.WriteFile("settings.json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var p program
	parser, err := kong.New(&p, kong.Name("prog"), kong.DefaultEnvars("PROG"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	settings.Own(parser)
	resolved, err := settings.Resolve(t.Context(), parser, "PROG", args, "PROG_OTHER")
	return &p, resolved, err
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		file string
		args string
		want []string
	}{
		{name: "of all sources at once",
			env:  map[string]string{"PROG_TIMEOUT": "15", "PROG_LIMITS": "3", "PROG_PAGES": "0", "PROG_FORMAT": "yaml"},
			file: `{"rate": -1, "pagse": 1, "limit": "many", "redis": ["a"]}`,
			args: "serve --config settings.json --nope=1 --token",
			want: []string{
				"unknown flag --nope",
				"--token: a value is missing",
				"PROG_LIMITS: there is no such setting; did you mean PROG_LIMIT?",
				`settings.json: unknown setting "pagse"; did you mean "pages"?`,
				`settings.json: redis: neither text, a number, true nor false`,
				`settings.json: limit: expected a valid 64 bit int but got "many"`,
				`PROG_TIMEOUT: expected duration but got "15": time: missing unit in duration "15"`,
				`PROG_FORMAT: must be one of "text","json" but got "yaml"`,
				"PROG_PAGES: 0 is not 1 or more",
				"settings.json: rate: -1 is not above 0",
			}},
		{name: "of the command line", args: "serve --limit x --rate=y --timeout 1s --limt 3 --opne --format xml",
			want: []string{
				`--limit: expected a valid 64 bit int but got "x"`, `--rate: expected a float but got "y" (string)`,
				"unknown flag --limt; did you mean --limit?", "unknown flag --opne; did you mean --open?",
				`--format: must be one of "text","json" but got "xml"`,
			}},
		{name: "a URL where it does not belong", env: map[string]string{"PROG_LIMIT": "redis://:secret@h"}, args: "serve --rate postgres://u:secret@h/db http://u:secret@h",
			want: []string{
				"unexpected argument http://u:***@h", `--rate: expected a float but got "postgres://u:***@h/db" (string)`, `PROG_LIMIT: expected a valid 64 bit int but got "redis://:***@h"`,
			}},
		{name: "a value that looks like a flag", args: "serve --limit -1 --open --redis x",
			want: []string{"--limit: -1 is no value; if it is meant to be one: --limit=-1"}},
		{name: "one mistake a flag", args: "serve --limit=0 --open",
			want: []string{"--limit 0: not 1 or more", "--open: needs --redis", "something else"}},
		{name: "one that stands for a value is not checked again", env: map[string]string{"PROG_LIMIT": "x", "PROG_OPEN": "true"}, args: "serve",
			want: []string{`PROG_LIMIT: expected a valid 64 bit int but got "x"`, "PROG_OPEN: needs --redis", "something else"}},
		{name: "the value of an unknown flag is not taken for an argument", args: "load --user 3 file",
			want: []string{"unknown flag --user; did you mean --users?", "--users: it is needed"}},
		{name: "but what comes after one with a value of its own is", args: "serve --limt=3 more",
			want: []string{"unknown flag --limt; did you mean --limit?", "unexpected argument more"}},
		{name: "nor is a flag after an unknown one", args: "serve --limt --opne",
			want: []string{"unknown flag --limt; did you mean --limit?", "unknown flag --opne; did you mean --open?"}},
		{name: "what comes after an unknown flag may be an argument", args: "serve --verbosity 3",
			want: []string{"unknown flag --verbosity"}},
		{name: "all that is needed", args: "load", want: []string{"--users: it is needed"}},
		{name: "an argument that is needed", args: "load --users 3", want: []string{`expected "<file>"`}},
		{name: "an argument too many", env: map[string]string{"PROG_LIMIT": "x"}, args: "serve more",
			want: []string{"unexpected argument more", `PROG_LIMIT: expected a valid 64 bit int but got "x"`}},
		{name: "no command", args: "", want: []string{`expected one of "serve", "load", "group", "plain"`}},
		{name: "an unknown command, with flags that nobody knows", args: "srve --limit 3", want: []string{`unexpected argument srve, did you mean "serve"?`}},
		{name: "flags of a default command", args: "group --left --lfet", want: []string{"unknown flag --lfet; did you mean --left?"}},
		{name: "flags of a default command, after a short one", args: "group -l --lfet", want: []string{"unknown flag --lfet; did you mean --left?"}},
		{name: "flags of another command", args: "group two --left", want: []string{"unknown flag --left"}},
		{name: "a short flag", args: "serve -o xml", want: []string{`--format must be one of "text","json" but got "xml"`}},
		{name: "no file", args: "serve --config none.json", want: []string{"--config: read none.json: no such file or directory"}},
		{name: "no file, by the environment", env: map[string]string{"PROG_CONFIG": "none.json"}, args: "serve",
			want: []string{"PROG_CONFIG: read none.json: no such file or directory"}},
		{name: "broken", file: "{\"limit\": 1\n", args: "serve --config settings.json", want: []string{"settings.json: line 2: not JSON: unexpected EOF"}},
		{name: "twice", file: "{\"limit\": 1,\n\"limit\": 2}", args: "serve --config settings.json",
			want: []string{`settings.json: line 2: "limit" is there twice (duplicate name)`}},
		{name: "no object", file: "[1]", args: "serve --config settings.json", want: []string{`settings.json: not of the form {"<flag>": <value>, ...}`}},
		{name: "a file that names a file", file: `{"config": "x", "help": true}`, args: "serve --config settings.json",
			want: []string{`settings.json: unknown setting "config"`, `settings.json: unknown setting "help"`}},
		{name: "an element of a list", file: `{"names": ["a", {"b": 1}]}`, args: "serve --config settings.json",
			want: []string{"settings.json: names: neither text, a number, true nor false"}},
		{name: "masked", file: `{"token": "***", "redis": "redis://u:***@h"}`, args: "serve --config settings.json",
			want: []string{"settings.json: redis: a secret in it is masked (***)", "settings.json: token: a secret in it is masked (***)"}},
		{name: "masked in a query", file: `{"redis": "postgres://h/db?password=***"}`, args: "serve --config settings.json",
			want: []string{"settings.json: redis: a secret in it is masked (***)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := resolve(t, test.env, test.file, strings.Fields(test.args)...)
			wrong, ok := errors.AsType[*settings.MistakesError](err)
			if !ok {
				t.Fatalf("got %v, want mistakes", err)
			}
			got := make([]string, len(wrong.Mistakes))
			for i, m := range wrong.Mistakes {
				got[i] = m.String()
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if joined := err.Error(); !strings.Contains(joined, got[0]) || strings.Contains(joined, "\n") {
				t.Errorf("the error is %q", joined)
			}
		})
	}
}

func TestMistakesNameTheirCommand(t *testing.T) {
	for args, want := range map[string]string{"": "prog", "serve --nope": "prog serve", "group --nope": "prog group one", "srve": "prog"} {
		_, _, err := resolve(t, nil, "", strings.Fields(args)...)
		if wrong, ok := errors.AsType[*settings.MistakesError](err); !ok || wrong.Command != want {
			t.Errorf("%q: got %v, want mistakes of %s", args, err, want)
		}
	}
}

// What Kubernetes sets beside a Service of the program's name is not the program's.
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
		"PROG_USERS=1":                          false, // of another command
		"PROG_USERS=x":                          false, // and wrong there
		"PROG_DEPTH=1":                          true,  // of a command that reads no variables
		"PROG_OTHER=1":                          false, // which the program reads itself
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

// A command without --config has its command line alone.
func TestOnlyTheCommandLine(t *testing.T) {
	p, _, err := resolve(t, map[string]string{"PROG_DEPTH": "9", "PROG_NONSENSE": "1", "PROG_CONFIG": "none.json"}, "", "plain")
	if err != nil || p.Plain.Depth != 3 {
		t.Errorf("got %d, %v, want the default", p.Plain.Depth, err)
	}
}

func TestPrecedence(t *testing.T) {
	const file = `{"limit": 2, "timeout": "2s", "open": true, "names": ["a,b", "c"], "pages": 2, "redis": "redis://u:p@h", "users": 1}`
	env := map[string]string{"PROG_TIMEOUT": "3s", "PROG_PAGES": "3", "PROG_TOKEN": "s3cret", "PROG_CONFIG": "settings.json"}
	p, resolved, err := resolve(t, env, file, "serve", "--pages", "4", "--exact=5", "--no-sorted", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Serve; s.Limit != 2 || s.Timeout != 3*time.Second || *s.Data.Pages != 4 || !s.Open || s.Format != "json" || s.Config != "settings.json" || !s.checked {
		t.Errorf("got %+v", s)
	}
	want := []settings.Setting{
		{Name: "pages", Value: uint32(4), Source: "--pages"},
		{Name: "redis", Value: "redis://u:p@h", Source: "settings.json"},
		{Name: "rate", Value: 0.001, Source: "default"},
		{Name: "limit", Value: 2, Source: "settings.json"},
		{Name: "timeout", Value: "3s", Source: "PROG_TIMEOUT"},
		{Name: "open", Value: true, Source: "settings.json"},
		{Name: "names", Value: []any{"a,b", "c"}, Source: "settings.json"},
		{Name: "format", Value: "json", Source: "--format"},
		{Name: "token", Value: "s3cret", Source: "PROG_TOKEN", Secret: true},
		{Name: "exact", Value: 5, Source: "--exact"},
		{Name: "sorted", Value: false, Source: "--sorted"},
	}
	if !reflect.DeepEqual(resolved.Settings, want) {
		t.Errorf("got\n%v, want\n%v", resolved.Settings, want)
	}
	if shown := fmt.Sprintln(resolved.Settings[1].Masked(), resolved.Settings[8].Masked(), resolved.Settings[6].Masked()); shown != "redis://u:***@h *** [a,b c]\n" {
		t.Errorf("masked: %s", shown)
	}
}

// The command line says which file, whatever the environment does.
func TestFileOfTheCommandLine(t *testing.T) {
	p, _, err := resolve(t, map[string]string{"PROG_CONFIG": "none.json"}, `{"limit": 3, "names": "a,b"}`, "serve", "--config", "settings.json")
	if err != nil || p.Serve.Limit != 3 || !slices.Equal(p.Serve.Names, []string{"a", "b"}) {
		t.Errorf("got %+v, %v", p.Serve, err)
	}
}

// Arguments may stand before flags and among them, and after -- begin like flags.
func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		"load file --users 3": "file", "load --users 3 file --batch 7": "file", "load --users 3 -": "-", "load --users 3 -- --file": "--file",
	} {
		p, _, err := resolve(t, nil, "", strings.Fields(args)...)
		if err != nil || p.Load.Users != 3 || p.Load.File != want {
			t.Errorf("%s: got %+v, %v", args, p.Load, err)
		}
	}
}

// What is secret is so by its tag or its name. That none is set is not.
func TestSecrets(t *testing.T) {
	_, resolved, err := resolve(t, map[string]string{"PROG_KEY": "k"}, "", "load", "--users=3", "file")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]any)
	for _, s := range resolved.Settings {
		if s.Secret {
			shown[s.Name] = s.Masked()
		}
	}
	if want := map[string]any{"key": settings.Mask, "password": ""}; !reflect.DeepEqual(shown, want) {
		t.Errorf("secrets are shown as %v, want %v", shown, want)
	}
}

// An empty variable sets a flag too, so that it can take back what the file has.
func TestEmptyVariable(t *testing.T) {
	p, _, err := resolve(t, map[string]string{"PROG_REDIS": ""}, `{"redis": "redis://h"}`, "serve", "--config", "settings.json")
	if err != nil || p.Serve.Data.Redis != "" {
		t.Errorf("got %q, %v, want nothing", p.Serve.Data.Redis, err)
	}
}

func TestMasked(t *testing.T) {
	for text, want := range map[string]string{
		"redis://user:s3cret@host:6379/0":              "redis://user:***@host:6379/0",
		"redis://:s3cret@host":                         "redis://:***@host",
		"redis://user@host:6379":                       "redis://user@host:6379",
		"redis://host:6379/0?client_name=a@b":          "redis://host:6379/0?client_name=a@b",
		"redis+cluster://u:s3:cr@et@a:1,b:2/?x=y":      "redis+cluster://u:***@a:1,b:2/?x=y",
		"redis+sentinel://a:1,b:2/primary":             "redis+sentinel://a:1,b:2/primary",
		"postgres://u:s3/cret@host/db":                 "postgres://u:***@host/db",
		"postgres://u:s3?cret@host/db":                 "postgres://u:***@host/db",
		"postgres://u:s3#cret@host/db":                 "postgres://u:***@host/db",
		"postgres://host/db?password=s3cret&a=b":       "postgres://host/db?password=***&a=b",
		"postgres://host/db?sslpassword=s3cret#c":      "postgres://host/db?sslpassword=***#c",
		"sqlite:dir/ledger.db":                         "sqlite:dir/ledger.db",
		"127.0.0.1:8080":                               "127.0.0.1:8080",
		"":                                             "",
		"elasticache://name?region=r&secret=id&user=u": "elasticache://name?region=r&secret=id&user=u",
		"unix://u:s3cret@/run/redis.sock":              "unix://u:***@/run/redis.sock",
	} {
		if got := settings.Masked(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var p program
	var out strings.Builder
	exit := -1
	parser, err := kong.New(&p, kong.Name("prog"), kong.Writers(&out, io.Discard), kong.Exit(func(code int) { exit = code }))
	if err != nil {
		t.Fatal(err)
	}
	settings.Own(parser)
	_, _ = settings.Resolve(t.Context(), parser, "PROG", []string{"serve", "--nope", "--help"}) // kong would have ended the process
	if exit != 0 || !strings.Contains(out.String(), "Usage: prog serve [flags]") {
		t.Errorf("exit %d, printed %q", exit, out.String())
	}
}

func TestFileByPath(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(name, []byte(`{"limit": 3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, resolved, err := resolve(t, nil, "", "serve", "--config="+name)
	if err != nil || resolved.Settings[3].Source != name {
		t.Errorf("got %v, %v, want %s as the source", resolved, err, name)
	}
}
