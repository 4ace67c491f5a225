package activity

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// declared are the kinds of rows that the ledger knows, those of other processes too: pages hold
// their keys, so whoever makes a page anew, or removes a user, has to know them.
type declared = atomic.Pointer[map[string]rowKind]

// rowKind is what a row's kind says of it.
type rowKind struct {
	target Target
	mirror string // the kind of the row on the target's side; "" for one-way kinds
	of     string // the name of the activity's kind; another one than the row's for the target's side
}

// declare tells the ledger of the Recorder's kinds.
func (r *Recorder) declare(ctx context.Context) error {
	if err := r.ledger.Declare(ctx, r.ownKinds()); err != nil {
		return fmt.Errorf("declare kinds: %w", err)
	}
	return r.learnKinds(ctx)
}

// ownKinds are the Recorder's, as the ledger has them.
func (r *Recorder) ownKinds() (kinds []ledger.Kind) {
	for _, k := range r.kinds.All() {
		if k.InLedger() {
			kinds = append(kinds, ledger.Kind{Name: k.Name, Reverse: k.Reverse, Users: k.Target == User})
		}
	}
	return kinds
}

// learnKinds asks the ledger. The Recorder's own kinds count also where another process has declared others in
// their place, before there was a row of them.
func (r *Recorder) learnKinds(ctx context.Context) error {
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

// rowKinds returns what the rows' kinds say of them. Who writes a row has declared its kind before, so
// the ledger is asked again if there is one that is not known. A kind that nobody declared has no
// entry: its rows have no key, since nobody looks them up.
func (r *Recorder) rowKinds(ctx context.Context, rows []ledger.Row) (map[string]rowKind, error) {
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
