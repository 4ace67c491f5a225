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
type Verdict uint8

// Verdicts.
const (
	Held          Verdict = iota + 1 // the ledger has the key, and the page reports it
	Gone                             // the ledger does not have the key, and the page does not report it
	FalsePositive                    // the page reports the key, but the ledger does not have it
	Lost                             // the ledger has the key, but the page does not report it
	Over                             // the activity has ended, but its key stays in the page until it is removed
	Reported                         // the page reports the key, and no ledger can confirm it
)

func (v Verdict) String() string {
	names := [...]string{"unknown", "held", "absent", "false_positive", "lost", "ended", "reported"}
	if int(v) < len(names) {
		return names[v]
	}
	return names[0]
}

// Removal is what undoing an activity does to its key.
type Removal uint8

// Removals.
const (
	RemovedByClearing Removal = iota + 1 // enough bits are the key's own: they are cleared
	RemovedByRebuild                     // too few bits are the key's own: the page is rebuilt
	RemovedByTime                        // the window forgets the key
	NotRemovable                         // no bit is the key's own, and there is no ledger for a rebuild
	NothingToRemove                      // the page does not report the key
)

func (r Removal) String() string {
	names := [...]string{"unknown", "clears", "rebuilds", "by_time", "stuck", "absent"}
	if int(r) < len(names) {
		return names[r]
	}
	return names[0]
}

// KeyInside is the state of an activity's keys, one for each side. For a two-way kind it includes
// the keys of the same activity in the other direction.
type KeyInside struct {
	Kind   activity.Kind
	User   string
	Target string
	Sides  []KeySide
}

// KeySide is one key in one page.
type KeySide struct {
	// Side is "direct", or "mirror" for the key in the target's page. "reverse" and
	// "reverse_mirror" are the same for the target's activity with the user.
	Side string
	// Kind is the kind of the row: the kind's name, or that of its other side.
	Kind string
	// Owner and Target are the row's. The owner's page holds the key.
	Owner, Target string
	// Page is the place of the page in the store: a page number, or the id of a window.
	Page string
	// Number is the page's number; for a window, the number of the user's slot.
	Number uint32
	State  pages.PageState

	Traced  favfilter.Traced // zero if there is no page
	Removal Removal
	Verdict Verdict

	Confirmed bool           // whether a ledger was asked for the row
	Row       *activity.Item // the ledger's row; nil: none, or no ledger
	// From and Forgotten are set for a window that reports the key. The key was recorded at From or
	// later, and is forgotten at Forgotten.
	From, Forgotten time.Time
}

// keyReader reads the state of one activity.
type keyReader struct {
	of   activity.Activities
	rows *activity.Recorder // of; nil without a ledger, which has the rows
	seed uint64
	// pages holds the pages read so far, by owner.
	pages map[string]pageOfOwner
	*KeyInside
}

// pageOfOwner is the page of a side's owner.
type pageOfOwner struct {
	inside *pages.PageInside
	rows   []ledger.Row
}

// ReadKey returns the state of an activity bit by bit: in each page that has one of its keys, and
// in the ledger. rows is a if that is a Recorder, and otherwise nil. ReadKey changes nothing, and
// reads as much as [pages.Pages.InspectPage] of two pages.
// Errors are an [*activity.InvalidError] of field "kind", "user" or "target", an
// [*activity.UnavailableError], or that of ctx.
func ReadKey(ctx context.Context, a activity.Activities, rows *activity.Recorder, kind, user, target string) (*KeyInside, error) {
	k, ok := a.Kinds().Named(kind)
	if !ok {
		return nil, &activity.InvalidError{
			Code: activity.CodeUnknownKind, Field: "kind", Message: fmt.Sprintf("there is no kind %q", kind),
		}
	}
	if err := a.Kinds().Check(activity.Activity{User: user, Kind: kind, Target: target}); err != nil {
		return nil, err
	}
	r := &keyReader{
		of: a, rows: rows, seed: a.Inside().Identity().Seed, pages: make(map[string]pageOfOwner),
		KeyInside: &KeyInside{Kind: k, User: user, Target: target},
	}
	read := r.readWindow
	if k.InLedger() {
		read = r.readSides
	}
	if err := read(ctx); err != nil {
		return nil, fmt.Errorf("inspect a key: %w", err)
	}
	return r.KeyInside, nil
}

