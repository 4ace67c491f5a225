package activity

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// declared maps the kinds of rows that the ledger knows, those of other processes included. Pages
// hold keys of all kinds, so a rebuild or a deletion of a user needs to know them.
type declared = atomic.Pointer[map[string]rowKind]

// rowKind describes the kind of a row.
type rowKind struct {
	target Target
	mirror string // the kind of the row on the target's side; "" for one-way kinds
	of     string // name of the activity's kind; on the target's side it differs from the row's
}

// declare declares the Recorder's kinds to the ledger.
func (r *rebuilder) declare(ctx context.Context) error {
	if err := r.ledger.Declare(ctx, r.ownKinds()); err != nil {
		return fmt.Errorf("declare kinds: %w", err)
	}
	return r.learnKinds(ctx)
}

// ownKinds returns the Recorder's own kinds, in the form that the ledger takes.
func (r *rebuilder) ownKinds() (kinds []ledger.Kind) {
	for _, k := range r.kinds.All() {
		if k.InLedger() {
			kinds = append(kinds, ledger.Kind{Name: k.Name, Reverse: k.Reverse, Users: k.Target == User})
		}
	}
	return kinds
}

// learnKinds reads the declared kinds from the ledger. The Recorder's own kinds take precedence
// over kinds of the same name that another process declared before there was a row of them.
func (r *rebuilder) learnKinds(ctx context.Context) error {
	kinds, err := r.ledger.Kinds(ctx)
	if err != nil {
		return fmt.Errorf("read the kinds declared: %w", err)
	}
	rows := make(map[string]rowKind)
	for _, k := range append(kinds, r.ownKinds()...) {
		target := Post
		if k.Users {
			target = User
		}
		rows[k.Name] = rowKind{target, k.Reverse, k.Name}
		if k.Reverse != "" {
			rows[k.Reverse] = rowKind{target, k.Name, k.Name}
		}
	}
	r.declared.Store(&rows)
	return nil
}

// rowKinds returns descriptions of the rows' kinds. A writer declares a kind before its first row,
// so rowKinds asks the ledger again if one is unknown. A kind that nobody declared has no entry:
// its rows have no key, since nobody looks them up.
func (r *rebuilder) rowKinds(ctx context.Context, rows []ledger.Row) (map[string]rowKind, error) {
	known := *r.declared.Load()
	for i := range rows {
		if i > 0 && rows[i-1].Kind == rows[i].Kind {
			continue
		}
		if _, ok := known[rows[i].Kind]; ok {
			continue
		}
		if err := r.learnKinds(ctx); err != nil {
			return nil, err
		}
		return *r.declared.Load(), nil
	}
	return known, nil
}
