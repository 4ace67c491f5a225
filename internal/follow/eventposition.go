package follow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// maxSnapshots is the number of snapshots whose late events are known.
const maxSnapshots = 8

// versionOfEvents begins the position of a source that sends events.
const versionOfEvents = "events/2"

// eventPosition is up to where the ledger has what events say, and what it takes to tell an event
// that is repeated from one that is new.
//
// A place that is not greater is no proof that an event was recorded: the log may be another one.
// So the last events are remembered by their marks. One of them is a repeat. Any other event must
// be at a later place, or be a transaction whose number is not in the set. Else nobody can tell,
// and the tables have to be sent whole.
type eventPosition struct {
	tables    string     // fingerprint of the file of tables
	snapshots []snapshot // the last one that began, and those before it
	reading   bool       // the last snapshot has not ended
	last      place      // of the last event, or of the last snapshot
	set       gtidSet    // transactions of MySQL since the last snapshot
	window    window
	near      nears  // the events of window at the last place
	chunk     window // rows of incremental snapshots

	follows bool // the event before this one, of the same request, was new
}

// snapshot is one of the source. A log that begins again may have another one at the same place.
type snapshot struct {
	id    string // where it was made: lsn:LSN, or FILE:POS
	until int64  // when its last row was read, in unix milliseconds; 0: it did not end, or unknown
}

func (s snapshot) String() string { return s.id + "@" + strconv.FormatInt(s.until, 10) }

