package follow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// maxPart is the number of changes from which a transaction of the source is recorded in parts.
	maxPart  = 10_000
	maxGroup = 2 * maxPart // that a transaction of the ledger takes, and events that wait meanwhile
	// minGroup is the smallest group that is still halved. A ledger that is too slow even for it is
	// as good as down.
	minGroup = 20
	// fastGroup is how long a transaction of the ledger may take for the next to be larger. The
	// ledger ends one after 5 seconds.
	fastGroup = time.Second
)

// mark is a part of the stream that ends with a transaction, or within one after a part of it.
type mark struct {
	to        position  // but for what the stream does not tell: catalog and audited
	changes   int       // of the stream up to there, since it began
	committed time.Time // when the source committed the last transaction
}

// group is what was received of the stream, and is not recorded yet: transactions, and parts of
// large ones. It leaves out what the ledger has already. It is for one goroutine.
type group struct {
	size    *groupSize
	changes []activity.SourceChange
	cuts    int  // changes of the stream before these: they were cut
	whole   mark // all of changes that may be recorded: whole transactions and parts

	replay replay
	within pglogrepl.LSN // a transaction of which the ledger had a part when the stream began
	done   int           // the changes of that part
	read   *seen         // what the read of the tables has seen after the position; nil: nothing

	open  transaction // begun; zero: none is
	n     int         // changes of it so far
	skips bool        // the ledger has it, and the position is behind it
}

// newGroup returns an empty group of a stream that begins at a position.
func newGroup(at position, again replay, size *groupSize) *group {
	g := &group{
		size:   size,
		replay: again,
		within: at.within,
		done:   at.done,
		whole:  mark{to: at, committed: time.Now()},
	}
	g.read, _ = parseSeen(at.seen) // parsed before
	return g
}

// full reports whether the group has all that a transaction of the ledger takes.
func (g *group) full() bool { return len(g.changes) > g.size.most() }

// take adds an event. The error says that the source has another history than the ledger.
func (g *group) take(e event) (err error) {
	if e.begin.commit > 0 {
		g.open, g.n = e.begin, 0
		if g.skips, err = g.replay.skips(e.begin); err != nil {
			return err
		}
		if !g.skips {
			g.whole.committed = e.at
		}
	}
	if g.skips {
		g.skips = e.end == 0 // it ends
		return nil
	}
	for _, c := range e.changes {
		g.add(c)
	}
	if e.end > g.whole.to.lsn {
		return g.end(e)
	}
	return nil
}

// add adds a change of the open transaction.
func (g *group) add(c activity.SourceChange) {
	g.n++
	if g.open.commit == g.within && g.n <= g.done {
		return // recorded before
	}
	g.changes = append(g.changes, c)
	if end := g.cuts + len(g.changes); end-g.whole.changes > g.size.part() {
		g.whole.to.done, g.whole.to.within, g.whole.changes = g.n, g.open.commit, end
	}
}

// end ends the open transaction, or moves the position while none is open.
func (g *group) end(e event) error {
	if err := g.replay.passed(e.end); err != nil {
		return err
	}
	to := &g.whole.to
	if g.open.commit == to.within { // otherwise that transaction is still to come
		to.done, to.within = 0, 0
	}
	if g.open.commit > 0 {
		to.last = g.open
	}
	to.lsn, g.open = e.end, transaction{}
	g.whole.committed, g.whole.changes = e.at, g.cuts+len(g.changes)
	if g.read != nil && e.end >= g.read.until {
		to.seen, g.read = "", nil
	}
	return nil
}

// left returns how many changes of a mark are still in the group.
func (g *group) left(m mark) int { return m.changes - g.cuts }

// cut takes what a mark has out of the group.
func (g *group) cut(m mark) []activity.SourceChange {
	n := g.left(m)
	cut := g.changes[:n]
	g.changes = slices.Clone(g.changes[n:])
	g.cuts += n
	return cut
}

// groupSize is how many changes a transaction of the ledger takes. The ledger bounds the time of a
// transaction, so a slow ledger would never record a group that is too large, however often it is
// tried. The size halves each time, and grows again while transactions are fast. It is for one
// goroutine. The zero value is the largest size.
type groupSize struct {
	below int // how far the size is below maxGroup
}

// most is the number of changes that a transaction of the ledger takes at most.
func (g *groupSize) most() int { return maxGroup - g.below }

// part is the number of changes of one transaction of the source from which a part is recorded.
func (g *groupSize) part() int { return g.most() / 2 }

// worked notes that a group was recorded in that time.
func (g *groupSize) worked(took time.Duration) {
	if took < fastGroup {
		g.below = max(0, maxGroup-g.most()*5/4)
	}
}

// failed notes that a group of that many changes was not recorded. It reports whether the ledger
// was too slow for it, and a smaller one may be recorded.
func (g *groupSize) failed(changes int, err error) bool {
	const byTimeout = "57014" // statement_timeout has cancelled the statement
	canceled, ok := errors.AsType[*pgconn.PgError](err)
	slow := errors.Is(err, context.DeadlineExceeded) || ok && canceled.Code == byTimeout
	if !slow || changes <= minGroup {
		return false
	}
	g.below = maxGroup - max(minGroup, min(g.most(), changes)/2)
	return true
}
