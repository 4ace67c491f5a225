package ledger

import (
	"context"
	"errors"
	"slices"

	"modernc.org/sqlite"
)

// bulkRows is the number of rows of one statement of a bulk insert. It is high enough to make
// the cost of a statement small, and low enough to make a failed one cheap to repeat.
const bulkRows = 128

// taken is the code of SQLite's error for a duplicate primary key.
const taken = 1555

// insertPlainSQL inserts n new rows that name no user and have no end, as most rows do. Fewer
// values save time.
func insertPlainSQL(n int) string {
	return `INSERT INTO entries (hash, owner, kind, target, since) VALUES ` + tuples(n, 5)
}

// insertWholeSQL inserts n new rows.
func insertWholeSQL(n int) string {
	return `INSERT INTO entries (hash, owner, kind, target, since, until, target_hash) VALUES ` + tuples(n, 7)
}

// insert writes rows in key order, so each is a neighbour of the row before.
func (t sqliteTransaction) insert(ctx context.Context, p *plan) (met bool, err error) {
	doubt := false // after an existing row, the next ones often exist, too
	for some := range slices.Chunk(p.additions(), bulkRows) {
		if err := ctx.Err(); err != nil {
			return met, err
		}
		if !doubt && len(some) == bulkRows {
			err := t.insertNew(ctx, some)
			if err == nil {
				continue
			}
			if failed, ok := errors.AsType[*sqlite.Error](err); !ok || failed.Code() != taken {
				return met, err
			}
		}
		// The statement had no effect. Look up which rows exist, and write the others.
		if err := t.lookup(ctx, p, some); err != nil {
			return met, err
		}
		fresh := slices.DeleteFunc(slices.Clone(some), func(e *entry) bool { return e.was })
		doubt = len(fresh) < len(some)
		met = met || doubt
		if err := t.upsert(ctx, fresh); err != nil {
			return met, err
		}
	}
	return met, nil
}

// insertNew inserts bulkRows new rows, all or none.
func (t sqliteTransaction) insertNew(ctx context.Context, some []*entry) error {
	whole := slices.ContainsFunc(some, func(e *entry) bool { return e.targetHash != nil || !e.after.until.IsZero() })
	sql := insertPlainSQL(bulkRows)
	if whole {
		sql = insertWholeSQL(bulkRows)
	}
	args := make([]any, 0, 7*bulkRows)
	var last *entry
	// Converting a value to any allocates, so values are only converted where they change.
	var hash, owner, kind, since any
	for _, e := range some {
		if last == nil || last.hash != e.hash || last.owner != e.owner {
			hash, owner = stored(e.hash), e.owner
		}
		if last == nil || last.kind != e.kind {
			kind = e.kind
		}
		if last == nil || last.after.since != e.after.since {
			since = e.after.since.UnixMicro()
		}
		if args = append(args, hash, owner, kind, e.target, since); whole {
			args = append(args, storedUntil(e.after.until), e.targetHash)
		}
		last = e
	}
	return t.query(ctx, statement{sql: sql, args: args})
}
