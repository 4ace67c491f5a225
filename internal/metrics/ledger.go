package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Ledger returns l with its calls counted and measured, except Identity, Shared and Prepare, which
// ask no server.
func (r *Registry) Ledger(l activity.Ledger) activity.Ledger { //nolint:ireturn // what a Recorder takes
	seconds := prometheus.NewHistogramVec(
		durations("feedfilter_ledger_call_seconds", "Duration of ledger calls."),
		[]string{"operation"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "feedfilter_ledger_errors_total",
		Help: "Ledger calls that failed, unless cancelled by the caller.",
	}, []string{"operation"})
	r.registry.MustRegister(seconds, failed)
	operation := func(name string) call {
		return call{seconds.WithLabelValues(name), failed.WithLabelValues(name)}
	}
	return &measuredLedger{
		next:           l,
		record:         operation("record"),
		recordPrepared: operation("record_prepared"),
		keys:           operation("keys"),
		eachRow:        operation("each_row"),
		sequence:       operation("sequence"),
		changed:        operation("changed"),
		place:          operation("place"),
		layouts:        operation("layouts"),
		beginLayout:    operation("begin_layout"),
		switchLayout:   operation("switch_layout"),
		leaveLayout:    operation("leave_layout"),
		dedicate:       operation("dedicate"),
		release:        operation("release"),
		ended:          operation("ended"),
		list:           operation("list"),
		lookup:         operation("lookup"),
		count:          operation("count"),
		counts:         operation("counts"),
		owned:          operation("owned"),
		all:            operation("all"),
		naming:         operation("naming"),
		declare:        operation("declare"),
		kinds:          operation("kinds"),
		ping:           operation("ping"),
		agree:          operation("agree"),
	}
}

// call counts the calls of one operation.
type call struct {
	seconds prometheus.Observer
	failed  prometheus.Counter
}

// done counts a call that began at start. Defer it.
func (c call) done(start time.Time, err *error) { //nolint:gocritic // the error is set after the defer
	c.seconds.Observe(time.Since(start).Seconds())
	switch {
	case *err == nil, errors.Is(*err, context.Canceled): // the caller left, the ledger did not fail
	case errors.Is(*err, ledger.ErrLargePage): // an answer: read it in parts
	case errors.Is(*err, ledger.ErrGone): // an answer: the page has no users
	case errors.Is(*err, ledger.ErrLayoutBusy): // an answer: another process changes the layouts
	default:
		c.failed.Inc()
	}
}

// measuredLedger measures the calls of a ledger. next is not embedded, so that a new method of the
// interface fails to compile instead of going unmeasured.
type measuredLedger struct {
	next activity.Ledger

	record, recordPrepared, keys, eachRow, sequence, changed, place                     call
	layouts, beginLayout, switchLayout, leaveLayout, dedicate, release                  call
	ended, list, lookup, count, counts, owned, all, naming, declare, kinds, ping, agree call
}

func (l *measuredLedger) Identity() ledger.Identity { return l.next.Identity() }

func (l *measuredLedger) Shared() bool { return l.next.Shared() }

func (l *measuredLedger) Record(ctx context.Context, now time.Time, changes []ledger.Change) (receipt ledger.Receipt, err error) {
	defer l.record.done(time.Now(), &err)
	return l.next.Record(ctx, now, changes)
}

func (l *measuredLedger) Prepare(changes []ledger.Change) (*ledger.Prepared, error) {
	return l.next.Prepare(changes)
}

func (l *measuredLedger) RecordPrepared(
	ctx context.Context, now time.Time, p *ledger.Prepared,
) (receipt ledger.Receipt, err error) {
	defer l.recordPrepared.done(time.Now(), &err)
	return l.next.RecordPrepared(ctx, now, p)
}

func (l *measuredLedger) Keys(ctx context.Context, page uint32) (rows []ledger.Row, s ledger.PageState, err error) {
	defer l.keys.done(time.Now(), &err)
	return l.next.Keys(ctx, page)
}

func (l *measuredLedger) EachRow(
	ctx context.Context, page uint32, each func(rows []ledger.Row) error,
) (s ledger.PageState, err error) {
	defer l.eachRow.done(time.Now(), &err)
	return l.next.EachRow(ctx, page, each)
}

func (l *measuredLedger) Sequence(ctx context.Context, page uint32) (sequence uint64, err error) {
	defer l.sequence.done(time.Now(), &err)
	return l.next.Sequence(ctx, page)
}

