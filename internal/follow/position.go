package follow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// position is up to where the ledger has what the source committed, and all that tells whether a
// source goes on from there.
type position struct {
	timeline uint32        // in which lsn is
	lsn      pglogrepl.LSN // end of the last transaction, or further, without one in between
	tables   string        // fingerprint of the file of tables
	catalog  uint64        // sum of the catalog of the source: see [catalog]
	system   string        // identifier of the source's server: a copy of its files has the same
	last     transaction   // the last one before lsn
	// audited is when a whole comparison last made source and ledger the same, in Unix time;
	// 0: not known.
	audited int64

	// done is how many changes the ledger has of the next transaction, which commits at within. It
	// is not 0 while a large transaction is recorded in parts.
	done   int
	within pglogrepl.LSN

	// seen is the snapshot in which a full read that went on has read the tables, if it has some of
	// the transactions that follow: see [seen].
	seen string
}

// transaction is one of the source. No two histories of a server have the same.
type transaction struct {
	commit pglogrepl.LSN // where it commits
	xid    uint32
	at     int64 // when it commits, in unix microseconds
}

func (x transaction) String() string { return fmt.Sprintf("%s,%d,%d", x.commit, x.xid, x.at) }

// text returns the position as the ledger keeps it. What others read is the first word:
//
//	00000001:0/16B3748 tables=1f2e3d4c catalog=2a system=7431 last=0/16B3700,742,1732839933000000
//
// After a comparison, audited=1732839900 follows, in a large transaction part=10000@0/16C0000, and
// after a full read that went on seen=0/16B4000@750:754:750,752.
func (p position) text() ledger.Position {
	text := ledger.Position(p.log().String()).
		With("tables", p.tables).
		With("catalog", strconv.FormatUint(p.catalog, 16)).
		With("system", p.system).
		With("last", p.last.String())
	if p.audited != 0 {
		text = text.With("audited", strconv.FormatInt(p.audited, 10))
	}
	if p.done > 0 {
		text = text.With("part", fmt.Sprintf("%d@%s", p.done, p.within))
	}
	if p.seen != "" {
		text = text.With("seen", p.seen)
	}
	return text
}

func (p position) String() string { return string(p.text()) }

func (p position) log() ledger.LogPosition {
	return ledger.LogPosition{Timeline: p.timeline, Byte: uint64(p.lsn)}
}

// parsePosition parses the position of the ledger. It reports false for another form, and for "".
func parsePosition(text ledger.Position) (p position, ok bool) {
	log, ok := text.Log()
	if !ok {
		return position{}, false
	}
	p.timeline, p.lsn = log.Timeline, pglogrepl.LSN(log.Byte)
	for name, value := range text.Fields() {
		var err error
		switch name {
		case "tables":
			p.tables = value
		case "catalog":
			p.catalog, err = strconv.ParseUint(value, 16, 64)
		case "system":
			p.system = value
		case "last":
			p.last, err = parseTransaction(value)
		case "audited":
			p.audited, err = strconv.ParseInt(value, 10, 64)
		case "seen":
			if p.seen = value; value == "" {
				return position{}, false
			}
			if _, ok := parseSeen(value); !ok {
				return position{}, false
			}
		case "part":
			n, at, _ := strings.Cut(value, "@")
			if p.done, err = strconv.Atoi(n); err == nil {
				p.within, err = pglogrepl.ParseLSN(at)
			}
		default:
			return position{}, false
		}
		if err != nil {
			return position{}, false
		}
	}
	return p, p.text() == text
}

func parseTransaction(text string) (x transaction, err error) {
	var commit, xid, at string
	commit, text, _ = strings.Cut(text, ",")
	xid, at, _ = strings.Cut(text, ",")
	if x.commit, err = pglogrepl.ParseLSN(commit); err != nil {
		return x, err
	}
	id, err := strconv.ParseUint(xid, 10, 32)
	if err != nil {
		return x, err
	}
	x.xid = uint32(id)
	x.at, err = strconv.ParseInt(at, 10, 64)
	return x, err
}

// versionOfTables begins the text whose hash a fingerprint is. A deployment with another version
// reads its tables again after an upgrade.
const versionOfTables = 1

// fingerprint returns a short text that differs for tables that map rows otherwise. It is a hash of
// the file as canonical JSON (RFC 8785), without fields that have no value. So a field that a later
// version adds changes nothing for files that lack it. The later forms of folds, which record other
// targets for the same rows, are part of it.
func (all Tables) fingerprint(kinds *activity.Kinds) string {
	says := struct {
		Version int                      `json:"version"`
		Tables  Tables                   `json:"tables"`
		Folds   map[string]activity.Fold `json:"folds,omitempty"` // the later forms, by kind
	}{versionOfTables, all, make(map[string]activity.Fold)}
	for _, name := range all.Kinds() {
		if k, _ := kinds.Named(name); k.Fold == activity.FoldCase || k.Fold == activity.FoldHost {
			says.Folds[name] = k.Fold
		}
	}
	text, err := json.Marshal(says)
	if err == nil {
		err = (*jsontext.Value)(&text).Canonicalize()
	}
	if err != nil {
		panic(fmt.Sprintf("tables that were read from JSON are no JSON: %v", err))
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:4])
}
