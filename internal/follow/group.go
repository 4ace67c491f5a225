package follow

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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

// groupSize is how many changes a transaction of the ledger takes. The ledger bounds the time of a
// transaction, so a slow ledger would never record a group that is too large, however often it is
// tried. The size halves each time, and grows again while transactions are fast. It is for one
// goroutine.
type groupSize struct{ below int } // how far the size is below maxGroup; so the zero value is the largest

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
	canceled, ok := errors.AsType[*pgconn.PgError](err)
	slow := errors.Is(err, context.DeadlineExceeded) || ok && canceled.Code == "57014" // by statement_timeout
	if !slow || changes <= minGroup {
		return false
	}
	g.below = maxGroup - max(minGroup, min(g.most(), changes)/2)
	return true
}
