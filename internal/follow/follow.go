package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// leaseTime is how long a follower that was killed keeps others from following.
	leaseTime  = 8 * time.Second
	renewEvery = 2 * time.Second
	retryPause = time.Second
	// endTimeout bounds the end of a lease when the process stops.
	endTimeout = 2 * time.Second
	// watchEvery is the pause between two measurements of the log that the source keeps.
	watchEvery = 10 * time.Second
)

// Options are those of a [Follower].
type Options struct {
	Name string // of the source: letters, digits and _
	URL  string // of the app's PostgreSQL
	// Publication is one of the source that is there; "": feedfilter_ and Name, which Create may
	// drop and create again.
	Publication string
	Tables      Tables
	Kinds       *activity.Kinds // of the service; default: those of the Recorder
	Holder      string          // tells this process from all others
	Create      bool            // create what the source lacks
	Resync      bool            // compare the tables with the ledger, record what differs, and end
	// ResyncEvery is the age of the last comparison from which another one runs beside the stream,
	// slowly; 0: none does.
	ResyncEvery time.Duration
	Skip        bool   // skip rows whose ids or times are not valid, rather than stop
	TempDir     string // for a snapshot; "": that of the system
	Log         *slog.Logger
	HashID      func(id string) string // for values of rows in the log; default: leaves them out
}

// Follower keeps the kinds of a source's tables in the ledger. Of several Followers of a source, in
// any number of processes, one does; the others wait.
type Follower struct {
	options     Options
	log         *slog.Logger
	source      *source
	recorder    *activity.Recorder
	mapper      mapper
	invalid     invalidRows
	fingerprint string // of the file of tables
	whole       bool   // a resync has to read the source whole
	group       groupSize
	limits      limits
	figures     *figures
	progress    progress
}

// limits are how long a follower waits.
type limits struct {
	silence    time.Duration // a source that sends nothing counts as connected
	patience   time.Duration // an audit waits for open transactions: see [auditPatience]
	auditAgain time.Duration // see the constant
}

// progress is how far the stream is. The goroutines of the stream, of the lease and of an audit
// tell each other.
type progress struct {
	walEnd, recorded atomic.Uint64 // end of the source's log, and the ledger's position
	// committed is when the ledger lacked nothing, by the source's clock, in unix nanoseconds.
	committed  atomic.Int64
	lacksAfter atomic.Pointer[time.Time] // all that the source committed until then is in the ledger
	audited    atomic.Int64              // that of the ledger's position
	idle       chan struct{}             // has an element if a look found nothing to record
}

// StopError is an error that waiting does not mend: somebody has to change the source or the file
// of tables.
type StopError struct{ error }

// Unwrap returns the cause.
func (e *StopError) Unwrap() error { return e.error }

// New returns a follower that records through r, or, if r is nil, can only look at the source.
func New(r *activity.Recorder, o Options) *Follower {
	o = o.withDefaults(r)
	f := &Follower{
		options:     o,
		log:         o.Log,
		recorder:    r,
		mapper:      newMapper(o.Tables, o.Kinds),
		fingerprint: o.Tables.fingerprint(o.Kinds),
		source:      newSource(o),
		limits:      limits{time.Minute, auditPatience, auditAgain},
		figures:     newFigures(o.Tables),
		progress:    progress{idle: make(chan struct{}, 1)},
	}
	f.invalid = invalidRows{o.Skip, o.Log, o.HashID, f.figures.changes}
	if r != nil {
		f.source.ledger = r.LedgerID()
	}
	return f
}

// withDefaults returns the options of a follower that records through r.
func (o Options) withDefaults(r *activity.Recorder) Options {
	if o.Kinds == nil {
		o.Kinds = r.Kinds()
	}
	if o.HashID == nil {
		o.HashID = func(string) string { return "..." }
	}
	o.Log = o.Log.With("source_name", o.Name)
	return o
}

// Name returns the name of the source.
func (f *Follower) Name() string { return f.options.Name }

