package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// auditRate is how many rows a second an audit reads, first of the source and then of the
	// ledger. An hour is enough for 70 million rows. The source keeps old versions of rows while it
	// is read, so a lower rate would cost it more, and a higher one is what --resync is for.
	auditRate = 20_000
	// auditPatience bounds how long an audit waits for transactions of the source that were open
	// when it began. The source keeps its log meanwhile.
	auditPatience = 10 * time.Minute
	// auditAgain is the pause after an audit that failed. It doubles, up to auditLater.
	auditAgain = time.Minute
	auditLater = time.Hour
	// waitersEvery is how often an audit asks whether somebody waits for it.
	waitersEvery = time.Second
	// auditGroup is the number of differences that are recorded between two groups of the stream.
	auditGroup = 1000
)

var (
	// errResynced ends a stream whose resync is done.
	errResynced = errors.New("source and ledger are the same")
	// errOpen means that a read waited too long for transactions that were open when it began.
	errOpen = errors.New("a transaction of the source does not end")
	// errInTheWay ends an audit that somebody waits for.
	errInTheWay = errors.New(
		"somebody waits for the transaction that reads the tables, such as ALTER TABLE",
	)
	// errBusy means that the stream changes more activities of a part than an audit remembers.
	errBusy = errors.New("the source changes too many activities meanwhile")
)

// auditor compares the tables with the ledger beside the stream, and has the applier record what
// differs. It reads the tables as they are at one position of the log, and compares once the ledger
// has all up to there. An activity that the stream changes after that is right without it.
//
// It does so in slices of the users. The first has all of them. If the stream changes more than
// [touched] has room for, the slice ends earlier, and the next one reads the tables again. Each
// slice compares a 256th of the users at least, so an audit ends.
type auditor struct {
	f      *Follower
	src    *activity.Source
	known  *catalog // when the stream began
	server server   // of the stream

	touched *touched
	mend    chan<- *mending
}

// mending is what the applier records for an audit.
type mending struct {
	found   []finding
	audited int64 // when an audit began that has ended; 0: none has
	done    chan error
}

// run audits at once for a resync, and otherwise whenever the last audit is too old, until ctx
// ends. An audit that fails is tried again, and the stream goes on meanwhile.
func (u *auditor) run(ctx context.Context) error {
	if u.f.options.Resync {
		return u.audit(ctx)
	}
	var again time.Duration
	for {
		due := auditDue(u.f.progress.audited.Load(), u.f.options.ResyncEvery, u.f.recorder.Now())
		if pause(ctx, max(due, again)) != nil {
			return context.Cause(ctx)
		}
		err := u.audit(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			again = 0
		default:
			again = min(max(2*again, u.f.limits.auditAgain), auditLater)
			u.f.log.WarnContext(ctx, "cannot compare source and ledger: following goes on, trying again",
				"error", err, "do", remedy(err), "again_in", again.String())
		}
	}
}

// auditDue returns how long it is until the next audit, after one in Unix time: never longer than
// after one that ended now, whatever the clock was.
func auditDue(audited int64, every time.Duration, now time.Time) time.Duration {
	return min(max(0, time.Unix(audited, 0).Add(every).Sub(now)), every)
}

