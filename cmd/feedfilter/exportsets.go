package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/migrate"
)

// formatRESP is the format of Redis commands.
const formatRESP = "resp"

// exportFormat sets the lines of an export.
type exportFormat struct {
	Kind    string `help:"${export_kind}" placeholder:"KIND"`
	Format  string `default:"ndjson"      enum:"ndjson,resp"                 help:"${export_format}" placeholder:"FORMAT"`
	Keys    string `help:"${export_keys}" placeholder:"PATTERN"`
	Reverse bool   `help:"${reverse}"`
	Scores  string `default:"ignore"      enum:"ignore,seconds,milliseconds" help:"${export_scores}" placeholder:"UNIT"`
}

// Check implements [settings.Checker].
func (f *exportFormat) Check(context.Context) error {
	if f.Format != formatRESP {
		return nil
	}
	if f.Kind == "" {
		return fmt.Errorf("--kind: required by --format %s", formatRESP)
	}
	if _, err := migrate.ParsePattern(f.Keys); err != nil {
		return fmt.Errorf("--keys: %w", err)
	}
	return nil
}

// check refuses a kind that an export never has, so that a typing error does not produce an empty
// backup.
func (f *exportFormat) check(kinds *activity.Kinds) error {
	if f.Kind == "" {
		return nil
	}
	switch k, ok := kinds.Named(f.Kind); {
	case !ok:
		return fmt.Errorf("--kind: unknown kind %q", f.Kind)
	case !k.InLedger():
		return fmt.Errorf("--kind: %s has a window, and cannot be exported", f.Kind)
	default:
		return nil
	}
}

// line formats an activity; nil: it is left out.
func (f *exportFormat) line(a activity.Activity) ([]byte, error) {
	switch {
	case f.Kind != "" && a.Kind != f.Kind:
		return nil, nil
	case f.Format == formatRESP:
		return f.command(a), nil
	}
	return activityfile.Line(a)
}

// command returns a Redis command that adds an activity to a set; nil: it has an until, which a set
// cannot hold.
func (f *exportFormat) command(a activity.Activity) []byte {
	if !a.Until.IsZero() {
		return nil
	}
	keys, err := migrate.ParsePattern(f.Keys)
	if err != nil {
		return nil // Check has parsed it already
	}
	owner, member := a.User, a.Target
	if f.Reverse {
		owner, member = member, owner
	}
	args := []string{"SADD", keys.Key(owner), member}
	switch migrate.Scores(f.Scores) {
	case migrate.Seconds:
		args = []string{"ZADD", keys.Key(owner), strconv.FormatFloat(float64(a.Since.UnixMicro())/1e6, 'f', -1, 64), member}
	case migrate.Milliseconds:
		args = []string{"ZADD", keys.Key(owner), strconv.FormatFloat(float64(a.Since.UnixMicro())/1e3, 'f', -1, 64), member}
	case migrate.NoScores:
	}
	text := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return text
}
