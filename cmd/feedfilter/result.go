package main

import (
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const asJSON = "json" // a value of --output

// resultFlags are the flags of commands that print a result.
type resultFlags struct {
	Output string `default:"text" enum:"text,json" help:"${result_output}" placeholder:"FORMAT" short:"o"`
}

// json reports whether to print the result as JSON.
func (f *resultFlags) json() bool { return f.Output == asJSON }

// write writes a result as JSON, or calls text to write it as text.
func (f *resultFlags) write(std stdio, result any, text func(io.Writer) error) error {
	if f.json() {
		return writeJSON(std.out, result)
	}
	return text(std.out)
}

// writeJSON writes value to out as indented JSON.
func writeJSON(out io.Writer, value any) error {
	text, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}