// audit compares all users, in as many slices as it takes, and notes in the position that it did.
func (u *auditor) audit(ctx context.Context) error {
	began, found := u.f.recorder.Now(), newFindings()
	err := u.slices(ctx, found)
	u.f.figures.count(found)
	// All of these are mended, except the last group if it failed.
	for _, kind := range slices.Sorted(maps.Keys(found.kinds)) {
		u.f.log.WarnContext(ctx, "the ledger differed from the source: recorded as the source has it",
			append([]any{"kind", kind}, found.kinds[kind].attributes()...)...)
	}
	if err != nil {
		return err
	}
	u.f.report(ctx, found)
	if err := u.send(ctx, &mending{audited: began.Unix()}); err != nil {
		return err
	}
	for u.f.progress.audited.Load() < began.Unix() {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (u *auditor) slices(ctx context.Context, found *findings) error {
	for from := 0; from < spillParts; {
		end, err := u.slice(ctx, from, found)
		switch {
		case err != nil:
			return err
		case end == from:
			return errBusy
		}
		from = end
	}
	return nil
}

// slice compares the users of a part and those after it, and returns the first part that it did
// not.
func (u *auditor) slice(ctx context.Context, from int, found *findings) (end int, err error) {
	conn, err := u.f.source.connect(ctx, false)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only reads
	u.touched.begin(from)
	defer u.touched.end()
	r := &reading{
		slot:    u.f.source.name + "_resync",
		from:    from,
		known:   u.known,
		server:  u.server,
		touched: u.touched,
		found:   found,
		refuse:  u.f.invalid.refuse,
		size:    auditGroup,
		mirrors: true,
		record: func(ctx context.Context, group []finding) error {
			return u.send(ctx, &mending{found: group})
		},
	}
	if !u.f.options.Resync {
		r.patience, r.pace.rate = u.f.limits.patience, auditRate
		r.refuse = func(context.Context, *rowError) error { return nil } // it was counted when it came
		var stop func()
		if ctx, stop, err = u.giveWay(ctx, conn.PgConn().PID()); err != nil {
			return 0, err
		}
		defer stop()
	}
	_, _, err = u.f.reread(ctx, u.src, conn, r)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // why it was cancelled
	}
	return r.end, err
}

// giveWay returns a context that ends with errInTheWay soon after somebody waits for a lock of a
// process of the source, and a function that ends it. Who alters a table waits for the transaction
// of an audit, which may read for hours, and all queries of the table wait behind.
func (u *auditor) giveWay(
	ctx context.Context, process uint32,
) (reads context.Context, stop func(), err error) {
	look, err := u.f.source.connect(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	reads, cancel := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		defer look.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only reads
		for pause(reads, waitersEvery) == nil {
			var waits bool
			err := look.QueryRow(reads, waitersSQL, int32(process)).Scan(&waits)
			switch {
			case err != nil:
				cancel(fmt.Errorf("ask who waits for a comparison: %w", err))
			case waits:
				cancel(errInTheWay)
			}
		}
	})
	return reads, func() { cancel(nil); looking.Wait() }, nil
}

// waitersSQL reports whether a process waits for a lock that process $1 holds.
const waitersSQL = `SELECT EXISTS (SELECT FROM pg_locks
	WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid)))`

// send has the applier record something, and waits until it has.
func (u *auditor) send(ctx context.Context, m *mending) error {
	m.done = make(chan error, 1)
	select {
	case u.mend <- m:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-m.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// report logs that a comparison has ended.
func (f *Follower) report(ctx context.Context, found *findings) {
	f.log.InfoContext(
		ctx, "compared source and ledger", "differences", found.differences(), "same", found.equal,
	)
}

// remedy says what to do about an audit that failed.
func remedy(err error) string {
	refused, is := errors.AsType[*pgconn.PgError](err)
	switch {
	case is && refused.Code == "53400":
		return "raise max_replication_slots of the source: " +
			"a comparison needs a second slot for a moment"
	case is && refused.Code == "53300":
		return "raise max_wal_senders or max_connections of the source: " +
			"a comparison needs some connections"
	case errors.Is(err, errOpen):
		return "end the oldest transaction in pg_stat_activity or pg_prepared_xacts of the source"
	case errors.Is(err, errInTheWay):
		return "nothing: the comparison gave way"
	case errors.Is(err, errBusy):
		return "nothing, if the source writes less later; otherwise run follow --resync when it does"
	case errors.Is(err, errAltered):
		return "nothing: the tables are read whole"
	case errors.Is(err, syscall.ENOSPC):
		return "free space in the directory of temporary files, or set TMPDIR to a larger one"
	default:
		return "correct what the error names, if it does not end by itself"
	}
}