func (l *measuredLedger) Changed(
	ctx context.Context, since ledger.Cursor, each func(page uint32, s ledger.PageState) error,
) (progress ledger.Progress, err error) {
	start := time.Now()
	progress, err = l.next.Changed(ctx, since, each)
	counted := err
	if cause := context.Cause(ctx); err != nil && cause != nil {
		counted = cause // a poll that timed out was cancelled: a failure
	}
	l.changed.done(start, &counted)
	return progress, err
}

func (l *measuredLedger) Agree(ctx context.Context, s ledger.Settings) (err error) {
	defer l.agree.done(time.Now(), &err)
	return l.next.Agree(ctx, s)
}

func (l *measuredLedger) Place(ctx context.Context, hash uint64) (p ledger.Place, err error) {
	defer l.place.done(time.Now(), &err)
	return l.next.Place(ctx, hash)
}

func (l *measuredLedger) Layouts(ctx context.Context) (now ledger.Layouts, err error) {
	defer l.layouts.done(time.Now(), &err)
	return l.next.Layouts(ctx)
}

func (l *measuredLedger) BeginLayout(ctx context.Context, pages uint32) (err error) {
	defer l.beginLayout.done(time.Now(), &err)
	return l.next.BeginLayout(ctx, pages)
}

func (l *measuredLedger) SwitchLayout(ctx context.Context, pages uint32) (err error) {
	defer l.switchLayout.done(time.Now(), &err)
	return l.next.SwitchLayout(ctx, pages)
}

func (l *measuredLedger) LeaveLayout(ctx context.Context, pages uint32) (err error) {
	defer l.leaveLayout.done(time.Now(), &err)
	return l.next.LeaveLayout(ctx, pages)
}

func (l *measuredLedger) Dedicate(ctx context.Context, hash uint64) (receipt ledger.Receipt, err error) {
	defer l.dedicate.done(time.Now(), &err)
	return l.next.Dedicate(ctx, hash)
}

func (l *measuredLedger) Release(ctx context.Context, hash uint64) (receipt ledger.Receipt, err error) {
	defer l.release.done(time.Now(), &err)
	return l.next.Release(ctx, hash)
}

func (l *measuredLedger) Ended(ctx context.Context, now time.Time, limit int) (rows []ledger.Row, err error) {
	defer l.ended.done(time.Now(), &err)
	return l.next.Ended(ctx, now, limit)
}

func (l *measuredLedger) List(ctx context.Context, q ledger.ListQuery) (rows []ledger.Row, err error) {
	defer l.list.done(time.Now(), &err)
	return l.next.List(ctx, q)
}

func (l *measuredLedger) Lookup(ctx context.Context, q ledger.LookupQuery) (rows []ledger.Row, err error) {
	defer l.lookup.done(time.Now(), &err)
	return l.next.Lookup(ctx, q)
}

func (l *measuredLedger) Count(ctx context.Context, hash uint64, owner, kind string, now time.Time) (n int, err error) {
	defer l.count.done(time.Now(), &err)
	return l.next.Count(ctx, hash, owner, kind, now)
}

func (l *measuredLedger) Counts(ctx context.Context, hash uint64, owner string, now time.Time) (counts map[string]int, err error) {
	defer l.counts.done(time.Now(), &err)
	return l.next.Counts(ctx, hash, owner, now)
}

func (l *measuredLedger) Owned(
	ctx context.Context, hash uint64, owner string, after *ledger.Item, limit int,
) (rows []ledger.Row, err error) {
	defer l.owned.done(time.Now(), &err)
	return l.next.Owned(ctx, hash, owner, after, limit)
}

func (l *measuredLedger) All(ctx context.Context, after *ledger.Row, limit int) (rows []ledger.Row, err error) {
	defer l.all.done(time.Now(), &err)
	return l.next.All(ctx, after, limit)
}

func (l *measuredLedger) Naming(ctx context.Context, targetHash uint64, target string, limit int) (rows []ledger.Row, err error) {
	defer l.naming.done(time.Now(), &err)
	return l.next.Naming(ctx, targetHash, target, limit)
}

func (l *measuredLedger) Declare(ctx context.Context, kinds []ledger.Kind) (err error) {
	defer l.declare.done(time.Now(), &err)
	return l.next.Declare(ctx, kinds)
}

func (l *measuredLedger) Kinds(ctx context.Context) (kinds []ledger.Kind, err error) {
	defer l.kinds.done(time.Now(), &err)
	return l.next.Kinds(ctx)
}

func (l *measuredLedger) Ping(ctx context.Context) (err error) {
	defer l.ping.done(time.Now(), &err)
	return l.next.Ping(ctx)
}
