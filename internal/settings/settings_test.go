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

// program is a command line with several kinds of commands.
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
	Limit   int           `default:"512" help:"largest number"`
	Timeout time.Duration `default:"15s"`
	Open    bool
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

func (c *common) Check(context.Context) error {
	var errs []error
	if c.Pages != nil && *c.Pages == 0 {
		errs = append(errs, errors.New("--pages: 0 is not 1 or more"))
	}
	if !(c.Rate > 0) {
		errs = append(errs, fmt.Errorf("--rate: %g is not above 0", c.Rate))
	}
	return errors.Join(errs...)
}

func (s *serve) Check(ctx context.Context) error {
	s.checked = true
	errs := []error{s.Data.Check(ctx)} // Check of Data runs again by itself; each mistake is reported once
	if s.Limit < 1 {
		errs = append(errs, fmt.Errorf("--limit %d: not 1 or more", s.Limit))
	}
	if s.Open && s.Data.Redis == "" {
		errs = append(errs, errors.New("--open: needs --redis"), errors.New("something else"))
	}
	return errors.Join(errs...)
}

type load struct {
	Users  int `required:""`
	Batch  int `default:"7"`
	Amount int `help:"largest number"`
	Config string
	File   string `arg:""`
}

// resolve parses args with only the environment env, and with text as the file settings.json.
func resolve(
	t *testing.T, env map[string]string, text string, args ...string,
) (*program, *settings.Command, error) {
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
			_ = os.Unsetenv(name) // t.Setenv restores the variable, but only at the end
		}
	}()
	if text != "" {
		t.Chdir(t.TempDir())
		if err := os.WriteFile("settings.json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var p program
	parser, err := kong.New(&p,
		kong.Name("prog"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	settings.Variables(parser.Model.Node, "PROG")
	command, err := settings.Parse(t.Context(), parser, "PROG", args, "PROG_OTHER")
	return &p, command, err
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		file string
		args string
		want []string
	}{
		{
			name: "of all sources at once",
			env: map[string]string{
				"PROG_TIMEOUT": "15", "PROG_LIMITS": "3", "PROG_PAGES": "0", "PROG_FORMAT": "yaml",
			},
			file: `{"rate": -1, "pagse": 1, "limit": "many", "redis": ["a"]}`,
			args: "serve --config settings.json",
			want: []string{
				`PROG_LIMITS: sets no flag, did you mean "PROG_LIMIT"?`,
				`settings.json: pagse: sets no flag of prog serve, did you mean "pages"?`,
				`settings.json: redis: neither text, a number, true nor false`,
				`settings.json: limit: expected a valid 64 bit int but got "many"`,
				`PROG_TIMEOUT: expected duration but got "15": time: missing unit in duration "15"`,
				`PROG_FORMAT: "yaml" is not one of text, json`,
				"PROG_PAGES: 0 is not 1 or more",
				"settings.json: rate: -1 is not above 0",
			},
		},
		{
			name: "the first on the command line", env: map[string]string{"PROG_LIMIT": "x"},
			args: "serve --limt 3 --rate=y",
			want: []string{`unknown flag --limt, did you mean "--limit"?`},
		},
		{
			name: "a value",
			args: "serve --rate=y",
			want: []string{`--rate: expected a float but got "y" (string)`},
		},
		{
			name: "one of a few",
			args: "serve --format xml",
			want: []string{`--format: "xml" is not one of text, json`},
		},
		{
			name: "no value",
			args: "serve --token",
			want: []string{`--token: expected string value but got "EOL" (<EOL>)`},
		},
		{
			name: "a value that looks like a flag", args: "serve --limit -1",
			want: []string{
				`--limit: expected int value but got "-1" (short flag); perhaps try --limit="-1"?`,
			},
		},
		{
			name: "a URL where it does not belong", args: "serve --rate postgres://u:secret@h/db",
			want: []string{`--rate: expected a float but got "postgres://u:***@h/db" (string)`},
		},
		{
			name: "a URL where it does not belong, in the environment",
			env:  map[string]string{"PROG_LIMIT": "redis://:secret@h"},
			args: "serve",
			want: []string{`PROG_LIMIT: expected a valid 64 bit int but got "redis://:***@h"`},
		},
		{
			name: "of values", args: "serve --limit=0 --open",
			want: []string{"--limit 0: not 1 or more", "--open: needs --redis", "something else"},
		},
		{
			name: "of values in the environment",
			env:  map[string]string{"PROG_LIMIT": "x", "PROG_OPEN": "true"},
			args: "serve",
			want: []string{
				`PROG_LIMIT: expected a valid 64 bit int but got "x"`,
				"PROG_OPEN: needs --redis", "something else",
			},
		},
		{
			name: "a flag that is needed",
			args: "load file",
			want: []string{"--users: required"},
		},
		{
			name: "an argument that is needed",
			args: "load --users 3",
			want: []string{`<file>: required`},
		},
		{
			name: "an argument too many",
			args: "serve more",
			want: []string{"unexpected argument more"},
		},
		{
			name: "no command",
			args: "",
			want: []string{`expected one of serve, load, group, plain`},
		},
		{
			name: "an unknown command",
			args: "srve --limit 3",
			want: []string{`unexpected argument srve, did you mean "serve"?`},
		},
		{
			name: "a flag of a default command",
			args: "group --left --lfet",
			want: []string{`unknown flag --lfet, did you mean "--left"?`},
		},
		{
			name: "a flag of another command",
			args: "group two --left",
			want: []string{"unknown flag --left"},
		},
		{
			name: "no file",
			args: "serve --config none.json",
			want: []string{"--config: open none.json: no such file or directory"},
		},
		{
			name: "no file, by the environment",
			env:  map[string]string{"PROG_CONFIG": "none.json"},
			args: "serve",
			want: []string{"PROG_CONFIG: open none.json: no such file or directory"},
		},
		{
			name: "broken", file: "{\"limit\": 1\n", args: "serve --config settings.json",
			want: []string{
				"settings.json: not a JSON object of flags: jsontext: unexpected EOF after offset 12",
			},
		},
		{
			name: "twice", file: `{"limit": 1, "limit": 2}`, args: "serve --config settings.json",
			want: []string{
				`settings.json: not a JSON object of flags: jsontext: duplicate object member name "limit"`,
			},
		},
		{
			name: "no object", file: "[1]", args: "serve --config settings.json",
			want: []string{
				`settings.json: not a JSON object of flags: json: cannot unmarshal JSON array into Go map[string]jsontext.Value`,
			},
		},
		{
			name: "what a file cannot set",
			file: `{"config": "x", "help": true, "depth": 3, "a=b": 1}`,
			args: "serve --config settings.json",
			want: []string{
				"settings.json: config: sets no flag of prog serve", "settings.json: help: sets no flag of prog serve",
				"settings.json: depth: sets no flag of prog serve",
				`settings.json: a=b: sets no flag of prog serve`,
			},
		},
		{
			name: "a variable as a key",
			file: `{"PROG_LIMIT": 3}`, args: "serve --config settings.json",
			want: []string{`settings.json: PROG_LIMIT: sets no flag of prog serve, did you mean "limit"?`},
		},
		{
			name: "keys of another command in the file of the service",
			file: `{"users": 1, "batch": 2, "left": true, "amount": 3}`, args: "serve --config settings.json",
			want: []string{
				"settings.json: users: sets no flag of prog serve", "settings.json: batch: sets no flag of prog serve",
				"settings.json: left: sets no flag of prog serve",
				`settings.json: amount: sets no flag of prog serve, did you mean "limit"?`, // they have the same help
			},
		},
		{
			name: "keys of a third command, and near ones",
			file: `{"limit": 3, "batch": 2, "left": true, "Pages": 4, "batsch": 5}`,
			args: "load file --users 3 --config settings.json",
			want: []string{
				"settings.json: left: sets no flag of prog load",
				"settings.json: Pages: sets no flag of prog load",
				`settings.json: batsch: sets no flag of prog load, did you mean "batch"?`,
			},
		},
		{
			name: "nested keys",
			file: `{"data": {"pages": 3}, "redis": {"url": "x"}}`, args: "serve --config settings.json",
			want: []string{
				"settings.json: data: sets no flag of prog serve",
				"settings.json: redis: neither text, a number, true nor false",
			},
		},
		{
			name: "masked",
			file: `{"token": "postgres://h/db?password=***", "redis": "redis://u:***@h"}`,
			args: "serve --config settings.json",
			want: []string{
				"settings.json: redis: the password in it is masked (***)",
				"settings.json: token: the password in it is masked (***)",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := resolve(t, test.env, test.file, strings.Fields(test.args)...)
			wrong, ok := errors.AsType[*settings.MistakesError](err)
			if !ok {
				t.Fatalf("got %v, want mistakes", err)
			}
			got := slices.Clone(wrong.Mistakes)
			for i := range got {
				got[i] = strings.Replace(got[i], "unable to", "cannot", 1) // jsontext uses both words
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if joined := err.Error(); !strings.Contains(joined, wrong.Mistakes[0]) || strings.Contains(joined, "\n") {
				t.Errorf("the error is %q", joined)
			}
		})
	}
}

func TestMistakesNameTheirCommand(t *testing.T) {
	for args, want := range map[string]string{"": "prog", "serve --nope": "prog serve", "group --nope": "prog group", "srve": "prog"} {
		_, _, err := resolve(t, nil, "", strings.Fields(args)...)
		if wrong, ok := errors.AsType[*settings.MistakesError](err); !ok || wrong.Command != want {
			t.Errorf("%q: got %v, want mistakes of %s", args, err, want)
		}
	}
}

// TestOnlyTheCommandLine checks that a command without --config uses only its command line.
func TestOnlyTheCommandLine(t *testing.T) {
	p, _, err := resolve(t, map[string]string{"PROG_DEPTH": "9", "PROG_NONSENSE": "1", "PROG_CONFIG": "none.json"}, "", "plain")
	if err != nil || p.Plain.Depth != 3 {
		t.Errorf("got %d, %v, want the default", p.Plain.Depth, err)
	}
}

func TestPrecedence(t *testing.T) {
	const file = `{"limit": 2, "timeout": "2s", "open": true, "pages": 2, "redis": "redis://u:p@h"}`
	env := map[string]string{"PROG_TIMEOUT": "3s", "PROG_PAGES": "3", "PROG_TOKEN": "s3cret", "PROG_CONFIG": "settings.json"}
	p, command, err := resolve(t, env, file, "serve", "--pages", "4", "--exact=5", "--no-sorted", "-o", "json")
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
		{Name: "format", Value: "json", Source: "--format"},
		{Name: "token", Value: "s3cret", Source: "PROG_TOKEN"},
		{Name: "exact", Value: 5, Source: "--exact"},
		{Name: "sorted", Value: false, Source: "--sorted"},
	}
	if !reflect.DeepEqual(command.Settings, want) {
		t.Errorf("got\n%v, want\n%v", command.Settings, want)
	}
	if shown := fmt.Sprintln(command.Settings[1].Masked(), command.Settings[3].Masked()); shown != "redis://u:***@h 2\n" {
		t.Errorf("masked: %s", shown)
	}
}

// TestFileOfTheCommandLine checks that --config on the command line overrides the variable.
func TestFileOfTheCommandLine(t *testing.T) {
	p, _, err := resolve(t, map[string]string{"PROG_CONFIG": "none.json"}, `{"limit": 3}`, "serve", "--config", "settings.json")
	if err != nil || p.Serve.Limit != 3 {
		t.Errorf("got %+v, %v", p.Serve, err)
	}
}

// TestArguments checks that arguments may come before, between and after flags, and that an
// argument after -- may begin like a flag.
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

func TestHelp(t *testing.T) {
	var p program
	var out strings.Builder
	exit := -1
	parser, err := kong.New(&p, kong.Name("prog"), kong.Writers(&out, io.Discard), kong.Exit(func(code int) { exit = code }))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = settings.Parse(t.Context(), parser, "PROG", []string{"serve", "--help"}) // kong normally ends the process
	if exit != 0 || !strings.Contains(out.String(), "Usage: prog serve [flags]") {
		t.Errorf("exit %d, printed %q", exit, out.String())
	}
}

// TestFileOfTheService checks that a command takes the flags of the service from its file, and its
// own.
func TestFileOfTheService(t *testing.T) {
	p, _, err := resolve(t, nil, `{"limit": 3, "pages": 0, "batch": 9}`, "load", "file", "--users=3", "--config=settings.json")
	if err != nil || p.Load.Batch != 9 {
		t.Errorf("got %+v, %v, want batch 9", p.Load, err)
	}
}

// TestUnusedVariables checks that variables of other commands are named, and set nothing.
func TestUnusedVariables(t *testing.T) {
	_, command, err := resolve(t, map[string]string{"PROG_AMOUNT": "3", "PROG_USERS": "1", "PROG_PAGES": "4", "PROG_OTHER": "x"}, "", "serve")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{`PROG_AMOUNT, did you mean "PROG_LIMIT"?`, "PROG_USERS"}; !slices.Equal(command.Unused, want) {
		t.Errorf("got %q, want %q", command.Unused, want)
	}
}

func TestFileByPath(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(name, []byte(`{"limit": 3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, command, err := resolve(t, nil, "", "serve", "--config="+name)
	if err != nil || command.Settings[3].Source != name {
		t.Errorf("got %v, %v, want %s as the source", command, err, name)
	}
}
