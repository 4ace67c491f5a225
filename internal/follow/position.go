package follow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
)

// position is up to where the ledger has what the source committed.
type position struct {
	lsn    pglogrepl.LSN // end of the last transaction
	tables string        // fingerprint of the tables

	// done is how many changes the ledger has of the next transaction, which commits at within. It
	// is not 0 while a large transaction is recorded in parts.
	done   int
	within pglogrepl.LSN
}

// String returns the position as the ledger keeps it: "0/16B3748 1f2e3d4c", and in a large
// transaction "0/16B3748 1f2e3d4c 10000@0/16C0000".
func (p position) String() string {
	text := p.lsn.String() + " " + p.tables
	if p.done > 0 {
		text += fmt.Sprintf(" %d@%s", p.done, p.within)
	}
	return text
}

// parsePosition parses the position of the ledger. It reports false for another form, and for "".
func parsePosition(text string) (p position, ok bool) {
	fields := strings.Fields(text)
	if len(fields) < 2 || len(fields) > 3 {
		return p, false
	}
	var err error
	if p.lsn, err = pglogrepl.ParseLSN(fields[0]); err != nil {
		return p, false
	}
	if p.tables = fields[1]; len(fields) == 2 {
		return p, true
	}
	done, within, _ := strings.Cut(fields[2], "@")
	if p.done, err = strconv.Atoi(done); err != nil {
		return p, false
	}
	p.within, err = pglogrepl.ParseLSN(within)
	return p, err == nil
}

// fingerprint returns a short text that differs for tables that map rows otherwise. So do the later
// forms of folds, which record other targets for the same rows.
func (all Tables) fingerprint(kinds *activity.Kinds) string {
	hash := sha256.New()
	for i := range all {
		t := all[i]
		t.partitioned = false // not from the file
		_, _ = fmt.Fprintf(hash, "%+v\n", t)
	}
	for _, name := range all.Kinds() {
		if k, _ := kinds.Named(name); k.Fold == activity.FoldCase || k.Fold == activity.FoldHost {
			_, _ = fmt.Fprintf(hash, "%s %s\n", name, k.Fold)
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:4])
}
