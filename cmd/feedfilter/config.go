package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/internal/settings"
)

// configCmds check and print the settings of serve. They have all flags of serve.
type configCmds struct {
	Check configCheckCmd `cmd:"" help:"${config_check}"`
	Print configPrintCmd `cmd:"" help:"${config_print}"`
}

type configCheckCmd struct {
	Serve serveCmd `embed:""`
}

// Run prints ok, and which variables have no effect. It is not called if a setting is wrong.
func (*configCheckCmd) Run(_ context.Context, std stdio, chosen *invocation) error {
	for _, variable := range chosen.command.Unused {
		std.note("feedfilter: has no effect on serve: " + variable)
	}
	_, err := fmt.Fprintln(std.out, "ok")
	return err
}

type configPrintCmd struct {
	Serve       serveCmd    `embed:""`
	Result      resultFlags `embed:""`
	ShowSecrets bool        `help:"${config_secrets}"`
}

// Run prints the settings.
func (c *configPrintCmd) Run(_ context.Context, std stdio, chosen *invocation) error {
	own := map[string]bool{"output": true, "show-secrets": true}
	var shown []settings.Setting
	for _, s := range chosen.command.Settings {
		if own[s.Name] {
			continue
		}
		if !c.ShowSecrets {
			s.Value = s.Masked()
		}
		shown = append(shown, s)
	}
	if c.Result.json() {
		return printFile(std, shown)
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "SETTING\tVALUE\tFROM") // Flush returns errors
	for _, s := range shown {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, valueText(s.Value), s.Source)
	}
	return table.Flush()
}

// valueText formats a value for people, "-" for none.
func valueText(value any) string {
	if value == nil || value == "" {
		return "-"
	}
	return fmt.Sprint(value)
}

// printFile prints the settings in order, as a file for --config, without those that are not set.
func printFile(std stdio, all []settings.Setting) error {
	out := jsontext.NewEncoder(std.out, jsontext.WithIndent("  "))
	if err := out.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, s := range all {
		if s.Value == nil {
			continue
		}
		if err := out.WriteToken(jsontext.String(s.Name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(out, s.Value); err != nil {
			return err
		}
	}
	return out.WriteToken(jsontext.EndObject)
}
