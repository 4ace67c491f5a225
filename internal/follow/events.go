package follow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// Codes of events that are refused.
const (
	CodeIncompleteRow  = "incomplete_row"
	CodeInvalidRow     = "invalid_row"
	CodeSnapshotNeeded = "snapshot_needed"
)

// unchanged is what Debezium sends for a large value that an update did not change.
const unchanged = "__debezium_unavailable_value"

// Event is a change of a row in the form of Debezium.
type Event struct {
	Payload *Event         `json:"payload"` // of an event with a schema, which is not used
	Op      string         `json:"op"`
	Before  jsontext.Value `json:"before"`
	After   jsontext.Value `json:"after"`
	Source  eventSource    `json:"source"`
}

// Events are one event, or an array of them. One that is null is a tombstone.
type Events []*Event

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (all *Events) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == jsontext.KindBeginArray {
		return json.UnmarshalDecode(dec, (*[]*Event)(all))
	}
	*all = make(Events, 1)
	return json.UnmarshalDecode(dec, &(*all)[0])
}

// Received counts events of the tables.
type Received struct {
	Recorded int `json:"recorded"`
	Replayed int `json:"replayed"` // recorded before
	Skipped  int `json:"skipped"`  // with an invalid row
}

// Receive records events, in any number of processes. When it returns nil, every View that begins
// afterwards has them, and a snapshot at its end. After an error, send them again.
//
// An [*activity.InvalidError] means that an event can never be recorded as it is. Other errors are
// an [*activity.UnavailableError]: also while another call records events, as ledger.ErrFenced.
func (f *Follower) Receive(ctx context.Context, events Events) (Received, error) {
	src, err := f.recorder.Follow(ctx, f.Name, "events", f.tables.Kinds(), leaseTime, false) // the same holder everywhere
	if taken, ok := errors.AsType[*ledger.FollowedError](err); ok {
		return Received{}, refused(activity.CodeFollowed, "%v", taken)
	}
	if err != nil {
		return Received{}, pages.Unavailable("ledger", err)
	}
	i := &intake{Follower: f, src: src}
	if at, _ := parseEventPosition(src.Position); src.Position == "" {
		i.at.Tables = f.fingerprint
	} else if at.Tables == f.fingerprint {
		i.at = at
	}
	err = i.settle(ctx)
	for n, e := range events {
		if err != nil {
			break
		}
		if e != nil && e.Payload != nil {
			e = e.Payload
		}
		if e == nil || e.Op == "" || e.Op == "m" { // a tombstone, a heartbeat, a message
			continue
		}
		err = i.take(ctx, e)
		if bad, ok := errors.AsType[*activity.InvalidError](err); ok {
			bad.Field = strconv.Itoa(n)
		}
	}
	if err == nil {
		err = i.flush(ctx)
	}
	if err == nil {
		err = src.Reach(ctx)
	}
	f.active.Store(err == nil)
	return i.got, pages.Unavailable("ledger", err)
}

// intake records the events of a call.
type intake struct {
	*Follower

	src     *activity.Source
	at      eventPosition // after pending; without Tables: the ledger's is one of other tables
	pending []activity.SourceChange
	got     Received
}

// take adds what an event says.
func (i *intake) take(ctx context.Context, e *Event) error {
	mark := strings.Trim(string(e.Source.Snapshot), `"`)
	switch {
	case !slices.Contains([]string{"c", "r", "u", "d", "t"}, e.Op):
		return refused("unknown_op", "op is %q, want c, r, u, d or t", e.Op)
	case e.Source.LSN == nil && e.Source.File == "":
		return refused(activity.CodeInvalidPosition, "source has neither lsn nor file: want an event of PostgreSQL or MySQL")
	case e.Op == "r" && mark != "incremental":
		return i.takeRead(ctx, e, mark == "last")
	case len(i.named(e.Source.table())) == 0:
		return nil
	case i.at.Tables == "":
		return refused(CodeSnapshotNeeded, "the file of tables has changed: take a new snapshot")
	case i.at.Reading:
		if err := i.finish(ctx); err != nil {
			return err
		}
	}
	if e.Op == "r" { // it stands nowhere in the log
		return i.add(ctx, e, false)
	}
	to, err := e.Source.place()
	if err != nil {
		return refused(activity.CodeInvalidPosition, "source: %v", err)
	}
	next := i.at
	isNew, err := next.pass(to, e.hash())
	switch {
	case err != nil:
		return refused(CodeSnapshotNeeded, "%v: take a new snapshot", err)
	case !isNew:
		i.got.Replayed++
		return nil
	case e.Op == "t":
		err = i.truncate(ctx, e)
	default:
		err = i.add(ctx, e, false)
	}
	i.at = next
	return err
}