// Run follows the source until ctx ends, and then returns nil. Otherwise the error wraps a
// [StopError].
func (f *Follower) Run(ctx context.Context) error {
	for waiting := false; ; {
		err := f.follow(ctx)
		_, stop := errors.AsType[*StopError](err)
		held := errors.Is(err, ledger.ErrHeld)
		f.figures.say(trouble(err))
		switch {
		case ctx.Err() != nil || errors.Is(err, errResynced):
			return nil //nolint:nilerr // it was told to end
		case stop && f.options.Resync && !f.whole: // the stream cannot go on
			f.log.WarnContext(ctx, "cannot follow the source: reading it whole", "error", err)
			f.whole = true
			continue
		case stop:
			return fmt.Errorf("follow source %q: %w", f.options.Name, err)
		case err == nil: // the tables have to be read whole
			continue
		case held && !waiting:
			f.log.InfoContext(ctx, "another process follows the source: waiting", "by", err)
		case !held:
			f.log.WarnContext(ctx, "cannot follow the source: trying again", "error", err)
		}
		waiting = held
		if pause(ctx, retryPause) != nil {
			return nil //nolint:nilerr // it was told to end
		}
	}
}

// follow follows the source while this process has the lease.
func (f *Follower) follow(ctx context.Context) error {
	if err := f.mayLease(ctx); err != nil {
		return err
	}
	o := &f.options
	src, err := f.recorder.Follow(ctx, o.Name, o.Holder, o.Tables.Kinds(), leaseTime, o.Resync)
	if err != nil {
		if _, taken := errors.AsType[*ledger.FollowedError](err); taken {
			return &StopError{err}
		}
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { f.renew(ctx, src, cancel) })
	err = f.withLease(ctx, src)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	renewing.Wait()
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer stop()
	ended := src.Renew(ending, 0, f.followed(src))
	if ended != nil && !errors.Is(ended, ledger.ErrFenced) {
		f.log.WarnContext(
			ctx, "cannot end the lease: another process has to wait for its end", "error", ended,
		)
	}
	return err
}

// mayLease returns an error if another ledger follows the source under this name, for which this
// one has no lease yet. With the lease, the kinds would be those of a source that is never read.
func (f *Follower) mayLease(ctx context.Context) error {
	isOwn := func(s ledger.Source) bool { return s.Name == f.options.Name }
	if slices.ContainsFunc(f.recorder.Sources(), isOwn) {
		return nil
	}
	conn, err := f.source.connect(ctx, false)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only read
	return f.source.wantOwn(ctx, conn)
}

// followed returns until when the ledger lacks nothing that the source committed, by the ledger's
// clock; zero: not known.
func (f *Follower) followed(src *activity.Source) time.Time {
	until := f.progress.lacksAfter.Load()
	if until == nil {
		return time.Time{}
	}
	return src.Clock(*until)
}

// renew renews the lease until ctx ends, or ends ctx when the lease is lost. It does so at once
// when a source that commits nothing was looked at: the ledger then hears that it lacks nothing.
func (f *Follower) renew(ctx context.Context, src *activity.Source, lost context.CancelCauseFunc) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.progress.idle:
		case <-ctx.Done():
			return
		}
		if err := src.Renew(ctx, leaseTime, f.followed(src)); errors.Is(err, ledger.ErrFenced) {
			lost(err)
		}
	}
}

