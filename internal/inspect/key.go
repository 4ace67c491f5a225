package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Verdict is the conclusion about a key from its page and the ledger together.
type Verdict string

// Verdicts.
const (
	// Held means that the ledger has the key, and the page reports it.
	Held Verdict = "held"
	// Gone means that the ledger does not have the key, and the page does not report it.
	Gone Verdict = "absent"
	// FalsePositive means that the page reports the key, but the ledger does not have it.
	FalsePositive Verdict = "false_positive"
	// Lost means that the ledger has the key, but the page does not report it.
	Lost Verdict = "lost"
	// Over means that the activity has ended, but its key stays in the page until it is removed.
	Over Verdict = "ended"
	// Reported means that the page reports the key, and no ledger can confirm it.
	Reported Verdict = "reported"
)

// Key is the state of an activity's keys, one for each side. For a two-way kind it includes the
// keys of the same activity in the other direction. An empty window has no side.
type Key struct {
	Kind   string   `json:"kind"`
	User   string   `json:"user"`
	Target string   `json:"target"`
	Sides  []Side   `json:"sides"`
	Words  []string `json:"words"` // explains each side
}

// Side is one key in one page.
type Side struct {
	// Side is "direct", or "mirror" for the key in the target's page. "reverse" and
	// "reverse_mirror" are the same for the target's activity with the user.
	Side string `json:"side"`
	Key  string `json:"key"`  // such as "block:U1_U2"
	Kind string `json:"kind"` // of the row: the kind's name, or that of its other side
	// Owner and Target are the row's. The owner's page holds the key.
	Owner     string  `json:"owner"`
	Target    string  `json:"target"`
	Page      uint32  `json:"page"`   // for a window, its slot
	Stored    string  `json:"stored"` // name of the page or window in the store
	PageState string  `json:"page_state"`
	Reported  bool    `json:"reported"` // by the page
	Verdict   Verdict `json:"verdict"`
	// Ledger reports whether the ledger has the key; nil without a ledger, and for windows.
	Ledger *bool     `json:"ledger,omitzero"`
	Since  time.Time `json:"since,omitzero"` // for a window, the key was recorded then or later
	Until  time.Time `json:"until,omitzero"` // for a window, when the key is forgotten
}

// keyReader reads the state of one activity.
type keyReader struct {
	of    activity.Activities
	rows  *activity.Recorder // of; nil without a ledger, which has the rows
	kind  activity.Kind
	pages map[keyOwner]*pages.PageInside // read so far
	*Key
}

// keyOwner is an owner of keys: a user, or a phrase on the other side.
type keyOwner struct {
	id     string
	phrase bool
}

// ReadKey returns the state of an activity: in each page that has one of its keys, and in the
// ledger. rows is a if that is a Recorder, and otherwise nil. ReadKey changes nothing, and reads as
// much as [pages.Inspector.InspectPage] of two pages.
// Errors are an [*activity.InvalidError] of field "kind", "user" or "target", an
// [*activity.UnavailableError], or that of ctx.
func ReadKey(
	ctx context.Context, a activity.Activities, rows *activity.Recorder, kind, user, target string,
) (*Key, error) {
	k, ok := a.Kinds().Named(kind)
	if !ok {
		return nil, &activity.InvalidError{
			Code:    activity.CodeUnknownKind,
			Field:   "kind",
			Message: fmt.Sprintf("there is no kind %q", kind),
		}
	}
	of, err := a.Kinds().Canonical(activity.Activity{User: user, Kind: k.Name, Target: target})
	if err != nil {
		return nil, err
	}
	r := &keyReader{
		of:    a,
		rows:  rows,
		kind:  k,
		pages: make(map[keyOwner]*pages.PageInside),
		Key:   &Key{Kind: k.Name, User: user, Target: of.Target},
	}
	read := r.readWindow
	if k.InLedger() {
		read = r.readSides
	}
	if err := read(ctx); err != nil {
		return nil, fmt.Errorf("inspect a key: %w", err)
	}
	return r.Key, nil
}

// readSides reads the pages of both users.
func (r *keyReader) readSides(ctx context.Context) error {
	k := r.kind
	r.Sides = []Side{{Side: "direct", Kind: k.Name, Owner: r.User, Target: r.Target}}
	if k.Fanout {
		mirror := Side{Side: "mirror", Kind: k.Mirror(), Owner: r.Target, Target: r.User}
		r.Sides = append(r.Sides, mirror)
	}
	if k.Reverse != "" {
		r.Sides = append(r.Sides,
			Side{Side: "mirror", Kind: k.Reverse, Owner: r.Target, Target: r.User},
			Side{Side: "reverse", Kind: k.Name, Owner: r.Target, Target: r.User},
			Side{Side: "reverse_mirror", Kind: k.Reverse, Owner: r.User, Target: r.Target})
	}
	for i := range r.Sides {
		s := &r.Sides[i]
		if err := r.readSide(ctx, s); err != nil {
			return err
		}
		r.Words = append(r.Words, fmt.Sprintf("%s: %s. %s", s.Key, s.lookup(), s.judgment()))
	}
	return nil
}

