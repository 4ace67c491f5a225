package main

import (
	"io"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"
)

const asJSON = "json" // a value of --output

// resultFlags are the flags of commands that print a result.
type resultFlags struct {
	Output string `default:"text" enum:"text,json" help:"${result_output}" placeholder:"FORMAT" short:"o"`
}

// json reports whether to print the result as JSON.
func (f *resultFlags) json() bool { return f.Output == asJSON }

// writeJSON writes value to out as indented JSON.
func writeJSON(out io.Writer, value any) error {
	text, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// colourFlags are the flags of commands whose text may have colours.
type colourFlags struct {
	Color string `default:"auto" enum:"auto,always,never" help:"${result_color}" placeholder:"WHEN"`
}

// on reports whether to use colours in text for out. NO_COLOR turns them off in all programs:
// https://no-color.org.
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
