package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

//go:embed migrations/sqlite/*.sql
var sqliteMigrations embed.FS

// migrate brings the schema up to date: the files of migrations, in order of
// name, are versions 1, 2, ... Each is applied in a transaction together with
// the version, so that a process killed on the way leaves a database that the
// next one goes on with.
func migrate(ctx context.Context, db *sql.DB, migrations fs.FS) error {
	files, err := fs.Glob(migrations, "*.sql") // sorted
	if err != nil {
		return err
	}
	var version int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if version > len(files) {
		return fmt.Errorf("%w: its schema is version %d, the latest known here is %d", ErrTooNew, version, len(files))
	}
	for i, file := range files[version:] {
		script, err := fs.ReadFile(migrations, file)
		if err != nil {
			return err
		}
		if err := inTransaction(ctx, db, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, string(script)); err != nil {
				return err
			}
			// A pragma takes no placeholders. This one is transactional.
			_, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version+i+1))
			return err
		}); err != nil {
			return fmt.Errorf("migrate with %s: %w", file, err)
		}
	}
	return nil
}

// identify reads the identity of the ledger, and makes one for a new ledger:
// with the number of pages given, or the default if that is 0. A restored ledger
// gets a new incarnation.
func identify(ctx context.Context, db *sql.DB, o Options) (id Identity, err error) {
	err = inTransaction(ctx, db, func(tx *sql.Tx) error {
		meta, err := readMeta(ctx, tx)
		if err != nil {
			return err
		}
		if len(meta) > 0 {
			if id, err = parseIdentity(meta); err != nil {
				return err
			}
			if o.Pages != 0 && o.Pages != id.Pages {
				return fmt.Errorf("%w: it was made with %d, %d are asked for", ErrPagesDiffer, id.Pages, o.Pages)
			}
			if !o.Restored {
				return nil
			}
			id.Incarnation = newIdentity(id.Pages).Incarnation
		} else {
			id = newIdentity(o.Pages)
		}
		for name, value := range map[string]uint64{
			"incarnation": id.Incarnation, "seed": id.Seed, "pages": uint64(id.Pages),
		} {
			if _, err := tx.ExecContext(ctx, setMetaSQL, name, strconv.FormatUint(value, 10)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Identity{}, fmt.Errorf("identity: %w", err)
	}
	return id, nil
}

func newIdentity(pages uint32) Identity {
	if pages == 0 {
		pages = defaultPages
	}
	var random [16]byte
	rand.Read(random[:]) // never fails
	return Identity{
		Incarnation: max(1, binary.LittleEndian.Uint64(random[:8])),
		Seed:        binary.LittleEndian.Uint64(random[8:]),
		Pages:       pages,
	}
}

func readMeta(ctx context.Context, tx *sql.Tx) (map[string]string, error) {
	meta := make(map[string]string)
	rows, err := tx.QueryContext(ctx, metaSQL)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		meta[name] = value
		return err
	})
	return meta, err
}

func parseIdentity(meta map[string]string) (Identity, error) {
	incarnation, err1 := strconv.ParseUint(meta["incarnation"], 10, 64)
	seed, err2 := strconv.ParseUint(meta["seed"], 10, 64)
	pages, err3 := strconv.ParseUint(meta["pages"], 10, 32)
	id := Identity{Incarnation: incarnation, Seed: seed, Pages: uint32(pages)}
	err := errors.Join(err1, err2, err3, Options{Pages: id.Pages}.validate())
	if err != nil || incarnation == 0 || pages == 0 {
		return Identity{}, fmt.Errorf("damaged: %v", meta)
	}
	return id, nil
}

// inTransaction runs do in a transaction and commits it if do succeeds.
func inTransaction(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
