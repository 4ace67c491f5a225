package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Item is the kind and target of a row.
type Item struct{ Kind, Target string }

// LookupQuery asks which rows of one owner exist.
type LookupQuery struct {
	Hash  uint64 // hash of the owner, as recorded
	Owner string
	Now   time.Time // rows that have ended by then are omitted
	Items []Item    // any number; duplicates count once
}

// lookupAtOnce is the number of rows that Lookup looks up in one round trip.
const lookupAtOnce = 20_000

// Lookup returns the rows of the items that exist, in order of kind and target. Up to 20,000 items
// take one round trip; no items take none. Each further 20,000 items are read from another
// snapshot.
func (l *Ledger) Lookup(ctx context.Context, q LookupQuery) ([]Row, error) {
	if len(q.Items) == 0 {
		return nil, nil
	}
	what := fmt.Sprintf("ledger: look up %d rows", len(q.Items))
	rows, err := ask(ctx, l, &Call{Operation: "lookup"}, what, func(ctx context.Context) ([]Row, error) {
		wanted, err := q.entries()
		if err != nil {
			return nil, err
		}
		var rows []Row
		for some := range slices.Chunk(wanted, lookupAtOnce) {
			found, err := readRows(ctx, l.db, statement{sql: l.sql.lookupRows, columns: columnsOf(some)[:4]})
			if err != nil {
				return nil, err
			}
			rows = append(rows, found...)
		}
		return rows, nil
	})
	rows = slices.DeleteFunc(rows, func(r Row) bool { return times{r.Since, r.Until}.endedAt(q.Now) })
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Target, b.Target))
	})
	return rows, err
}

// entries returns the rows of the query, each once.
func (q LookupQuery) entries() ([]*entry, error) {
	if err := validateID("owner", q.Owner); err != nil {
		return nil, err
	}
	wanted := make([]*entry, 0, len(q.Items))
	seen := make(map[Item]bool, len(q.Items))
	for i, item := range q.Items {
		if err := cmp.Or(validateID("kind", item.Kind), validateID("target", item.Target)); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if !seen[item] {
			seen[item] = true
			wanted = append(wanted, &entry{key: key{q.Hash, q.Owner, item.Kind, item.Target}})
		}
	}
	return wanted, nil
}

// Counts returns the number of rows of an owner that have not ended by now: of one kind, or, for
// "", of each kind that has rows. It counts all of them in an index: 100,000 rows take some
// milliseconds.
func (l *Ledger) Counts(ctx context.Context, hash uint64, owner, kind string, now time.Time) (map[string]int, error) {
	var n int
	operation, what, invalid := "counts", "ledger: count rows", validateID("owner", owner)
	s := statement{sql: countKindsSQL, args: []any{stored(hash), owner, now.UnixMicro()}, into: []any{&kind, &n}}
	if kind != "" {
		operation, what = "count", fmt.Sprintf("ledger: count rows of kind %q", kind)
		invalid = cmp.Or(invalid, validateID("kind", kind))
		s = statement{sql: countRowsSQL, args: []any{stored(hash), owner, kind, now.UnixMicro()}, into: []any{&n}}
	}
	return ask(ctx, l, &Call{Operation: operation}, what, func(ctx context.Context) (counts map[string]int, err error) {
		if invalid != nil {
			return nil, invalid
		}
		s.reset = func() { counts = make(map[string]int) }
		s.each = func() error { counts[kind] = n; return nil }
		err = l.db.query(ctx, s)
		return counts, err
	})
}

// Owned returns the rows of an owner, of all kinds, in order of kind and target. It includes
// ended rows. limit is the maximum number of rows, at least 1.
//
// after is nil for the first call, then the last row returned, whether that row still exists or
// not. Repeat the call until it returns fewer than limit rows. The calls together return each row
// that exists throughout exactly once.
func (l *Ledger) Owned(ctx context.Context, hash uint64, owner string, after *Row, limit int) ([]Row, error) {
	after = cmp.Or(after, &Row{})
	return found(ctx, l, "owned", "read an owner's rows", cmp.Or(validateID("owner", owner), checkLimit(limit)),
		statement{sql: ownedRowsSQL, args: []any{stored(hash), owner, after.Kind, after.Target, limit}})
}

// All returns the rows of all owners, in order of hash, owner, kind and target. It includes
// ended rows. limit is the maximum number of rows, at least 1. after is as for Owned.
func (l *Ledger) All(ctx context.Context, after *Row, limit int) ([]Row, error) {
	after = cmp.Or(after, &Row{})
	return found(ctx, l, "all", "read all rows", checkLimit(limit),
		statement{sql: allRowsSQL, args: []any{stored(after.Hash), after.Owner, after.Kind, after.Target, limit}})
}

// Naming returns the rows of any owner that were recorded with Names and whose target has this
// id and hash. It includes ended rows. The rows are in order of hash, owner and kind. limit is
// the maximum number of rows, at least 1. after is as for Owned.
func (l *Ledger) Naming(ctx context.Context, targetHash uint64, target string, after *Row, limit int) ([]Row, error) {
	after = cmp.Or(after, &Row{})
	return found(ctx, l, "naming", "read rows that name a user", cmp.Or(validateID("target", target), checkLimit(limit)),
		statement{sql: namingRowsSQL, args: []any{stored(targetHash), target, stored(after.Hash), after.Owner, after.Kind, limit}})
}