func (r *keyReader) readSides(ctx context.Context) error {
	k := r.Kind
	sides := []KeySide{{Side: "direct", Kind: k.Name, Owner: r.User, Target: r.Target}}
	if k.Fanout {
		sides = append(sides, KeySide{Side: "mirror", Kind: k.Mirror(), Owner: r.Target, Target: r.User})
	}
	if k.Reverse != "" {
		sides = append(sides,
			KeySide{Side: "mirror", Kind: k.Reverse, Owner: r.Target, Target: r.User},
			KeySide{Side: "reverse", Kind: k.Name, Owner: r.Target, Target: r.User},
			KeySide{Side: "reverse_mirror", Kind: k.Reverse, Owner: r.User, Target: r.Target})
	}
	for i := range sides {
		s := &sides[i]
		inside, err := r.readSide(ctx, s)
		if err != nil {
			return err
		}
		s.Page, s.Number, s.State, s.Confirmed = inside.ID.String(), inside.Number, inside.State, inside.Ledger != nil
		r.trace(s, inside.Page)
	}
	r.Sides = sides
	return nil
}

// readSide returns the page of a side, and notes the ledger's row for it.
func (r *keyReader) readSide(ctx context.Context, s *KeySide) (*pages.PageInside, error) {
	p, ok := r.pages[s.Owner]
	if !ok {
		var err error
		if p.inside, p.rows, err = r.of.Inside().InspectRows(ctx, s.Owner); err != nil {
			return nil, err
		}
		r.pages[s.Owner] = p
	}
	// The rows and the page are from the same moment, so both lack later writes.
	if !slices.ContainsFunc(p.rows, func(row ledger.Row) bool {
		return row.Target == s.Target && row.Kind == s.Kind && row.Owner == s.Owner
	}) {
		return p.inside, nil
	}
	return p.inside, r.readTimes(ctx, s)
}

// readTimes reads the times of a side's row, even if the row has ended.
func (r *keyReader) readTimes(ctx context.Context, s *KeySide) error {
	both := activity.Claim{Kind: &r.Kind, Target: s.Target, Sides: activity.Direct | activity.Reverse}
	truth, err := r.rows.Truth(ctx, s.Owner, pages.PageAt{}, []activity.Claim{both})
	if err != nil {
		return err
	}
	row := truth.Evidence[0].Direct
	if s.Kind != r.Kind.Name {
		row = truth.Evidence[0].Reverse
	}
	if s.Row = row; row == nil {
		s.Row = &activity.Item{Target: s.Target} // the row was removed since
	}
	return nil
}

// readWindow looks for the key in the user's window, if there is one.
func (r *keyReader) readWindow(ctx context.Context) error {
	w, err := r.of.Window(ctx, r.Kind, r.User)
	if err != nil || w.Keys() == 0 && w.Damage() == nil {
		return err
	}
	s := KeySide{
		Side: "direct", Kind: r.Kind.Name, Owner: r.User, Target: r.Target, Page: w.ID().String(), Number: w.ID().Number,
		State: pages.PageSound,
	}
	if w.Damage() != nil {
		s.State = pages.PageDamaged
	}
	if runs := w.RunsOf(r.key(&s)); len(runs) > 0 { // the oldest first
		s.Traced.Reported = true
		s.From, s.Forgotten = runs[0].From, runs[len(runs)-1].Forgotten
	}
	r.judge(&s)
	r.Sides = []KeySide{s}
	return nil
}

// key returns the hash of the key of a side.
func (r *keyReader) key(s *KeySide) favfilter.Hash {
	start := pages.KeyStart(r.seed, s.Kind, s.Owner, string(r.Kind.Target))
	return start.With(favfilter.HashKey(r.seed, s.Target))
}

// trace looks up the key of a side in its page.
func (r *keyReader) trace(s *KeySide, page *favfilter.Page) {
	if page != nil {
		s.Traced = page.Trace(r.key(s))
	}
	r.judge(s)
}

// judge sets the verdict about a side, and the effect of an undo.
func (r *keyReader) judge(s *KeySide) {
	s.Verdict = r.verdict(s)
	switch {
	case !s.Traced.Reported:
		s.Removal = NothingToRemove
	case !r.Kind.InLedger():
		s.Removal = RemovedByTime
	case s.Traced.Removable, !s.Confirmed && s.Traced.Clearable > 0:
		s.Removal = RemovedByClearing
	case s.Confirmed:
		s.Removal = RemovedByRebuild
	default:
		s.Removal = NotRemovable
	}
}

func (r *keyReader) verdict(s *KeySide) Verdict {
	switch reported := s.Traced.Reported; {
	case s.Row != nil && !s.Row.Until.IsZero() && !s.Row.Until.After(r.of.Inside().Now()):
		return Over
	case s.Row != nil && reported:
		return Held
	case s.Row != nil:
		return Lost
	case !reported:
		return Gone
	case s.Confirmed:
		return FalsePositive
	default:
		return Reported
	}
}

// Key returns the key as text, such as "block:U1_U2".
func (s *KeySide) Key(k activity.Kind) string {
	return pages.Key(s.Kind, s.Owner, string(k.Target), s.Target)
}
