package follow

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	logPostgres = "postgresql"
	logMySQL    = "mysql" // and MariaDB
)

// Bounds of what a log may grow by from one event to the next: some at once, and more with the time
// between them. One event with a place far in the future would make all later ones look old.
const (
	jumpBytes   = 1 << 40 // of PostgreSQL's log
	bytesSecond = 4 << 30
	jumpFiles   = 10_000 // of MySQL's log
	filesSecond = 1
	jumpNumbers = 1 << 40 // of GTIDs: members of a group have blocks
	maxPos      = 1 << 40
)

// place is where an event stands in the log of its source. Several events may stand at one place:
// see [near].
type place struct {
	log string // its form; "": nowhere

	// Of PostgreSQL. Places of rows are not in order over transactions, so commit comes first. It is
	// the end of the last transaction that was sent before this one. 0: Debezium has seen none yet.
	commit, xid, lsn uint64

	// Of MySQL. A transaction without a GTID is anonymous.
	gtid gtid
	file string // such as mysql-bin.000003
	pos  uint64 // of an event in the file, or of a whole compressed transaction

	at       int64 // when it was committed, in unix seconds; 0: unknown
	snapshot bool  // no event, but where a snapshot was made
}

// ordering of a place after the last one.
type ordering int

const (
	earlier ordering = iota // or in no order
	same
	later
)

// to returns the order of a new place after the last one, p, and the new place as it is kept. set
// are the transactions that are known.
func (p place) to(next place, set gtidSet) (ordering, place) {
	switch {
	case p.log == "":
		return later, next
	case p.log != next.log:
		return earlier, next
	case p.log == logPostgres:
		return p.toPostgres(next)
	case next.gtid == gtid{}, p.snapshot:
		return p.toFile(next), next
	case next.gtid == p.gtid && next.file == p.file:
		return ordering(1 + cmp.Compare(next.pos, p.pos)), next
	case next.gtid == p.gtid, set.has(next.gtid):
		return earlier, next
	case p.gtid == gtid{}: // the server numbers its transactions from now on
		return p.toFile(next), next
	default: // numbers of a group, and of other servers, come in any order
		return later, next
	}
}

func (p place) toPostgres(next place) (ordering, place) {
	if p.snapshot {
		// The first transactions after a snapshot name an earlier commit, or none. Some of their
		// rows may be older than the snapshot.
		if next.commit == 0 || next.commit >= p.lsn || next.lsn > p.lsn {
			next.commit = max(next.commit, p.commit)
			return later, next
		}
		return earlier, next
	}
	// Debezium has started again, and has not seen all commits since.
	if next.commit == 0 && next.lsn > p.commit || next.xid != 0 && next.xid == p.xid {
		next.commit = max(next.commit, p.commit)
	}
	order := cmp.Or(cmp.Compare(next.commit, p.commit), cmp.Compare(next.lsn, p.lsn))
	return ordering(1 + order), next
}

// toFile compares files of one server by their numbers.
func (p place) toFile(next place) ordering {
	name, number := numbered(p.file)
	nextName, nextNumber := numbered(next.file)
	order := cmp.Or(cmp.Compare(nextNumber, number), cmp.Compare(next.pos, p.pos))
	switch {
	case name != nextName:
		return earlier
	case p.snapshot && order == 0:
		return later
	default:
		return ordering(1 + order)
	}
}

// numbered cuts a name such as mysql-bin.000003.
func numbered(file string) (name string, number uint64) {
	at := strings.LastIndexByte(file, '.')
	number, _ = strconv.ParseUint(file[at+1:], 10, 32)
	return file[:max(at, 0)], number
}

// errJump means that a place is too far from the last one.
var errJump = errors.New("no log grows as fast")

// jump returns an error if the log cannot have grown from p to a later place. now bounds what an
// event says of its time.
func (p place) jump(next place, set gtidSet, now time.Time) error {
	if p.log == "" {
		return nil
	}
	seconds := uint64(max(0, min(next.at, now.Unix())-p.at))
	if p.at == 0 || next.at == 0 {
		seconds = 0
	}
	_, from := numbered(p.file)
	_, to := numbered(next.file)
	was, is := max(p.commit, p.lsn), max(next.commit, next.lsn)
	switch {
	case next.log == logPostgres:
		if is > was && is-was > jumpBytes+bytesSecond*min(seconds, 1<<30) {
			return fmt.Errorf("%w: %d bytes at once", errJump, is-was)
		}
	case next.pos > maxPos:
		return fmt.Errorf("%w: pos is %d", errJump, next.pos)
	case next.gtid != gtid{}:
		most := set.greatest(next.gtid.Server)
		if most > 0 && next.gtid.Number > most && next.gtid.Number-most > jumpNumbers {
			return fmt.Errorf("%w: %d transactions at once", errJump, next.gtid.Number-most)
		}
	case to > from && to-from > jumpFiles+filesSecond*seconds:
		return fmt.Errorf("%w: %d files at once", errJump, to-from)
	}
	return nil
}

