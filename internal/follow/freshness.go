package follow

import (
	"time"

	"github.com/jackc/pglogrepl"
)

// freshness tells until when the ledger lacks nothing that the source committed. Each look at the
// source also reads the end of its log: all that was committed before the look began stands before
// that end. So once the ledger has come that far, it lacks nothing of the time before the look.
//
// It follows one end at a time. Otherwise a source that writes faster than the ledger records would
// always move the goal away.
type freshness struct {
	goal  pglogrepl.LSN // 0: there is none
	begun time.Time     // the look that found the goal
	until time.Time     // the ledger lacks nothing that was committed before; zero: not known
}

// saw notes the end of the source's log that a look has found.
func (f *freshness) saw(end pglogrepl.LSN, begun time.Time) {
	if f.goal == 0 {
		f.goal, f.begun = end, begun
	}
}

// at returns until when a ledger that has the log up to an lsn lacks nothing. The lsn of later
// calls is not smaller.
func (f *freshness) at(lsn pglogrepl.LSN) time.Time {
	if f.goal > 0 && lsn >= f.goal {
		f.until, f.goal = f.begun, 0
	}
	return f.until
}