// takeRead adds a row of a snapshot. All events of a snapshot name the place in the log at which it
// was made. Those of another snapshot name another, or nothing has changed between.
func (i *intake) takeRead(ctx context.Context, e *Event, last bool) error {
	switch of := e.Source.snapshot(); {
	case i.at.Snapshot != of:
		if err := i.flush(ctx); err != nil {
			return err
		}
		if err := i.src.StartOver(ctx); err != nil {
			return err
		}
		i.at = eventPosition{Tables: i.fingerprint, Snapshot: of, Reading: true}
	case !i.at.Reading:
		i.got.Replayed++
		return nil
	}
	err := i.add(ctx, e, true)
	if err == nil && last {
		err = i.finish(ctx)
	}
	return err
}

// finish ends the reading of a snapshot: what none of its rows gives is removed. The position says
// so at the end, so this can be repeated from the beginning.
func (i *intake) finish(ctx context.Context) error {
	if err := i.flush(ctx); err != nil {
		return err
	}
	if err := i.sweep(ctx, i.tables.Kinds(), activity.SourceChange{Reading: true}); err != nil {
		return err
	}
	i.at.Reading = false
	if err := i.flush(ctx); err != nil {
		return err
	}
	i.snapshots.Add(1)
	return i.settle(ctx)
}

// settle forgets what a snapshot needed, between its end and the next change.
func (i *intake) settle(ctx context.Context) error {
	if i.at.Snapshot == "" || i.at.Reading {
		return nil
	}
	return i.src.Settle(ctx, i.src.Position)
}

// sweep makes the change c of each activity of the kinds.
func (i *intake) sweep(ctx context.Context, kinds []string, c activity.SourceChange) error {
	var group []activity.SourceChange
	record := func() error {
		err := i.src.Record(ctx, i.src.Position, group)
		group = group[:0]
		return err
	}
	err := i.recorder.Export(ctx, "", func(a activity.Activity) error {
		if !slices.Contains(kinds, a.Kind) {
			return nil
		}
		c.User, c.Kind, c.Target = a.User, a.Kind, a.Target
		if group = append(group, c); len(group) < snapshotGroup {
			return nil
		}
		return record()
	})
	if err == nil {
		err = record()
	}
	return err
}

// flush records the pending changes, and the position after them.
func (i *intake) flush(ctx context.Context) error {
	to := i.at.String()
	if len(i.pending) == 0 && (to == i.src.Position || i.at.Tables == "") {
		return nil
	}
	err := i.src.Record(ctx, to, i.pending)
	if errors.Is(err, ledger.ErrStrayRow) {
		return refused(CodeSnapshotNeeded, "an unknown row was changed or deleted: take a new snapshot")
	}
	if err == nil {
		i.pending = nil
	}
	return err
}

// add adds the changes that an event makes. reading: its row is one of a snapshot.
func (i *intake) add(ctx context.Context, e *Event, reading bool) error {
	at := time.UnixMilli(e.Source.Millis)
	if e.Source.Millis == 0 {
		at = time.Now()
	}
	count, tables := &i.got.Recorded, i.named(e.Source.table())
	for n, t := range tables {
		changes, err := i.change(e, t, at)
		if bad, invalid := errors.AsType[*rowError](err); invalid {
			if err := i.refuse(ctx, bad); err != nil {
				return refused(CodeInvalidRow, "%s: %s", bad.clear(), correctRow)
			}
			count = &i.got.Skipped
		} else if err != nil {
			return err
		}
		for k := range changes {
			if changes[k].Reading = reading; e.Op == "r" {
				changes[k].Added[0].Row = e.hash() + uint64(n)
			}
		}
		i.pending = append(i.pending, changes...)
	}
	*count += min(1, len(tables)) // 0: the last of a snapshot, of another table
	return nil
}

// truncate ends what a table gives, if no other table gives activities of its kinds.
func (i *intake) truncate(ctx context.Context, e *Event) error {
	var kinds []string
	for _, t := range i.named(e.Source.table()) {
		if slices.ContainsFunc(i.tables, func(o Table) bool { return o.Kind == t.Kind && o.Table != t.Table }) {
			return refused(CodeSnapshotNeeded, "%s was truncated, and other tables give the kind %s: take a new snapshot", t.Table, t.Kind)
		}
		kinds = append(kinds, t.Kind)
	}
	if err := i.flush(ctx); err != nil {
		return err
	}
	i.got.Recorded++
	return i.sweep(ctx, kinds, activity.SourceChange{Whole: true})
}