func parseSnapshots(text string) (all []snapshot, err error) {
	for one := range strings.SplitSeq(text, ",") {
		var s snapshot
		var until string
		s.id, until, _ = strings.Cut(one, "@")
		if s.until, err = strconv.ParseInt(until, 10, 64); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// text returns the position as the ledger keeps it. Fields that are empty are left out:
//
//	events/2 tables=1f2e3d4c snapshots=SNAPSHOTS reading last=postgresql,PLACE near=... window=...
//
// SNAPSHOTS are places, and times in unix milliseconds: lsn:900@1713000000123,lsn:1000@0.
// PLACE is the end of the last commit, the transaction's id, the LSN and the time in unix seconds:
// postgresql,1040,555,1050,1714000000. That of MySQL is the file, pos, and GTID in two parts:
// mysql,bin.000003,484,3e11fa47,5,1714000000. With ",snapshot", it is where one was made.
//
// MySQL's transactions are in set, as MySQL prints them. The others are in base64, with 6 bytes of
// a hash for each event. In near, its order follows, and hashes of its two rows, each of 4 bytes.
func (p *eventPosition) text() ledger.Position {
	text := ledger.Position(versionOfEvents).With("tables", p.tables)
	add := func(name, value string) {
		if value != "" {
			text = text.With(name, value)
		}
	}
	snapshots := make([]string, len(p.snapshots))
	for i, s := range p.snapshots {
		snapshots[i] = s.String()
	}
	add("snapshots", strings.Join(snapshots, ","))
	if p.reading {
		text = text.With("reading", "")
	}
	if p.last.log != "" {
		add("last", p.last.String())
	}
	add("set", p.set.String())
	add("near", p.near.String())
	add("window", p.window.String())
	add("chunk", p.chunk.String())
	return text
}

func (p *eventPosition) String() string { return string(p.text()) }

// parseEventPosition parses the position of the ledger. It reports false for another form, and for
// "".
func parseEventPosition(text ledger.Position) (p eventPosition, ok bool) {
	if text.First() != versionOfEvents {
		return p, false
	}
	for name, value := range text.Fields() {
		var err error
		switch name {
		case "tables":
			p.tables = value
		case "snapshots":
			p.snapshots, err = parseSnapshots(value)
		case "reading":
			p.reading = true
		case "last":
			p.last, err = parsePlace(value)
		case "set":
			p.set, err = parseGTIDSet(value)
		case "near":
			p.near, err = parseNears(value)
		case "window":
			p.window, err = parseWindow(value)
		case "chunk":
			p.chunk, err = parseWindow(value)
		}
		if err != nil {
			return eventPosition{}, false
		}
	}
	return p, p.tables != "" && p.text() == text
}

// Errors of events of which nobody can tell whether they are new. Answers have up to 200 characters
// of them.
var (
	errOld = fmt.Errorf("older than the last %d events, or of another log: take a new snapshot. "+
		"If Debezium was killed, lower its offset.flush.interval.ms", maxWindow)
	errOther = errors.New("the last event was of another kind of database: take a new snapshot")
	errEqual = errors.New("like an event before it: a repeat, or another row. " +
		"Set debezium.source.provide.transaction.metadata=true")
	errMany = fmt.Errorf("more than %d events are at one place of the log: "+
		"set debezium.source.provide.transaction.metadata=true, "+
		"or binlog_transaction_compression=OFF", maxWindow)
	errRepeat = errors.New("a transaction was sent again from its middle, with equal events: " +
		"take a new snapshot")
)

// arrival is an event of the log as it arrives.
type arrival struct {
	place
	near
}

// pass moves the position to an event, and reports whether it is new. A source repeats events in
// their order, from any of them on.
func (p *eventPosition) pass(x arrival, now time.Time) (isNew bool, err error) {
	order, to := p.last.to(x.place, p.set)
	known := p.window.has(x.mark)
	switch {
	case order == same:
		isNew, err = p.another(x.near, known)
	case order == later && to.gtid != gtid{} && to.gtid == p.last.gtid:
		isNew = true // a transaction may do the same twice
	case known:
		isNew = false
	case order == later:
		isNew, err = true, p.last.jump(to, p.set, now)
	case p.last.log != to.log:
		err = errOther
	default:
		err = errOld
	}
	p.follows = isNew
	if err != nil || !isNew {
		return false, err
	}
	if order == later {
		p.near = nil
	}
	if to.gtid != (gtid{}) && !p.set.has(to.gtid) {
		p.set = p.set.with(to.gtid)
	}
	p.last = to
	p.window = p.window.with(x.mark, maxWindow)
	p.near = slices.Concat(p.near[max(0, len(p.near)-maxWindow+1):], nears{x.near})
	return true, nil
}

// another reports whether an event at the last place is new. The order in the transaction tells.
// Debezium counts from 1 again if it starts within a transaction. So an event with a greater order
// is new. One with a smaller order is a repeat only if the event can have no other meaning. Without
// an order, an insert right after a new event may be an equal row.
func (p *eventPosition) another(x near, known bool) (bool, error) {
	greatest := p.near.greatest()
	switch {
	case x.order > greatest && greatest > 0:
		if known && !p.near.inOrder() {
			return false, errRepeat
		}
		return true, nil
	case !known && len(p.near) < maxWindow:
		return true, nil
	case !known:
		return false, errMany
	case x.order > 1 && p.near.counted(x):
		return false, nil
	case p.near.admits(x) && x.order > 0:
		return false, errRepeat
	case p.near.admits(x), x.order == 0 && x.before == 0 && x.after != 0 && p.follows:
		return false, errEqual
	default:
		return false, nil
	}
}

// begin begins a snapshot. The log may be another from there.
func (p *eventPosition) begin(of snapshot, at place) {
	before := slices.Clone(p.snapshots[max(0, len(p.snapshots)-maxSnapshots+1):])
	if p.reading {
		before[len(before)-1].until = 0
	}
	p.snapshots = slices.Concat(before, []snapshot{of})
	p.reading, p.last, p.set, p.near = true, at, nil, nil
}

// reads notes a row of a snapshot. It reports whether that is the one that is read.
func (p *eventPosition) reads(row snapshot) bool {
	last := len(p.snapshots) - 1
	if !p.reading || p.snapshots[last].id != row.id {
		return false
	}
	p.snapshots = slices.Clone(p.snapshots)
	p.snapshots[last].until = max(p.snapshots[last].until, row.until)
	return true
}

// over reports whether a row is one of a snapshot that has ended, or that was interrupted before
// the last one began.
func (p *eventPosition) over(row snapshot) bool {
	return slices.ContainsFunc(p.snapshots, func(s snapshot) bool {
		return s.id == row.id && (s.until == 0 || row.until <= s.until)
	})
}
