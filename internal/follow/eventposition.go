package follow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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
	tables    string   // fingerprint of the file of tables
	snapshots []string // identities: the last one that began, and those before it
	reading   bool     // the last snapshot has not ended
	last      place    // of the last event, or of the last snapshot
	set       gtidSet  // transactions of MySQL since the last snapshot
	window    window
	near      nears  // the events of window at the last place
	chunk     window // rows of incremental snapshots

	follows bool // the event before this one, of the same request, was new
}

// String returns the position as the ledger keeps it. Fields that are empty are left out:
//
//	events/2 tables=1f2e3d4c snapshots=lsn:900,lsn:1000 reading last=postgresql,PLACE near=... window=...
//
// PLACE is the end of the last commit, the transaction's id, the LSN and the time in unix seconds:
// postgresql,1040,555,1050,1714000000. That of MySQL is the file, pos, and GTID in two parts:
// mysql,bin.000003,484,3e11fa47,5,1714000000. With ",snapshot", it is where one was made. set=
// has MySQL's transactions as MySQL prints them. window=, chunk= and near= are in base64: 6 bytes of
// a hash for an event; in near=, then 4 bytes each of its order, and of hashes of its two rows.
func (p *eventPosition) String() string {
	words := []string{versionOfEvents, "tables=" + p.tables}
	add := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+value)
		}
	}
	add("snapshots", strings.Join(p.snapshots, ","))
	if p.reading {
		words = append(words, "reading")
	}
	if p.last.log != "" {
		add("last", p.last.String())
	}
	add("set", p.set.String())
	add("near", p.near.String())
	add("window", p.window.String())
	add("chunk", p.chunk.String())
	return strings.Join(words, " ")
}

// parseEventPosition parses the position of the ledger. It reports false for another form, and for
// "".
func parseEventPosition(text string) (p eventPosition, ok bool) {
	words := strings.Split(text, " ")
	if words[0] != versionOfEvents {
		return p, false
	}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch name {
		case "tables":
			p.tables = value
		case "snapshots":
			p.snapshots = strings.Split(value, ",")
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
	return p, p.tables != "" && p.String() == text
}

// Errors of events of which nobody can tell whether they are new.
var (
	errOld = fmt.Errorf("the ledger is further, and remembers only the last %d events: take a new snapshot. "+
		"If Debezium was killed, it repeated more: lower debezium.source.offset.flush.interval.ms and "+
		"debezium.source.max.batch.size. Otherwise, the log is of another server, or began again", maxWindow)
	errOther = errors.New("the last event was of another kind of database: take a new snapshot")
	errEqual = errors.New("it is like one before it at the same place of the log: it may be that one, or another row. " +
		"Set debezium.source.provide.transaction.metadata=true")
	errMany = fmt.Errorf("more than %d events are at one place of the log: "+
		"set debezium.source.provide.transaction.metadata=true, or binlog_transaction_compression=OFF", maxWindow)
	errRepeat = errors.New("the transaction was sent again from its middle, and has equal events: take a new snapshot")
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
	case order == later && to.gtid != gtid{} && to.gtid == p.last.gtid: // a transaction may do the same twice
		isNew = true
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
	p.near = append(slices.Clip(p.near[max(0, len(p.near)-maxWindow+1):]), x.near)
	return true, nil
}

// another reports whether an event at the last place is new. The order in the transaction tells. A
// transaction that Debezium sends again from its middle has lower orders than before, so only a
// greater one is sure. Without an order, an insert right after a new event may be an equal row.
func (p *eventPosition) another(x near, known bool) (bool, error) {
	greatest := p.near.greatest()
	switch {
	case x.order > greatest && greatest > 0:
		return true, nil
	case !known && len(p.near) < maxWindow:
		return true, nil
	case !known:
		return false, errMany
	case p.near.admits(x) && x.order > 0:
		return false, errRepeat
	case p.near.admits(x), x.order == 0 && x.before == 0 && x.after != 0 && p.follows:
		return false, errEqual
	default:
		return false, nil
	}
}

// begin begins a snapshot. The log may be another from there.
func (p *eventPosition) begin(id string, at place) {
	p.snapshots = append(slices.Clip(p.snapshots[max(0, len(p.snapshots)-maxSnapshots+1):]), id)
	p.reading, p.last, p.set, p.near = true, at, nil, nil
}

// current returns the identity of the last snapshot; "": there was none.
func (p *eventPosition) current() string {
	if len(p.snapshots) == 0 {
		return ""
	}
	return p.snapshots[len(p.snapshots)-1]
}
