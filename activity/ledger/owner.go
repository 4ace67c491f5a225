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

// lookupAtOnce is the number of rows that PostgreSQL looks up in one round trip.
const lookupAtOnce = 20_000

// Lookup returns the rows of the items that exist, in order of kind and target. Up to 20,000 items
// take one round trip; no items take none. Each further 20,000 items are read from another
// snapshot.
func (l *Ledger) Lookup(ctx context.Context, q LookupQuery) (rows []Row, err error) {
	if len(q.Items) == 0 {
		return nil, nil
	}
	err = l.read(ctx, &Call{Operation: "lookup"}, func(ctx context.Context) error {
		wanted, err := q.entries()
		if err == nil {
			rows, err = l.db.lookup(ctx, wanted)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: look up %d rows: %w", len(q.Items), err)
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return times{r.Since, r.Until}.endedAt(q.Now) })
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Target, b.Target))
	})
	return rows, nil
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

// Count returns the number of rows of an owner and kind that have not ended by now. It counts
// all of them in an index: 100,000 rows take some milliseconds.
func (l *Ledger) Count(ctx context.Context, hash uint64, owner, kind string, now time.Time) (n int, err error) {
	err = l.read(ctx, &Call{Operation: "count"}, func(ctx context.Context) error {
		if err = cmp.Or(validateID("owner", owner), validateID("kind", kind)); err == nil {
			n, err = l.db.count(ctx, hash, owner, kind, now)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ledger: count rows of kind %q: %w", kind, err)
	}
	return n, nil
}

// Counts returns the number of rows of an owner that have not ended by now, for each kind. It
// omits kinds without rows. For its cost see Count.
func (l *Ledger) Counts(ctx context.Context, hash uint64, owner string, now time.Time) (counts map[string]int, err error) {
	err = l.read(ctx, &Call{Operation: "counts"}, func(ctx context.Context) error {
		if err = validateID("owner", owner); err == nil {
			counts, err = l.db.counts(ctx, hash, owner, now)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: count rows: %w", err)
	}
	return counts, nil
}

// Owned returns the rows of an owner, of all kinds, in order of kind and target. It includes
// ended rows. limit is the maximum number of rows, at least 1.
//
// after is nil for the first call, then the Item of the last row returned, whether that row
// still exists or not. Repeat the call until it returns fewer than limit rows. The calls
// together return each row that exists throughout exactly once.
func (l *Ledger) Owned(ctx context.Context, hash uint64, owner string, after *Item, limit int) (rows []Row, err error) {
	if after == nil {
		after = &Item{}
	}
	err = l.read(ctx, &Call{Operation: "owned"}, func(ctx context.Context) error {
		if err = cmp.Or(validateID("owner", owner), checkLimit(limit)); err == nil {
			rows, err = l.db.owned(ctx, hash, owner, *after, limit)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: read an owner's rows: %w", err)
	}
	return rows, nil
}

// All returns the rows of all owners, in order of hash, owner, kind and target. It includes
// ended rows. limit is the maximum number of rows, at least 1. after is nil for the first call,
// then the last row returned, as for Owned.
func (l *Ledger) All(ctx context.Context, after *Row, limit int) (rows []Row, err error) {
	var from key
	if after != nil {
		from = after.key()
	}
	err = l.read(ctx, &Call{Operation: "all"}, func(ctx context.Context) error {
		if err = checkLimit(limit); err == nil {
			rows, err = l.db.all(ctx, from, limit)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: read all rows: %w", err)
	}
	return rows, nil
}

// Naming returns the rows of any owner that were recorded with Names and whose target has this
// id and hash. It includes ended rows. The rows are in order of hash, owner and kind. limit is
// the maximum number of rows, at least 1. To continue, remove the rows and repeat the call.
func (l *Ledger) Naming(ctx context.Context, targetHash uint64, target string, limit int) (rows []Row, err error) {
	err = l.read(ctx, &Call{Operation: "naming"}, func(ctx context.Context) error {
		if err = cmp.Or(validateID("target", target), checkLimit(limit)); err == nil {
			rows, err = l.db.naming(ctx, targetHash, target, limit)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: read rows that name a user: %w", err)
	}
	return rows, nil
}
