package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/migrate"
)

// shownDifferences is the number of differences printed without --differences.
const shownDifferences = 20

// differenceList writes differences to a file, as lines for import, or prints the first ones.
type differenceList struct {
	std   stdio
	kind  string
	file  *output // nil: the first differences are printed
	lines *bufio.Writer
	n     int
	err   error
}

func (f *compareFlags) list(kind string, std stdio) (l *differenceList, err error) {
	l = &differenceList{std: std, kind: kind}
	if f.Differences != "" {
		if l.file, err = createOutput(f.Differences, std); err == nil {
			l.lines = bufio.NewWriter(l.file.file)
		}
	}
	return l, err
}

// add writes a line that corrects a difference when it is imported. It adds what the service lacks,
// and removes what the service has too much.
func (l *differenceList) add(d migrate.Difference) {
	l.n++
	if l.file == nil {
		if l.n <= shownDifferences {
			l.std.note(fmt.Sprintf("%s: user %q, target %q", d.What, d.User, d.Target))
		}
		return
	}
	line, err := activityfile.Line(activity.Activity{
		User: d.User, Kind: l.kind, Target: d.Target, Remove: d.What == migrate.Extra,
	})
	if _, failed := l.lines.Write(line); err == nil {
		err = failed
	}
	l.err = errors.Join(l.err, err)
}

// end completes the file, or removes it after an error.
func (l *differenceList) end(failed error) error {
	if l.file == nil {
		if more := l.n - shownDifferences; more > 0 {
			l.std.note(fmt.Sprintf("and %d more: --differences lists all", more))
		}
		return nil
	}
	err := errors.Join(l.err, l.lines.Flush())
	if err == nil && failed == nil {
		return l.file.commit()
	}
	return errors.Join(err, l.file.discard())
}

type compareFileCmd struct {
	With   compareFlags `embed:""`
	Kind   string       `help:"${file_kind}" placeholder:"KIND"     required:""`
	Format string       `default:""          enum:"csv,ndjson,"     help:"${format}" placeholder:"FORMAT"`
	File   string       `arg:""              help:"${compare_what}"`
}

// Help is shown by kong below the summary.
func (*compareFileCmd) Help() string {
	return "Works like compare sets, with a file sorted by user, such as an export of a SQL table. The differences include what the " +
		"app wrote after the export: compare with a second export, and import only what differs both times."
}

// Run compares.
func (c *compareFileCmd) Run(ctx context.Context, std stdio) error {
	if c.Format == "" && activityfile.FormatOf(c.File) == "" {
		return usageError{fmt.Errorf("%s: unknown format: give --format csv or --format ndjson", c.File)}
	}
	source, err := activityfile.Open(c.File, c.Format, std.in)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	defer source.Close()
	kinds, err := c.With.Data.kinds()
	if err != nil {
		return err
	}
	lines, err := activityfile.NewReader(ctx, source, kinds.Check, activityfile.Checkpoint{})
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	records := &migrate.Records{Next: func() (m migrate.Member, ok bool, err error) { return c.next(lines) }}
	return c.With.run(ctx, std, &migrate.Comparison{Source: records}, c.Kind)
}

// next returns the next activity of the kind.
func (c *compareFileCmd) next(lines *activityfile.Reader) (m migrate.Member, ok bool, err error) {
	for {
		var a activity.Activity
		a, err = lines.Peek()
		switch {
		case errors.Is(err, io.EOF):
			return m, false, nil
		case err != nil:
			return m, false, err
		case a.Remove:
			return m, false, fmt.Errorf("line %d: op remove is not allowed in a comparison", lines.Position().Line)
		}
		lines.Accept()
		if a.Kind == c.Kind {
			return migrate.Member{Pair: migrate.Pair{User: a.User, Target: a.Target}, Since: a.Since}, true, nil
		}
	}
}
