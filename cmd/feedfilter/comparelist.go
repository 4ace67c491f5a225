package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/migrate"
)

// shownDifferences is how many differences are shown where no file is to have them.
const shownDifferences = 20

// differenceList takes differences, to a file or as notes.
type differenceList struct {
	std   stdio
	file  *output // nil: the first are shown
	lines *bufio.Writer
	n     int
	err   error
}

func (f *compareFlags) list(std stdio) (*differenceList, error) {
	l := &differenceList{std: std}
	if f.Differences == "" {
		return l, nil
	}
	var err error
	if l.file, err = createOutput(f.Differences, std); err != nil {
		return nil, err
	}
	l.lines = bufio.NewWriter(l.file.file)
	return l, nil
}

func (l *differenceList) add(d migrate.Difference) {
	l.n++
	if l.file == nil && l.n > shownDifferences {
		return
	}
	line, err := json.Marshal(d)
	switch {
	case l.err != nil || err != nil:
		l.err = errors.Join(l.err, err)
	case l.file == nil:
		l.std.note(string(line))
	default:
		_, l.err = l.lines.Write(append(line, '\n'))
	}
}

// end completes the list, or removes it after an error.
func (l *differenceList) end(failed error) error {
	if l.file == nil {
		if more := l.n - shownDifferences; more > 0 {
			l.std.note(fmt.Sprintf("and %d more: --differences lists all", more))
		}
		return l.err
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
	return "As compare sets does, with a file such as an export of a SQL table, sorted by user, in place of sets. A file is older than " +
		"what the app has written since, so nothing is repaired from it: have the app settle what --differences lists, or compare with " +
		"another export, and go by what differs both times."
}

// Run compares.
func (c *compareFileCmd) Run(ctx context.Context, std stdio) error {
	if c.Format == "" && formatOf(c.File) == "" {
		return usageError{fmt.Errorf("%s: the name does not tell the format: give --format csv or --format ndjson", c.File)}
	}
	source, err := openSource(c.File, c.Format, std.in)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	defer source.close()
	kinds, err := c.With.Data.kinds()
	if err != nil {
		return err
	}
	lines, err := newReader(ctx, source, kinds, checkpoint{})
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	records := &migrate.Records{Next: func() (m migrate.Member, ok bool, err error) { return c.next(lines) }}
	return c.With.run(ctx, std, &migrate.Comparison{Source: records}, c.Kind)
}

// next returns the next activity of the kind.
func (c *compareFileCmd) next(lines *reader) (m migrate.Member, ok bool, err error) {
	for {
		var a activity.Activity
		a, err = lines.peek()
		switch {
		case errors.Is(err, io.EOF):
			return m, false, nil
		case err != nil:
			return m, false, err
		case a.Remove:
			return m, false, fmt.Errorf("line %d: a file to compare with has no removals", lines.pos.Line)
		}
		lines.accept()
		if a.Kind == c.Kind {
			return migrate.Member{Pair: migrate.Pair{User: a.User, Target: a.Target}, Since: a.Since}, true, nil
		}
	}
}
