package ledger

import (
	"context"
	"fmt"
	"io/fs"
	"time"
)

// Inspection describes a ledger and its database, to check whether a service can use them.
type Inspection struct {
	Name     string   // location, without a password
	Engine   string   // "SQLite" or "PostgreSQL"
	Version  string   // version of the engine, such as "15.4"
	Schema   int      // version of the ledger's tables, from 1
	Oldest   int      // oldest version that Open migrates: it refuses older ones
	Known    int      // latest version, to which Open migrates: it refuses later ones
	Identity Identity // zero if Schema is later than Known and the identity is unreadable
	Layouts  Layouts  // zero if Schema differs from Known
	Empty    bool     // nothing was ever recorded; false if Schema differs from Known

	Sources []Source  // in order of name; nil if Schema differs from Known
	Clock   time.Time // of the ledger, by which leases end

	// The remaining fields are only set for PostgreSQL.

	Standby  bool // the server follows a primary
	ReadOnly bool // transactions may not write: on a standby, or by a setting of the server or role
	Denied   bool // the user lacks the right to change the ledger's tables

	Fsync          bool // commits survive a crash of the machine
	FullPageWrites bool // the server repairs pages that a crash leaves half written
	// "on", "local", ...; "off": commits are reported before they are durable
	SynchronousCommit string
}

// Inspect reads the state of the ledger at url, which has a form that [Open] takes. It changes
// nothing, migrates nothing, and takes no lock that a service could notice. Other processes may
// open and write to the ledger meanwhile. The error wraps [fs.ErrNotExist] if no ledger was
// created yet. No error shows the password.
//
// Inspect returns an error if Open would fail. It returns none if another process has the SQLite
// file open, or if the Inspection reports why: a Schema before Oldest or after Known, Standby, or
// ReadOnly.
//
// After a crash of a process that had a SQLite file open, SQLite may recreate <file>-shm. The
// file then remains, as after Open.
func Inspect(ctx context.Context, url string) (Inspection, error) {
	at, err := locate(url)
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect ledger: %w", err)
	}
	i := Inspection{Name: at.name()}
	if err := at.inspect(ctx, &i); err != nil {
		return Inspection{Name: i.Name}, fmt.Errorf(
			"inspect ledger %s: %w", i.Name, interrupted(ctx, err),
		)
	}
	return i, nil
}

// errNoLedger means that the user may create a ledger, but none exists yet.
var errNoLedger = fmt.Errorf("no ledger exists yet: %w", fs.ErrNotExist)

// support sets the versions that Open supports.
func (i *Inspection) support(kind string) error {
	migrations, err := migrationsOf(kind)
	if err == nil {
		i.Oldest, i.Known = supported(migrations)
	}
	return err
}

// read reads what every kind of database has, given the version of the schema.
func (i *Inspection) read(ctx context.Context, from queryer) error {
	if i.Schema == 0 {
		return errNoLedger
	}
	meta, err := readMeta(ctx, from)
	if err == nil && len(meta) == 0 {
		return errNoLedger // a process is creating the ledger, or died while doing so
	}
	if err == nil {
		i.Identity, err = parseIdentity(meta)
	}
	if err != nil && i.Schema > i.Known {
		return nil // a later version may store the identity in another form
	}
	if err != nil || i.Schema != i.Known {
		return err
	}
	if i.Layouts, err = readLayouts(ctx, from); err != nil {
		return err
	}
	if err := from.query(ctx, sourcesQuery(&i.Sources)); err != nil {
		return err
	}
	return from.query(ctx, statement{sql: emptySQL, into: []any{&i.Empty}})
}
