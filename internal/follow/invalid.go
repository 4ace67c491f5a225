package follow

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// rowError is a row that gives an invalid activity. As an error it shows no value of the row,
// because errors end up in logs, and the values are ids.
type rowError struct {
	table string
	cells []cell // the mapped ones
	cause error  // shows no value either
	why   reason
}

// cell is the value of a column as text.
type cell struct{ column, value string }

func (e *rowError) Error() string { return fmt.Sprintf("a row of table %s: %v", e.table, e.cause) }

// row returns the row with each value as show returns it.
func (e *rowError) row(show func(value string) string) string {
	all := make([]string, len(e.cells))
	for i, c := range e.cells {
		all[i] = c.column + "=" + show(c.value)
	}
	return strings.Join(all, " ")
}

// clear returns the error with the values, for a caller who asked for the row or sent it. It must
// not be logged.
func (e *rowError) clear() string {
	return fmt.Sprintf("table %s, row %s: %v", e.table, e.row(strconv.Quote), e.cause)
}

// Unwrap returns the cause.
func (e *rowError) Unwrap() error { return e.cause }

// correctRow is what to do about a row that is not valid.
const correctRow = "correct the row, or skip such rows without --on-error stop"

// invalidRows decides what becomes of rows that give an invalid activity.
type invalidRows struct {
	skip   bool // skip them, rather than stop
	log    *slog.Logger
	hashID func(id string) string
	counts map[string]*counts // by table
}

// refuse logs a row, and returns an error that stops, or nil to skip the row.
func (i *invalidRows) refuse(ctx context.Context, bad *rowError) error {
	of := i.log.With("table", bad.table, "row", bad.row(i.hashID), "error", bad.cause)
	if !i.skip {
		of.ErrorContext(ctx, "a row of the source is not valid")
		return &StopError{fmt.Errorf("%w: %s", bad, correctRow)}
	}
	i.counts[bad.table].skipped[bad.why].Add(1)
	of.WarnContext(ctx, "skipped a row of the source", "reason", string(bad.why))
	return nil
}
