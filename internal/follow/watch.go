package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// shortLook is how long a look may take without a pause after it. One takes 0.4 ms, and 1 to 2 on a
// busy machine, where a pause after it would delay the next group. Longer ones, of a source with
// many tables or far away, take at most half of the time of their connection.
const shortLook = 5 * time.Millisecond

const (
	// lookEvery is how often the source is looked at, at least.
	lookEvery = time.Second
	lookSoon  = lookEvery / 10
)

// changingPause is the time between two looks at whether a transaction still changes the catalog.
const changingPause = 5 * time.Millisecond

// watcher looks at the catalog of the source, again and again, on a connection of its own.
type watcher struct {
	f    *Follower
	conn *pgx.Conn
	// known is the catalog with which the tables were read, and partitions that were made since.
	known *catalog
	// versions are those of the rows of the known catalog; "": not read yet.
	versions string
	// tail is the end of the log as the last look found it, if a part was not on disk; otherwise 0.
	tail pglogrepl.LSN

	begin chan struct{}
	ended chan lookedAt
}

// lookedAt is what a look has found: the sum of the catalog and the end of the log, or an error
// that wraps errAltered, or that of the connection.
type lookedAt struct {
	began time.Time
	sum   uint64
	end   pglogrepl.LSN
	again bool // look again after lookSoon: see [watcher.flush]
	err   error
}

// run looks whenever it is told to begin, until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for {
		select {
		case <-w.begin:
		case <-ctx.Done():
			return
		}
		start := time.Now()
		end, err := w.look(ctx)
		took := time.Since(start)
		w.ended <- lookedAt{start, w.known.sum(), end, w.tail > 0, err}
		if err != nil || took > shortLook && pause(ctx, took) != nil {
			return
		}
	}
}

// look compares the catalog with the known one, and returns the end of the source's log.
func (w *watcher) look(ctx context.Context) (end pglogrepl.LSN, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.f.limits.silence) // the source may hang
	defer cancel()
	now := glance{changing: true}
	for now.changing {
		if now, err = w.f.source.glance(ctx, w.conn, w.known); err != nil {
			return 0, err
		}
		if now.changing && pause(ctx, changingPause) != nil {
			return 0, errors.New(
				"a transaction that changes a followed table or its publication has not ended",
			)
		}
	}
	if now.timeline != w.known.timeline {
		return 0, errors.New("the source has failed over")
	}
	if now.versions != w.versions {
		if err := w.compare(ctx); err != nil {
			return 0, err
		}
		w.versions = now.versions // from before the comparison: what was changed since has others
	}
	return now.end, w.flush(ctx, now)
}

// compare compares the catalog with the known one. Partitions that were made since become known, if
// the stream has what is needed of their rows.
func (w *watcher) compare(ctx context.Context) error {
	now, err := w.f.source.catalogOf(ctx, w.conn)
	if err != nil {
		return err
	}
	if differs := w.known.difference(now); differs != "" {
		return fmt.Errorf("%w: %s", errAltered, differs)
	}
	if len(now.lines) > len(w.known.lines) {
		if err := w.f.source.wantAll(ctx, w.conn); err != nil {
			return err
		}
		w.known = now
	}
	return nil
}

// flush has the source write its log to disk, if a look finds what the last one found, and it is
// not on disk. A query that cleans up a page of a table adds a record that no commit follows. In a
// source that only reads, the record may stay in memory for 15 seconds. The stream would not get to
// the end, and could not prove that it lacks nothing.
func (w *watcher) flush(ctx context.Context, now glance) error {
	before := w.tail
	w.tail = 0
	switch {
	case now.onDisk:
		return nil
	case now.end != before: // the source writes, so somebody commits
		w.tail = now.end
		return nil
	}
	// A commit of a transaction with an id. A synchronous standby need not confirm it.
	const commit = `BEGIN; SET LOCAL synchronous_commit = local; SELECT pg_current_xact_id(); COMMIT`
	if _, err := w.conn.Exec(ctx, commit); err != nil {
		return fmt.Errorf("write the log of the source to disk: %w", err)
	}
	return nil
}

// looks are what the looks at the catalog prove. It is for one goroutine.
type looks struct {
	begin chan<- struct{} // tells the watcher to look
	ended <-chan lookedAt

	busy   bool      // a look is in progress
	looked mark      // what it proves
	proved mark      // may be recorded
	sum    uint64    // of the catalog
	last   time.Time // when the last look ended
	fresh  freshness

	took     time.Duration // by the last look
	recorded time.Duration // by the last recording
}

// early is how long it is too early for a look beside a recording that has lasted for some time.
// The look should end with the recording, and both will take as long as the last ones. The later a
// look begins, the more it proves.
func (l *looks) early(lasted time.Duration) time.Duration { return l.recorded - l.took - lasted }

// look begins a look that proves what was received. Without more to prove, it does so only if the
// last look was some time ago. It reports whether it does.
func (l *looks) look(received mark, more bool) bool {
	if l.busy || !more && time.Since(l.last) < lookEvery {
		return false
	}
	l.looked, l.busy = received, true
	l.begin <- struct{}{}
	return true
}

// take takes what a look has found.
func (l *looks) take(found lookedAt) error {
	l.busy, l.last = false, time.Now()
	l.took = l.last.Sub(found.began)
	if found.again {
		l.last = l.last.Add(lookSoon - lookEvery)
	}
	if found.err != nil {
		return found.err
	}
	l.fresh.saw(found.end, found.began)
	l.proved, l.sum = l.looked, found.sum
	return nil
}
