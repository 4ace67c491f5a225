package activity

import (
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
)

// row is one of the rows of an activity, and its key in a page: both are among those of the owner.
type row struct {
	owner, kind, target string
	facet               Facet // of the target
}

// rows returns the rows of an activity that user has with target: the user's own, and if there is
// one the mirror on the target's page.
func (k Kind) rows(user, target string) (own, mirror row, mirrored bool) {
	own = row{owner: user, kind: k.Name, target: target, facet: k.Target}
	if name := k.Mirror(); name != "" {
		return own, row{owner: target, kind: name, target: user, facet: User}, true
	}
	return own, row{}, false
}

// Mirror returns the name of the kind's rows on the target's page; "": none.
func (k Kind) Mirror() string {
	if k.Fanout {
		return k.Name + "-of"
	}
	return k.Reverse
}

// Sides returns on which sides a feed of a user looks for activities of the kind: Direct, and for
// two-way kinds Reverse.
func (k Kind) Sides() Match {
	if k.Reverse != "" {
		return Direct | Reverse
	}
	return Direct
}

// facing returns the rows on a user's page that tell of the user's activity with target, and of the
// target's with the user.
func (k Kind) facing(user, target string) (direct, reverse row) {
	direct, _, _ = k.rows(user, target)
	_, reverse, _ = k.rows(target, user)
	return direct, reverse
}

// key returns the row's key.
func (r *row) key() string { return pages.Key(r.kind, r.owner, string(r.facet), r.target) }

// startOf returns the hash of the start of a row's key, which ends before the target.
func (r *reader) startOf(row *row) favfilter.Start {
	start := pages.KeyStart(r.source.Identity().Seed, row.kind, row.owner, string(row.facet))
	start.Extra = r.weights[row.kind]
	return start
}

// item returns what the row is among those of its owner.
func (r *row) item() ledger.Item { return ledger.Item{Kind: r.kind, Target: r.target} }