func (f *Follower) withLease(ctx context.Context, src *activity.Source) error {
	conn, err := f.source.connect(ctx, false)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is open
	report, err := f.source.inspect(ctx, conn)
	if err == nil && len(report.Problems) > 0 && f.options.Create {
		if err = f.source.create(ctx, conn, report.Problems); err == nil {
			report, err = f.source.inspect(ctx, conn)
		}
	}
	if err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		var all []string
		for _, p := range report.Problems {
			all = append(all, p.String())
		}
		return &StopError{errors.New(strings.Join(all, "\n"))}
	}
	o, err := f.start(ctx, src, conn)
	if err != nil {
		return err
	}
	f.log.InfoContext(ctx, "following the source", "position", o.at.String())
	f.progress.recorded.Store(uint64(o.at.lsn))
	f.progress.audited.Store(o.at.audited)
	f.progress.walEnd.Store(max(uint64(o.at.lsn), f.progress.walEnd.Load()))
	f.progress.committed.CompareAndSwap(0, time.Now().UnixNano())
	f.figures.active.Store(true)
	defer f.figures.active.Store(false)
	f.figures.say("")
	err = f.stream(ctx, src, conn, o)
	f.figures.say(trouble(err)) // before it is not active: the lag goes on
	if errors.Is(err, errLacks) || errors.Is(err, ledger.ErrStrayRow) {
		f.log.WarnContext(ctx, "reading the source whole again", "error", err)
		return src.StartOver(ctx)
	}
	return err
}

// origin is where a stream begins.
type origin struct {
	conn  *pgx.Conn // for the stream
	at    position  // of the ledger
	known *catalog  // of the source, as when its tables were read
}

// start returns where to stream from: the ledger's position, or that of a new snapshot.
func (f *Follower) start(
	ctx context.Context, src *activity.Source, look *pgx.Conn,
) (o *origin, err error) {
	conn, err := f.source.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}()
	o = &origin{conn: conn}
	if o.known, err = f.source.catalogOf(ctx, look); err != nil {
		return nil, err
	}
	why, err := f.whyRead(ctx, src, look, o)
	if err != nil {
		return nil, err
	}
	if why == "" {
		// Partitions may have been made since the last inspection.
		if err := f.source.wantAll(ctx, look); err != nil {
			return nil, err
		}
		return o, f.source.freeSlot(ctx, look)
	}
	f.figures.say("the tables are read whole: " + why)
	f.log.InfoContext(ctx, "reading the source whole", "reason", why)
	if o.at, o.known, err = f.snapshot(ctx, src, look); err != nil {
		return nil, err
	}
	if f.options.Resync {
		return nil, errResynced
	}
	is, err := serverOf(ctx, o.conn)
	if err == nil && is != (server{o.at.system, o.at.timeline}) {
		err = errors.New("the source has failed over while its tables were read")
	}
	return o, err
}

// whyRead returns why the tables have to be read whole; "": the stream goes on from the ledger's
// position, which it notes in o.
func (f *Follower) whyRead(
	ctx context.Context, src *activity.Source, look *pgx.Conn, o *origin,
) (string, error) {
	state, err := f.source.slotState(ctx, look)
	if err != nil {
		return "", err
	}
	is, err := serverOf(ctx, o.conn)
	if err != nil {
		return "", err
	}
	at, known := parsePosition(src.Position)
	_, begun := parseBegun(src.Position)
	switch {
	case state == slotForeign:
		err := fmt.Errorf("the replication slot %s is not one of follow: drop it", f.source.name)
		return "", &StopError{err}
	case begun:
		return "an earlier read was interrupted", nil
	case !known:
		return "the ledger has not read it whole", nil
	case f.whole:
		return "its stream cannot go on", nil
	case at.tables != f.fingerprint:
		return "the file of tables has changed", nil
	case state == slotMissing || state == slotLost:
		return "its replication slot is " + string(state), nil
	case !o.known.grewFrom(at.catalog):
		return "its catalog has changed since they were read", nil
	}
	o.at = at
	o.at.timeline = is.timeline
	return is.leftOf(ctx, o.conn, at)
}

// trouble returns an error in words that show no ids and no addresses.
func trouble(err error) string {
	bad, row := errors.AsType[*rowError](err)
	_, stop := errors.AsType[*StopError](err)
	switch {
	case err == nil, errors.Is(err, ledger.ErrHeld):
		return ""
	case row:
		return "a row of table " + bad.table + " is not valid; follow --check names it"
	case stop:
		return err.Error()
	default:
		return "it cannot be read, or the ledger cannot be written; the log says why"
	}
}

// pause waits; the error is that of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
