package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// shortLook is how long a look may take without a pause after it. One of few tables takes 1 ms, and
// 2 to 3 on a busy machine, where a pause after it would delay the next group. Longer ones, of a
// source with many tables, take at most half of the time of their connection.
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

// look compares the catalog with the known one, and returns the end of the source's log. Partitions
// that were made since become known, if the stream has what is needed of their rows.
func (w *watcher) look(ctx context.Context) (end pglogrepl.LSN, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.f.limits.silence) // the source may hang
	defer cancel()
	var now *catalog
	for changing := true; changing; {
		var err error
		if now, changing, err = w.f.source.catalogAfter(ctx, w.conn, w.known); err != nil {
			return 0, err
		}
		if changing && pause(ctx, changingPause) != nil {
			return 0, errors.New("a transaction that changes a followed table or its publication has not ended")
		}
	}
	if now.timeline != w.known.timeline {
		return 0, errors.New("the source has failed over")
	}
	if differs := w.known.difference(now); differs != "" {
		return 0, fmt.Errorf("%w: %s", errAltered, differs)
	}
	if err := w.flush(ctx, now); err != nil {
		return 0, err
	}
	if len(now.lines) > len(w.known.lines) {
		if err := w.f.source.wantAll(ctx, w.conn); err != nil {
			return 0, err
		}
		now.types, now.enums = w.known.types, w.known.enums // those of the table itself
		w.known = now
	}
	return now.end, nil
}

// flush has the source write its log to disk, if a look finds what the last one found, and it is
// not on disk. A query that cleans up a page of a table adds a record that no commit follows. In a
// source that only reads, the record may stay in memory for 15 seconds. The stream would not get to
// the end, and could not prove that it lacks nothing.
func (w *watcher) flush(ctx context.Context, now *catalog) error {
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
	_, err := w.conn.Exec(ctx, `BEGIN; SET LOCAL synchronous_commit = local; SELECT pg_current_xact_id(); COMMIT`)
	if err != nil {
		return fmt.Errorf("write the log of the source to disk: %w", err)
	}
	return nil
}

// looks are what the looks at the catalog prove. It is for one goroutine.
type looks struct {
	begin chan<- struct{} // tells the watcher to look
	ended <-chan lookedAt

	busy   bool      // a look is in progress
	began  time.Time // when it began
	looked mark      // what it proves
	proved mark      // may be recorded
	sum    uint64    // of the catalog
	last   time.Time // when the last look ended
	fresh  freshness
}

// look begins a look that proves what was received. Without more to prove, it does so only if the
// last look was some time ago.
func (l *looks) look(received mark, more bool) {
	if l.busy || !more && time.Since(l.last) < lookEvery {
		return
	}
	l.looked, l.busy, l.began = received, true, time.Now()
	l.begin <- struct{}{}
}

// provesSoon reports whether a look in progress will soon prove more changes. They should not wait
// until a group without them is recorded, which takes longer than a look.
func (l *looks) provesSoon() bool {
	return l.busy && l.looked.changes > l.proved.changes && time.Since(l.began) < shortLook
}

// take takes what a look has found.
func (l *looks) take(found lookedAt) error {
	l.busy, l.last = false, time.Now()
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
