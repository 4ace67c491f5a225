package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errHistory means that the source does not go on from where the ledger is: its files were
// restored, or another server took its place.
var errHistory = fmt.Errorf("%w: the source has another history than the ledger", errLacks)

// server is a server of the source, and the history that it is in.
type server struct {
	system   string // identifier, which copies of its files have, too
	timeline uint32 // grows with each failover
}

// serverOf asks a replication connection for its server.
func serverOf(ctx context.Context, conn *pgx.Conn) (server, error) {
	s, err := pglogrepl.IdentifySystem(ctx, conn.PgConn())
	refused, is := errors.AsType[*pgconn.PgError](err)
	if is && refused.Code == syntaxError { // a pooler ignored that the connection replicates
		return server{}, errPooler()
	}
	if err != nil {
		return server{}, fmt.Errorf("identify the server of the source: %w", err)
	}
	return server{s.SystemID, uint32(s.Timeline)}, nil
}

// leftOf returns why the source does not go on from a position; "": as far as its server and
// timelines tell, it does.
func (s server) leftOf(ctx context.Context, conn *pgx.Conn, at position) (why string, err error) {
	switch {
	case s.system != at.system:
		return "it is on another server", nil
	case s.timeline == at.timeline:
		return "", nil
	case s.timeline < at.timeline:
		return "it was set back to before a failover", nil
	}
	history, err := pglogrepl.TimelineHistory(ctx, conn.PgConn(), int32(s.timeline))
	if err != nil {
		return "", fmt.Errorf("read the history of timeline %d: %w", s.timeline, err)
	}
	end, found := leftAt(at.timeline, string(history.Content))
	switch {
	case !found:
		return fmt.Sprintf("timeline %d does not come from timeline %d", s.timeline, at.timeline), nil
	case max(at.lsn, at.within) > end:
		return fmt.Sprintf("the ledger has what was lost in a failover, after %s", end), nil
	}
	return "", nil
}

// leftAt returns where a history file says that a timeline was left. Its lines are such as
// "1\t0/16B3748\tno recovery target specified".
func leftAt(timeline uint32, file string) (end pglogrepl.LSN, found bool) {
	for line := range strings.Lines(file) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil || n != uint64(timeline) {
			continue
		}
		end, err = pglogrepl.ParseLSN(fields[1])
		return end, err == nil
	}
	return 0, false
}

// replay checks what the source sends again of what the ledger has. It begins where the source
// knows that the ledger is, which after a crash may be less, and ends at the ledger's position. The
// last transaction must come by as it was. A log is written from front to back, so another history
// has another one there, or none.
type replay struct {
	upTo pglogrepl.LSN
	last transaction
	seen bool // the last transaction came by, or the source knows that the ledger has it
}

func newReplay(from position, confirmed pglogrepl.LSN) replay {
	return replay{
		upTo: from.lsn,
		last: from.last,
		seen: from.last == (transaction{}) || from.last.commit < confirmed,
	}
}

// skips reports whether the ledger has the transaction, which begins.
func (r *replay) skips(x transaction) (bool, error) {
	switch {
	case x.commit >= r.upTo:
		return false, r.passed(x.commit)
	case x == r.last:
		r.seen = true
	case x.commit >= r.last.commit:
		return false, fmt.Errorf(
			"%w: it has a transaction at %s which the ledger does not know", errHistory, x.commit,
		)
	}
	return true, nil
}

// passed returns an error if the source has sent all up to there, without the last transaction.
func (r *replay) passed(at pglogrepl.LSN) error {
	if at >= r.upTo && !r.seen {
		return fmt.Errorf("%w: it lacks the transaction at %s", errHistory, r.last.commit)
	}
	return nil
}
