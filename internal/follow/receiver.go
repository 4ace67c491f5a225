package follow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// Receiver records the events of a source that sends its changes: see [Receiver.Receive]. It may be
// used by several goroutines.
type Receiver struct {
	name        string // of the source
	recorder    *activity.Recorder
	mapper      mapper
	invalid     invalidRows
	fingerprint string // of the file of tables
	figures     *figures
	now         func() time.Time
}

// NewReceiver returns a receiver that records through d. Of the options, it needs Name and
// Tables, and takes Kinds, Skip, Log and HashID.
func NewReceiver(d *activity.Recorder, o Options) *Receiver {
	o = o.withDefaults(d)
	r := &Receiver{
		name:        o.Name,
		recorder:    d,
		mapper:      newMapper(o.Tables, o.Kinds),
		fingerprint: o.Tables.fingerprint(o.Kinds),
		figures:     newFigures(o.Tables),
		now:         time.Now,
	}
	r.invalid = invalidRows{o.Skip, o.Log, o.HashID, r.figures.changes}
	return r
}

// Name returns the name of the source.
func (r *Receiver) Name() string { return r.name }

// Received counts events of the tables.
type Received struct {
	Recorded int `json:"recorded"`
	Replayed int `json:"replayed"` // recorded before
	Skipped  int `json:"skipped"`  // with an invalid row
}

// Receive records events, in any number of processes. When it returns nil, every View that begins
// afterwards has them, and a snapshot at its end. After an error, send them again.
//
// An [*activity.InvalidError] means that an event can never be recorded as it is. If one is no
// event at all, nothing is recorded. Other errors are an [*activity.UnavailableError]: also while
// another call records events, as ledger.ErrFenced.
func (r *Receiver) Receive(ctx context.Context, events Events) (Received, error) {
	changes, err := r.sort(events)
	if err != nil {
		return Received{}, err
	}
	// The holder is the same in all processes, so any of them may record the next events.
	src, err := r.recorder.Follow(ctx, r.name, "events", r.mapper.tables.Kinds(), leaseTime, false)
	if taken, ok := errors.AsType[*ledger.FollowedError](err); ok {
		return Received{}, refused(activity.CodeFollowed, "%v", taken)
	}
	if err != nil {
		return Received{}, pages.Unavailable("ledger", err)
	}
	d := newDelivery(r, src)
	err = d.settle(ctx)
	for _, c := range changes {
		if err != nil {
			break
		}
		err = at(c.index, d.take(ctx, c))
	}
	if err == nil {
		err = d.flush(ctx)
	}
	if err == nil {
		err = src.Reach(ctx)
	}
	r.figures.active.Store(err == nil)
	if _, invalid := errors.AsType[*activity.InvalidError](err); invalid {
		return d.got, err
	}
	return d.got, pages.Unavailable("ledger", err)
}

// change is an event that concerns the tables.
type change struct {
	*Event

	index    int      // in the request
	tables   []*Table // as which its table counts; none: it is only the end of a snapshot
	snapshot string   // "true" or "last" for a row of a snapshot, or "incremental"
	arrival  arrival  // of an event of the log
}

