package follow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// place is where an event stands in the log of its source. Several events may stand at one place:
// rows of one record of PostgreSQL's log, or the two events of an update of a primary key.
type place struct {
	// Server numbers the transactions that it commits; "": the log has one order.
	Server string `json:"server,omitzero"`
	// Txn is the number of the transaction, or that of MySQL's file if it has none. In PostgreSQL, it
	// is the end of the last transaction that was sent before this one: places of rows are not in
	// order over transactions.
	Txn  uint64 `json:"txn,omitzero"`
	File string `json:"file,omitzero"` // in which MySQL has a numbered transaction
	At   uint64 `json:"at,omitzero"`   // in the file, or the log
	Row  uint64 `json:"row,omitzero"`  // of those at At
}

// eventPosition is up to where the ledger has what events say. The ledger keeps it as JSON.
type eventPosition struct {
	Tables   string            `json:"tables"`            // fingerprint
	Snapshot string            `json:"snapshot,omitzero"` // that is read, or was read last; "": none since Last
	Reading  bool              `json:"reading,omitzero"`  // the snapshot has not ended
	Last     place             `json:"last,omitzero"`     // of the last event
	Events   []uint64          `json:"events,omitempty"`  // hashes of the events at Last
	Servers  map[string]uint64 `json:"servers,omitempty"` // last transactions of other servers
}

// parseEventPosition parses the position of the ledger. It reports false for another form, and for
// "".
func parseEventPosition(text string) (p eventPosition, ok bool) {
	err := json.Unmarshal([]byte(text), &p, json.RejectUnknownMembers(true))
	return p, err == nil && p.Tables != ""
}

// String returns the position as the ledger keeps it.
func (p *eventPosition) String() string {
	text, _ := json.Marshal(p, json.Deterministic(true)) // it has no value that JSON lacks
	return string(text)
}

// pass moves the position to an event with a hash, and reports whether it is new. A source repeats
// events in their order, from any of them on.
func (p *eventPosition) pass(to place, hash uint64) (isNew bool, err error) {
	last := p.Last
	if to.Server != last.Server { // the other server's last transaction is complete
		if to.Txn <= p.Servers[to.Server] {
			return false, nil
		}
		last = place{}
	}
	if to.Txn == 0 && to.At > last.Txn { // Debezium has started, and has seen no commit yet
		to.Txn = last.Txn
	}
	order := cmp.Or(cmp.Compare(to.Txn, last.Txn), cmp.Compare(to.At, last.At), cmp.Compare(to.Row, last.Row))
	switch {
	case to.Txn == last.Txn && to.File != last.File:
		return false, errors.New("another server repeats part of a transaction")
	case order < 0 || order == 0 && slices.Contains(p.Events, hash):
		return false, nil
	case order == 0:
		p.Events = append(slices.Clip(p.Events), hash)
		return true, nil
	}
	if to.Server != p.Last.Server {
		servers := map[string]uint64{p.Last.Server: p.Last.Txn}
		for server, txn := range p.Servers {
			servers[server] = max(txn, servers[server])
		}
		p.Servers = servers
	}
	p.Snapshot, p.Last, p.Events = "", to, []uint64{hash}
	return true, nil
}

// eventSource is what an event says about where it is from.
type eventSource struct {
	Millis   int64          `json:"ts_ms"`
	Snapshot jsontext.Value `json:"snapshot"` // a string, or true in old versions
	DB       string         `json:"db"`
	Schema   string         `json:"schema"`
	Table    string         `json:"table"`

	LSN      *uint64 `json:"lsn"`      // PostgreSQL
	Sequence string  `json:"sequence"` // PostgreSQL: the end of the last commit and the LSN, as JSON

	File string `json:"file"` // MySQL
	Pos  uint64 `json:"pos"`
	Row  uint64 `json:"row"`
	GTID string `json:"gtid"`
}

// table returns the name of the event's table, as in the file of tables.
func (s *eventSource) table() (schema, name string) {
	if s.File != "" {
		return s.DB, s.Table
	}
	return s.Schema, s.Table
}

// snapshot names the snapshot that the event is of, by the place in the log at which it was made.
func (s *eventSource) snapshot() string {
	if s.LSN != nil {
		return strconv.FormatUint(*s.LSN, 10)
	}
	return s.File + ":" + strconv.FormatUint(s.Pos, 10)
}

// place returns where the event stands in the log.
func (s *eventSource) place() (p place, err error) {
	p = place{At: s.Pos, Row: s.Row}
	switch at := strings.LastIndexAny(s.GTID, ":-"); {
	case s.LSN != nil:
		p.At = *s.LSN
		var both []*string
		if err := json.Unmarshal([]byte(s.Sequence), &both); err != nil || len(both) != 2 {
			return p, fmt.Errorf("source.sequence is %q: Debezium 2 or later is needed", s.Sequence)
		}
		if both[0] != nil {
			p.Txn, err = strconv.ParseUint(*both[0], 10, 64)
		}
	case at > 0: // MariaDB's are such as 0-1-42
		p.Server, p.File = s.GTID[:at], s.File
		p.Txn, err = strconv.ParseUint(s.GTID[at+1:], 10, 64)
	default:
		p.Txn, err = strconv.ParseUint(s.File[strings.LastIndexByte(s.File, '.')+1:], 10, 64)
	}
	return p, err
}