// change returns the changes of what a table gives. With a [*rowError], which says that the new row
// is not valid, it returns the changes of all else.
func (i *intake) change(e *Event, t *Table, at time.Time) (changes []activity.SourceChange, err error) {
	var before, after row
	if e.Op == "u" || e.Op == "d" {
		before, err = e.row(t, "before", e.Before, nil)
		if bad, invalid := errors.AsType[*rowError](err); invalid && i.Skip {
			before, err = nil, nil // it was never recorded
		} else if invalid {
			return nil, incomplete(t, "before is not valid: %v", bad)
		}
	}
	var refused error // the new row has a value that no row may have
	if e.Op != "d" && err == nil {
		after, err = e.row(t, "after", e.After, before)
		if bad, invalid := errors.AsType[*rowError](err); invalid {
			after, err, refused = nil, nil, bad
		}
	}
	if before != nil && err == nil && !i.Skip { // where PostgreSQL has no old value, Debezium has 0 or ""
		_, err = t.gives(before, i.Kinds)
		if bad, invalid := errors.AsType[*rowError](err); invalid {
			return nil, incomplete(t, "before is not valid: %v", bad)
		}
	}
	if err == nil && (refused == nil || before != nil) {
		changes, err = i.changes(t, at, before, after)
	}
	err = cmp.Or(err, refused)
	if _, invalid := errors.AsType[*rowError](err); err != nil && !invalid {
		return nil, incomplete(t, "%v", err)
	}
	return changes, err
}

// row returns the row that an event has in a member. old has the values that it does not repeat.
func (e *Event) row(t *Table, member string, object jsontext.Value, old row) (row, error) {
	var values map[string]jsontext.Value
	if json.Unmarshal(object, &values) != nil || values == nil {
		return nil, fmt.Errorf("%s is missing", member)
	}
	texts := make(map[string]*string)
	for _, column := range t.columns() {
		value := values[column]
		if kind := value.Kind(); t.isID(column) && (kind == jsontext.KindTrue || kind == jsontext.KindFalse ||
			kind == jsontext.KindNumber && !isWhole(string(value))) {
			return nil, &rowError{t.Table, []cell{{column, string(value)}}, errors.New("an id is a whole number such as 15, or a string")}
		}
		switch value.Kind() {
		case jsontext.KindInvalid: // it is missing
		case jsontext.KindNull:
			texts[column] = nil
		case jsontext.KindNumber:
			texts[column] = new(e.number(t, column, string(value)))
		case jsontext.KindString:
			text, _ := jsontext.AppendUnquote(nil, value)
			if string(text) != unchanged {
				texts[column] = new(string(text))
			}
		case jsontext.KindTrue, jsontext.KindFalse:
			texts[column] = new(string(value[:1]))
		default:
			return nil, &rowError{t.Table, []cell{{column, string(value)}}, errors.New("want a string, a number or a boolean")}
		}
	}
	return func(column string) (*string, bool) {
		text, known := texts[column]
		if !known && old != nil {
			return old(column)
		}
		return text, known
	}, nil
}

// isWhole reports whether the text of a number is that of an id: a whole number as databases print
// it, of any size. Others, such as 1.5, 1.0, 1e3 and -0, have several texts, and each would be an
// id of its own.
func isWhole(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return strings.Trim(digits, "0123456789") == "" && text != "-0" // JSON has no leading zeros
}

// number returns the text of a number: a time if the column is one of times.
func (e *Event) number(t *Table, column, text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil && (column == t.Since || column == t.Until):
		return timeOf(n)
	case text == "0" && e.Source.File != "" && slices.Contains(slices.Concat(t.While, t.Unless), column):
		return "f" // MySQL's boolean
	default:
		return text
	}
}

// timeOf returns the text of a time that Debezium sends as a number. From July 1979 to 9999, its
// size tells the unit: days, milliseconds, microseconds or nanoseconds. Greater ones are infinity.
// Any other number is no time, but 0, which is the same in each unit.
func timeOf(n int64) string {
	var at time.Time
	switch {
	case n == 0, n >= 3500 && n < 3e6:
		at = time.Unix(n*24*60*60, 0)
	case n < 3e11:
		return strconv.FormatInt(n, 10)
	case n < 3e14:
		at = time.UnixMilli(n)
	case n < 3e17:
		at = time.UnixMicro(n)
	default:
		at = time.Unix(0, n)
	}
	if at.Year() > 9999 || n > 9e18 {
		return "infinity"
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// hash returns a hash of the rows of the event.
func (e *Event) hash() uint64 {
	schema, name := e.Source.table()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q %s %s", e.Op, schema, name, e.Before, e.After))
	return binary.BigEndian.Uint64(sum[:])
}

func incomplete(t *Table, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	return refused(CodeIncompleteRow, "table %s needs REPLICA IDENTITY FULL, or binlog_row_image=FULL: %s", t.Table, what)
}

func refused(code, format string, args ...any) error {
	return &activity.InvalidError{Code: code, Message: fmt.Sprintf(format, args...)}
}
