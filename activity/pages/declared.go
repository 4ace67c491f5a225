package pages

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// declared maps the kinds of rows that the ledger knows, those of other processes included. Pages
// hold keys of all kinds, so a rebuild or a deletion of a user needs to know them.
type declared = atomic.Pointer[map[string]RowKind]

// RowKind describes the kind of a row.
type RowKind struct {
	Owner  string // facet of the owners: other than users only on the target's side
	Target string // facet of the targets
	Mirror string // the kind of the row on the other side; "": none
	Of     string // name of the activity's kind; on the target's side it differs from the row's

	Followed bool  // a source alone writes the kind
	Weight   uint8 // of keys in pages
	Phrases  bool  // the targets are phrases; on the target's side, the owners
}

// declare declares this process's kinds to the ledger.
func (b *rebuilder) declare(ctx context.Context) error {
	if err := b.ledger.Declare(ctx, b.kinds); err != nil {
		return fmt.Errorf("declare kinds: %w", err)
	}
	return b.learnKinds(ctx)
}

// learnKinds reads the declared kinds from the ledger. This process's kinds take precedence
// over kinds of the same name that another process declared before there was a row of them.
func (b *rebuilder) learnKinds(ctx context.Context) error {
	kinds, err := b.ledger.Kinds(ctx)
	if err != nil {
		return fmt.Errorf("read the kinds declared: %w", err)
	}
	rows := make(map[string]RowKind)
	followed, weights := make(map[string]bool), make(map[string]uint8)
	for _, k := range kinds {
		followed[k.Name] = k.Source != ""
		if k.Weight >= 0 {
			weights[k.Name] = uint8(min(k.Weight, favfilter.MaxExtra))
		}
	}
	kinds = append(kinds, b.kinds...)
	for _, k := range kinds {
		weight, ok := weights[k.Name]
		if !ok {
			weight = Weight(k.Target, k.Phrases) // the largest, which any look-up finds
		}
		row := RowKind{ledger.User, k.Target, k.Reverse, k.Name, followed[k.Name], weight, k.Phrases}
		rows[k.Name] = row
		if k.Reverse != "" {
			row.Owner, row.Target, row.Mirror = k.Target, ledger.User, k.Name
			rows[k.Reverse] = row
		}
	}
	b.declared.Store(&rows)
	b.phrases.Store(slices.ContainsFunc(kinds, func(k ledger.Kind) bool { return k.Phrases }))
	return nil
}

// weightsOf returns the weights of the keys of rows, by their kind.
func weightsOf(kinds map[string]RowKind) map[string]uint8 {
	weights := make(map[string]uint8)
	for kind, k := range kinds {
		weights[kind] = k.Weight
	}
	return weights
}

// ownsPhrases reports whether the owners of the rows are phrases: the rows are the other side of
// those of users.
func (k RowKind) ownsPhrases() bool { return k.Phrases && k.Owner != ledger.User }

// OwnerHash returns the hash of an owner of rows of the kind.
func (k RowKind) OwnerHash(seed uint64, owner string) uint64 {
	if k.ownsPhrases() {
		return PhraseHash(seed, owner)
	}
	return UserHash(seed, owner)
}

// RowKinds returns descriptions of the rows' kinds. A writer declares a kind before its first row,
// so RowKinds asks the ledger again if one is unknown. A kind that nobody declared has no entry:
// its rows have no key, since nobody looks them up.
func (p *Pages) RowKinds(ctx context.Context, rows []ledger.Row) (map[string]RowKind, error) {
	return p.rebuilder.rowKinds(ctx, rows)
}

// rowKinds is [Pages.RowKinds].
func (b *rebuilder) rowKinds(ctx context.Context, rows []ledger.Row) (map[string]RowKind, error) {
	known := *b.declared.Load()
	for i := range rows {
		if i > 0 && rows[i-1].Kind == rows[i].Kind {
			continue
		}
		if _, ok := known[rows[i].Kind]; ok {
			continue
		}
		if err := b.learnKinds(ctx); err != nil {
			return nil, err
		}
		return *b.declared.Load(), nil
	}
	return known, nil
}