// describe returns the place for people.
func (p place) describe() string {
	switch {
	case p.log == logPostgres:
		return fmt.Sprintf("lsn %d", p.lsn)
	case p.gtid != gtid{}:
		return fmt.Sprintf("gtid %s:%d", p.gtid.Server, p.gtid.Number)
	default:
		return fmt.Sprintf("file %s, pos %d", p.file, p.pos)
	}
}

// String returns the place as a position has it: see [eventPosition.String].
func (p place) String() string {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	words := []string{p.log, number(p.commit), number(p.xid), number(p.lsn)}
	if p.log == logMySQL {
		words = []string{
			p.log, url.QueryEscape(p.file), number(p.pos), url.QueryEscape(p.gtid.Server),
			number(p.gtid.Number),
		}
	}
	words = append(words, strconv.FormatInt(p.at, 10))
	if p.snapshot {
		words = append(words, "snapshot")
	}
	return strings.Join(words, ",")
}

// parsePlace parses what String returns.
func parsePlace(text string) (p place, err error) {
	words := strings.Split(text, ",")
	if p.snapshot = words[len(words)-1] == "snapshot"; p.snapshot {
		words = words[:len(words)-1]
	}
	number := func(word string) (n uint64) {
		n, bad := strconv.ParseUint(word, 10, 64)
		err = cmp.Or(err, bad)
		return n
	}
	escaped := func(word string) (text string) {
		text, bad := url.QueryUnescape(word)
		err = cmp.Or(err, bad)
		return text
	}
	switch p.log = words[0]; {
	case p.log == logPostgres && len(words) == 5:
		p.commit, p.xid, p.lsn = number(words[1]), number(words[2]), number(words[3])
	case p.log == logMySQL && len(words) == 6:
		p.file, p.pos = escaped(words[1]), number(words[2])
		p.gtid = gtid{escaped(words[3]), number(words[4])}
	default:
		return p, fmt.Errorf("place %q", text)
	}
	at, bad := strconv.ParseInt(words[len(words)-1], 10, 64)
	p.at = at
	return p, cmp.Or(err, bad)
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
	XID      *uint64 `json:"txId"`     //nolint:tagliatelle // PostgreSQL; as Debezium has it

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

// snapshot returns the snapshot that the event is of, as far as until the event's row was read, and
// its place. All rows of a snapshot name the place in the log at which it was made.
func (s *eventSource) snapshot() (of snapshot, p place) {
	p = place{log: logMySQL, file: s.File, pos: s.Pos, at: s.Millis / 1000, snapshot: true}
	id := fmt.Sprintf("%s:%d", url.QueryEscape(s.File), s.Pos)
	if s.LSN != nil {
		p = place{log: logPostgres, lsn: *s.LSN, at: s.Millis / 1000, snapshot: true}
		id = fmt.Sprintf("lsn:%d", *s.LSN)
	}
	return snapshot{id, s.Millis}, p
}

// place returns where the event stands in the log.
func (s *eventSource) place() (p place, err error) {
	p = place{at: s.Millis / 1000}
	if s.LSN != nil {
		p.log, p.lsn = logPostgres, *s.LSN
		if s.XID != nil {
			p.xid = *s.XID
		}
		var both []*string
		if err := json.Unmarshal([]byte(s.Sequence), &both); err != nil || len(both) != 2 {
			return p, fmt.Errorf("source.sequence is %q: Debezium 2 or later is needed", s.Sequence)
		}
		if both[0] != nil {
			p.commit, err = strconv.ParseUint(*both[0], 10, 64)
		}
		return p, err
	}
	p.log, p.file, p.pos = logMySQL, s.File, s.Pos
	number := s.File[strings.LastIndexByte(s.File, '.')+1:]
	if _, err := strconv.ParseUint(number, 10, 32); err != nil {
		return p, fmt.Errorf("source.file %q ends with no number", s.File)
	}
	p.gtid, err = parseGTID(s.GTID)
	return p, err
}
