package manual_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/manual"
)

// program has what there may be of commands, flags and arguments.
type program struct {
	Run struct {
		Level   string `default:"low"                     enum:"low,high,lowest" help:"How much. Not more."`
		File    string `help:"A file | or none: <x> *y*." placeholder:"FILE"`
		Into    string `placeholder:"DIR"`
		Format  string `default:"text"                    enum:"text,json"       short:"o"`
		Sure    bool   `negatable:""`
		Names   []string
		Secret  bool     `hidden:""`
		Sources []string `arg:""    name:"file"`
	} `cmd:"" help:"Run it: now."`
	Group struct {
		One struct{ Deep int } `cmd:"" default:"withargs" help:"First."`
		Two struct {
			Shell string `arg:"" enum:"sh,csh"`
		} `cmd:"" help:"Second."`
	} `cmd:"" help:"Two of them."`
	About struct {
		Command []string `arg:"" optional:""`
	} `cmd:"" help:"Third."`
	Hidden struct{} `cmd:"" hidden:""`
}

func app(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&program{}, kong.Name("prog"), kong.Description("Does things. Many.\n\n    prog run  x\n    prog group"), kong.DefaultEnvars("PROG"))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

func TestComplete(t *testing.T) {
	model := app(t)
	for line, want := range map[string]string{
		"":                          "run group about",
		"r":                         "run",
		"h":                         "", // hidden
		"run --":                    "--help --level --file --into --format --sure --names",
		"run --le":                  "--level",
		"run --level low --":        "--help --file --into --format --sure --names",
		"run --names a --n":         "--names", // which may come again
		"run --level ":              "low high lowest",
		"run --level lo":            "low lowest",
		"run --level=lo":            "--level=low --level=lowest",
		"run --level=low --format=": "--format=text --format=json",
		"run -o j":                  "json",
		"run --sure ":               "files", // it takes no value
		"run --sure=":               "--sure=true --sure=false",
		"run --file ":               "files",
		"run --file=x":              "files after --file=",
		"run --into ":               "directories",
		"run ":                      "files",
		"run x ":                    "files", // and more
		"run -- --l":                "files",
		"run --nope ":               "files",
		"run --nope=":               "",
		"group ":                    "one two",
		"group --d":                 "--deep", // of the default command
		"group one --d":             "--deep",
		"group two --d":             "",
		"group two c":               "csh",
		"group two csh ":            "",
		"about ":                    "run group about", // an argument that names a command
		"about g":                   "group",
		"about group ":              "one two",
		"about group one ":          "",
		"about hidden ":             "",
		"nothing ":                  "",
		"hidden --":                 "--help",
	} {
		t.Run(line, func(t *testing.T) {
			words := strings.Split(line, " ")
			c := manual.Complete(model, words)
			var got []string
			for _, w := range c.Words {
				got = append(got, w.Text)
			}
			switch c.Files {
			case manual.AnyFile:
				got = append(got, "files")
			case manual.Directories:
				got = append(got, "directories")
			case manual.NoFiles:
			}
			if c.Files != manual.NoFiles && c.Prefix != "" {
				got = append(got, "after", c.Prefix)
			}
			if is := strings.Join(got, " "); is != want {
				t.Errorf("got %q, want %q", is, want)
			}
		})
	}
}

// bash cuts words at some characters, also within quotes that it leaves in place.
func TestAnswerBash(t *testing.T) {
	model := app(t)
	const breaks = " \t\"'><=;|&(:"
	for line, want := range map[string]string{
		"prog ":                               "run\ngroup\nabout\n",
		"prog":                                "run\ngroup\nabout\n",
		"prog run --level=lo":                 "low\nlowest\n", // after the "=", where bash begins a word
		"prog run --level=":                   "low\nhigh\nlowest\n",
		"prog run --le":                       "--level\n",
		`prog run --file "a b" --level l`:     "low\nlowest\n",
		`prog run --file a\ b --level l`:      "low\nlowest\n",
		`prog run --file '' --level l`:        "low\nlowest\n",
		`prog run --file 'a "\ b' --level lo`: "low\nlowest\n",
		`prog run --file 'a\' --level l`:      "low\nlowest\n",
		"prog run --file=x":                   ":files --file=\n",
	} {
		if got := manual.Answer(model, "bash", []string{breaks, line}); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	if got, want := manual.Answer(model, "bash", []string{" ", "prog run --level=lowe"}), "--level=lowest\n"; got != want {
		t.Errorf("where = cuts no words: got %q, want %q", got, want)
	}
	if got := manual.Answer(model, "bash", nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestAnswerOthers(t *testing.T) {
	model := app(t)
	if got, want := manual.Answer(model, "fish", []string{"run", "--le"}), "--level\tHow much\n"; got != want {
		t.Errorf("fish: got %q, want %q", got, want)
	}
	if got, want := manual.Answer(model, "zsh", []string{"r"}), "run:Run it\n"; got != want {
		t.Errorf("zsh: got %q, want %q", got, want)
	}
}

// Nothing of a text is taken for markup, by neither.
func TestMarkup(t *testing.T) {
	model := app(t)
	p := &manual.Program{Version: `v"1`, Date: "2026-11-22", Exit: []manual.Status{{"0", "Well."}}}
	pages := p.Pages(model)
	names := make([]string, 0, len(pages))
	for name := range pages {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"prog-about.1", "prog-group-one.1", "prog-group-two.1", "prog-group.1", "prog-run.1", "prog.1"}; !slices.Equal(names, want) {
		t.Errorf("pages %v, want %v", names, want)
	}
	for _, part := range []string{
		`.TH "PROG\-RUN" 1`, ".SH NAME\nprog\\-run \\- Run it\n", `\fB\-\-level\fR=\fI`, "How much.\nNot more.\nDefault: low ($PROG_LEVEL)", ".SH EXIT STATUS\n.TP\n0\nWell.\n",
		".BR prog (1),\n.BR prog\\-about (1),\n.BR prog\\-group (1)\n",
	} {
		if text := strings.Replace(pages["prog-run.1"], `"PROG-RUN"`, `"PROG\-RUN"`, 1); !strings.Contains(text, part) {
			t.Errorf("the page lacks %q:\n%s", part, text)
		}
	}
	if strings.Contains(pages["prog-run.1"], "secret") || !strings.Contains(pages["prog.1"], ".nf\nprog run  x\nprog group\n.fi") {
		t.Errorf("what is hidden, or what is to stay:\n%s", pages["prog.1"])
	}
	text := p.Markdown(model)
	for _, part := range []string{
		"# prog\n\nDoes things. Many.\n\n```console\nprog run  x\nprog group\n```\n", "| [`prog group two`](#prog-group-two) | Second. |\n",
		"| `--file=FILE` | `PROG_FILE` | A file \\| or none: \\<x\\> \\*y\\*. |\n", "| 0 | Well. |\n", "\n## prog run\n\nRun it: now.\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the reference lacks %q:\n%s", part, text)
		}
	}
	if strings.Contains(text, "hidden") || strings.Contains(text, "secret") {
		t.Errorf("it has what is hidden:\n%s", text)
	}
}
