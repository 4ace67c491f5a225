package main

import (
	"io"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"
)

const asJSON = "json" // as --output

// resultFlags are those of all commands that print a result.
type resultFlags struct {
	Output string `default:"text" enum:"text,json" help:"${result_output}" placeholder:"FORMAT" short:"o"`
}

// json reports whether the result is for programs.
func (f *resultFlags) json() bool { return f.Output == asJSON }

// writeJSON writes value to out, for programs and people.
func writeJSON(out io.Writer, value any) error {
	text, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// colourFlags are those of commands whose text may have colours.
type colourFlags struct {
	Color string `default:"auto" enum:"auto,always,never" help:"${result_color}" placeholder:"WHEN"`
}

// on reports whether what goes to out is to have colours: NO_COLOR is what the user says of all programs, at https://no-color.org.
func (f *colourFlags) on(out *os.File) bool {
	switch f.Color {
	case "always":
		return true
	case "never":
		return false
	default:
		return term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
}