// readSide reads the page of a side, and the ledger's row for it.
func (r *keyReader) readSide(ctx context.Context, s *Side) error {
	owner := keyOwner{s.Owner, r.kind.InText() && s.Kind != r.kind.Name}
	p := r.pages[owner]
	if p == nil {
		inspect := r.of.Inside().InspectUser
		if owner.phrase {
			inspect = r.of.Inside().InspectPhrase
		}
		var err error
		if p, err = inspect(ctx, s.Owner); err != nil {
			return err
		}
		r.pages[owner] = p
	}
	s.Page, s.Stored, s.PageState = p.Number, p.ID.String(), p.State
	hash := r.key(s)
	s.Reported = p.Page != nil && p.Page.Contains(hash)
	if p.Ledger != nil {
		// The rows and the page are from the same moment, so both lack later writes.
		has := slices.ContainsFunc(p.User.Rows, func(row ledger.Row) bool {
			return row.Target == s.Target && row.Kind == s.Kind
		})
		s.Ledger = &has
		if has {
			if err := r.readTimes(ctx, s); err != nil {
				return err
			}
		}
	}
	s.Verdict = s.verdict(r.of.Inside().Now())
	return nil
}

// readTimes reads the times of a side's row, even if the row has ended. They stay unknown if it has
// been removed since.
func (r *keyReader) readTimes(ctx context.Context, s *Side) error {
	both := activity.Claim{Kind: &r.kind, Target: s.Target, Sides: activity.Direct | activity.Reverse}
	truth, err := r.rows.Truth(ctx, s.Owner, pages.PageAt{}, []activity.Claim{both})
	if err != nil {
		return err
	}
	row := truth.Evidence[0].Direct
	if s.Kind != r.kind.Name {
		row = truth.Evidence[0].Reverse
	}
	if row != nil {
		s.Since, s.Until = row.Since, row.Until
	}
	return nil
}

// readWindow looks for the key in the user's window, if there is one.
func (r *keyReader) readWindow(ctx context.Context) error {
	w, err := r.of.Window(ctx, r.kind, r.User)
	if err != nil {
		return err
	}
	if w.Keys() == 0 && w.Damage() == nil {
		r.Words = []string{fmt.Sprintf(
			"The window is empty: everything of kind %s that %s did is forgotten.", r.kind.Name, r.User,
		)}
		return nil
	}
	s := Side{
		Side:      "direct",
		Kind:      r.kind.Name,
		Owner:     r.User,
		Target:    r.Target,
		Stored:    w.ID().String(),
		Page:      w.ID().Number,
		PageState: pages.PageSound,
	}
	if w.Damage() != nil {
		s.PageState = pages.PageDamaged
	}
	if runs := w.RunsOf(r.key(&s)); len(runs) > 0 { // the oldest first
		s.Reported = true
		s.Since, s.Until = runs[0].From, runs[len(runs)-1].Forgotten
	}
	s.Verdict = s.verdict(r.of.Inside().Now())
	r.Sides, r.Words = []Side{s}, []string{fmt.Sprintf("%s: %s", s.Key, s.windowWords())}
	return nil
}

// key sets the name of a side's key, and returns the hash of the key.
func (r *keyReader) key(s *Side) favfilter.Hash {
	facet, seed := string(r.kind.Target), r.of.Inside().Identity().Seed
	if s.Kind != r.kind.Name { // the target of the other side's rows is a user
		facet = ledger.User
	}
	s.Key = pages.Key(s.Kind, s.Owner, facet, s.Target)
	start := pages.KeyStart(seed, s.Kind, s.Owner, facet)
	start.Extra = r.of.Inside().Weights()[s.Kind]
	return start.With(favfilter.HashKey(seed, s.Target))
}

// verdict returns the conclusion from what the page and the ledger say.
func (s *Side) verdict(now time.Time) Verdict {
	switch {
	case s.Ledger == nil && s.Reported:
		return Reported
	case s.Ledger == nil:
		return Gone
	case *s.Ledger && !s.Until.IsZero() && !s.Until.After(now):
		return Over
	case *s.Ledger && s.Reported:
		return Held
	case *s.Ledger:
		return Lost
	case s.Reported:
		return FalsePositive
	default:
		return Gone
	}
}