// sort returns the changes that concern the tables. Nothing is recorded before all events are known
// to be some.
func (r *Receiver) sort(events Events) (all []change, err error) {
	for n, e := range events {
		e, err := e.change()
		if err != nil {
			return nil, at(n, err)
		}
		if e == nil {
			continue
		}
		c := change{Event: e, index: n, tables: r.mapper.named(e.Source.table())}
		if e.Op == "r" {
			c.snapshot = cmp.Or(strings.Trim(string(e.Source.Snapshot), `"`), "true")
		}
		switch {
		case e.Op == "r" && c.snapshot != "incremental":
		case len(c.tables) == 0:
			continue
		case e.Op != "r":
			if c.arrival, err = e.arrival(); err != nil {
				return nil, at(n, err)
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// at notes in an error which event it is of.
func at(index int, err error) error {
	if bad, ok := errors.AsType[*activity.InvalidError](err); ok {
		bad.Field = strconv.Itoa(index)
	}
	return err
}

// delivery records the events of a call.
type delivery struct {
	receiver *Receiver
	source   *activity.Source
	at       eventPosition // after pending; without tables: the ledger's is not one of them
	why      string        // there are no tables
	pending  []activity.SourceChange
	got      Received
}

func newDelivery(r *Receiver, src *activity.Source) *delivery {
	d := &delivery{receiver: r, source: src}
	at, ok := parseEventPosition(src.Position)
	switch {
	case src.Position == "":
		d.at.tables = r.fingerprint
	case !ok:
		d.why = "the ledger's position is not one of events of this version"
	case at.tables != r.fingerprint:
		d.why = "the file of tables has changed"
	default:
		d.at = at
	}
	return d
}

// take adds what an event says.
func (d *delivery) take(ctx context.Context, c change) error {
	switch {
	case c.Op == "r" && c.snapshot != "incremental":
		return d.takeRead(ctx, c)
	case d.at.tables == "":
		return refused(CodeSnapshotNeeded, "%s: take a new snapshot", d.why)
	case c.Op == "r":
		return d.takeChunk(ctx, c)
	}
	next := d.at
	isNew, err := next.pass(c.arrival, d.receiver.now())
	d.at.follows = next.follows
	switch {
	case errors.Is(err, errEqual), errors.Is(err, errMany):
		return refused(activity.CodeInvalidPosition, "%v (%s)", err, c.arrival.describe())
	case errors.Is(err, errJump):
		return refused(
			CodeSnapshotNeeded, "%v: if the server is another, take a new snapshot (%s, after %s)",
			err, c.arrival.describe(), d.at.last.describe(),
		)
	case err != nil:
		return refused(
			CodeSnapshotNeeded, "%v (%s, after %s)", err, c.arrival.describe(), d.at.last.describe(),
		)
	case !isNew:
		d.got.Replayed++
		return nil
	case d.at.reading: // a snapshot that did not say that it ended
		if err := d.finish(ctx); err != nil {
			return err
		}
		next.reading = false
	}
	if c.Op == "t" {
		err = d.truncate(ctx, c)
	} else {
		err = d.add(ctx, c, false)
	}
	d.at = next
	return err
}

// takeRead adds a row of a snapshot. Rows of one that has ended, or that was interrupted before the
// last one began, arrive late: the ledger has what came after them.
func (d *delivery) takeRead(ctx context.Context, c change) error {
	d.at.follows = false
	switch of, at := c.Source.snapshot(); {
	case d.at.reads(of):
	case d.at.over(of):
		d.got.Replayed++
		return nil
	default:
		if err := d.flush(ctx); err != nil {
			return err
		}
		if err := d.source.StartOver(ctx); err != nil {
			return err
		}
		d.at.tables = d.receiver.fingerprint
		d.at.begin(of, at)
	}
	err := d.add(ctx, c, true)
	if err == nil && c.snapshot == "last" {
		err = d.finish(ctx)
	}
	return err
}

// takeChunk adds a row of an incremental snapshot, which stands nowhere in the log. Beside another
// snapshot, it is one of its rows: only the log ends that.
func (d *delivery) takeChunk(ctx context.Context, c change) error {
	d.at.follows = false
	_, at := c.Source.snapshot()
	mark := c.mark(at.String())
	if d.at.chunk.has(mark) {
		d.got.Replayed++
		return nil
	}
	d.at.chunk = d.at.chunk.with(mark, maxChunk)
	return d.add(ctx, c, d.at.reading)
}

// finish ends the reading of a snapshot: what none of its rows gives is removed. The position says
// so at the end, so this can be repeated from the beginning.
func (d *delivery) finish(ctx context.Context) error {
	if err := d.flush(ctx); err != nil {
		return err
	}
	kinds := d.receiver.mapper.tables.Kinds()
	if err := d.sweep(ctx, kinds, activity.SourceChange{Reading: true}); err != nil {
		return err
	}
	d.at.reading = false
	if err := d.flush(ctx); err != nil {
		return err
	}
	d.receiver.figures.snapshots.Add(1)
	return d.settle(ctx)
}

// settle forgets what a snapshot needed, between its end and the next change.
func (d *delivery) settle(ctx context.Context) error {
	if !d.at.last.snapshot || d.at.reading {
		return nil
	}
	return d.source.Settle(ctx, d.source.Position)
}

// sweep makes the change c of each activity of the kinds.
func (d *delivery) sweep(ctx context.Context, kinds []string, c activity.SourceChange) error {
	var group []activity.SourceChange
	record := func() error {
		err := d.source.Record(ctx, d.source.Position, group)
		group = group[:0]
		return err
	}
	err := d.receiver.recorder.Export(ctx, "", func(a activity.Activity) error {
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
func (d *delivery) flush(ctx context.Context) error {
	if d.at.tables == "" {
		return nil
	}
	to := d.at.text()
	if len(d.pending) == 0 && to == d.source.Position {
		return nil
	}
	err := d.source.Record(ctx, to, d.pending)
	if errors.Is(err, ledger.ErrStrayRow) {
		return refused(CodeSnapshotNeeded, "an unknown row was changed or deleted: take a new snapshot")
	}
	if err == nil {
		d.pending = nil
	}
	return err
}

// add adds the changes that an event makes. reading: its row is one of a snapshot.
func (d *delivery) add(ctx context.Context, c change, reading bool) error {
	at := time.UnixMilli(c.Source.Millis)
	if c.Source.Millis == 0 {
		at = time.Now()
	}
	count := &d.got.Recorded
	for n, t := range c.tables {
		changes, err := d.change(c.Event, t, at)
		if bad, invalid := errors.AsType[*rowError](err); invalid {
			if err := d.receiver.invalid.refuse(ctx, bad); err != nil {
				return refused(CodeInvalidRow, "%s: %s", bad.clear(), correctRow)
			}
			count = &d.got.Skipped
		} else if err != nil {
			return err
		}
		for k := range changes {
			if changes[k].Reading = reading; c.Op == "r" {
				changes[k].Added[0].Row = c.hash() + uint64(n)
			}
		}
		d.pending = append(d.pending, changes...)
	}
	*count += min(1, len(c.tables)) // 0: the last of a snapshot, of another table
	return nil
}

// truncate ends what a table gives, if no other table gives activities of its kinds.
func (d *delivery) truncate(ctx context.Context, c change) error {
	var kinds []string
	for _, t := range c.tables {
		gives := func(o Table) bool { return o.Kind == t.Kind && o.Table != t.Table }
		if slices.ContainsFunc(d.receiver.mapper.tables, gives) {
			return refused(CodeSnapshotNeeded,
				"%s was truncated, and other tables give the kind %s: take a new snapshot", t.Table, t.Kind)
		}
		kinds = append(kinds, t.Kind)
	}
	if err := d.flush(ctx); err != nil {
		return err
	}
	d.got.Recorded++
	return d.sweep(ctx, kinds, activity.SourceChange{Whole: true})
}

// change returns the changes of what a table gives. With a [*rowError], which says that the new row
// is not valid, it returns the changes of all else.
func (d *delivery) change(
	e *Event, t *Table, at time.Time,
) (changes []activity.SourceChange, err error) {
	skip := d.receiver.invalid.skip
	var before, after row
	if e.Op == "u" || e.Op == "d" {
		before, err = e.row(t, "before", e.Before, nil)
		if bad, invalid := errors.AsType[*rowError](err); invalid && skip {
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
	// Where PostgreSQL has no old value, Debezium has 0 or "".
	if before != nil && err == nil && !skip {
		_, _, err = d.receiver.mapper.gives(t, before)
		if bad, invalid := errors.AsType[*rowError](err); invalid {
			return nil, incomplete(t, "before is not valid: %v", bad)
		}
	}
	if err == nil && (refused == nil || before != nil) {
		changes, err = d.receiver.mapper.changes(t, at, before, after)
	}
	err = cmp.Or(err, refused)
	if _, invalid := errors.AsType[*rowError](err); err != nil && !invalid {
		return nil, incomplete(t, "%v", err)
	}
	d.receiver.figures.changes[t.Table].add(changes, err)
	return changes, err
}
