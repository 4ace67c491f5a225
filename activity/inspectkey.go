package activity

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Verdict is the conclusion about a key from its page and the ledger together.
type Verdict uint8

// Verdicts.
const (
	Held          Verdict = iota + 1 // the ledger has it, and the page reports it
	Gone                             // neither does
	FalsePositive                    // the page reports it, and the ledger does not have it
	Lost                             // the ledger has it, and the page does not report it
	Over                             // it has ended, and stays in the page until it is removed
	Reported                         // the page reports it, and nothing can confirm it
)

func (v Verdict) String() string {
	names := [...]string{unknownName, "held", "absent", "false_positive", "lost", "ended", "reported"}
	if int(v) < len(names) {
		return names[v]
	}
	return names[0]
}

// Removal is what undoing an activity does to its key.
type Removal uint8

// Removals.
const (
	RemovedByClearing Removal = iota + 1 // enough of its bits are its own: they are cleared
	RemovedByRebuild                     // too few are: the page is rebuilt
	RemovedByTime                        // its window forgets it
	NotRemovable                         // no bit is, and there is no ledger for a rebuild
	NothingToRemove                      // the page does not report it
)

func (r Removal) String() string {
	names := [...]string{unknownName, "clears", "rebuilds", "by_time", "stuck", "absent"}
	if int(r) < len(names) {
		return names[r]
	}
	return names[0]
}

// KeyInside is the state of an activity's keys: one for each side. For a two-way kind it includes
// those of the same activity in the other direction.
type KeyInside struct {
	Kind   Kind
	User   string
	Target string
	Sides  []KeySide
}

// KeySide is one key in one page.
type KeySide struct {
	// Side is "direct", or "mirror" for the key in the target's page. "reverse" and
	// "reverse_mirror" are the same for the target's activity with the user.
	Side string
	// Kind is that of the row: the kind's name, or that of its other side.
	Kind string
	// Owner and Target are those of the row. The owner's page holds the key.
	Owner, Target string
	// Page is its place in the store: a page number, and for a window also a part.
	Page string
	// Number is the page's number; for a window, that of the user's home page.
	Number uint32
	State  pages.PageState

	Traced  favfilter.Traced // zero if there is no page
	Removal Removal
	Verdict Verdict

	Confirmed bool  // there is a ledger that was asked for the row
	Row       *Item // the ledger's; nil: it has none, or there is no ledger
	// From and Forgotten are for a part of a window: the earliest time that its keys can be from,
	// and the time at which it is removed.
	From, Forgotten time.Time
}

// InspectKey returns the state of an activity bit by bit: in each page that has one of its keys,
// and in the ledger. It changes nothing, and reads as much as [pages.Pages.InspectPage] of two pages.
// Errors are an [*InvalidError] of field "kind", "user" or "target", an [*UnavailableError], or
// that of ctx.
func (r *Recorder) InspectKey(ctx context.Context, kind, user, target string) (*KeyInside, error) {
	type read struct {
		inside *pages.PageInside
		rows   []ledger.Row
	}
	byOwner := make(map[string]read)
	return r.inspectKey(ctx, kind, user, target, func(s *KeySide) (*pages.PageInside, error) {
		p, ok := byOwner[s.Owner]
		if !ok {
			var err error
			if p.inside, p.rows, err = r.pages.InspectUserRows(ctx, r.userHash(s.Owner)); err != nil {
				return nil, err
			}
			byOwner[s.Owner] = p
		}
		// As of the moment of the read: a later write is in neither.
		if !slices.ContainsFunc(p.rows, func(row ledger.Row) bool {
			return row.Target == s.Target && row.Kind == s.Kind && row.Owner == s.Owner
		}) {
			return p.inside, nil
		}
		return p.inside, r.askOfRow(ctx, s)
	})
}

// inspectKey is InspectKey. read returns the page of a side, and notes the ledger's row for it.
func (r *reader) inspectKey(
	ctx context.Context, kind, user, target string, read func(s *KeySide) (*pages.PageInside, error),
) (*KeyInside, error) {
	k, ok := r.kinds.Named(kind)
	if !ok {
		return nil, &InvalidError{Code: CodeUnknownKind, Field: fieldKind, Message: fmt.Sprintf("there is no kind %q", kind)}
	}
	if err := r.kinds.Check(Activity{User: user, Kind: kind, Target: target}); err != nil {
		return nil, err
	}
	in := &KeyInside{Kind: k, User: user, Target: target}
	var err error
	if k.InLedger() {
		err = r.inspectSides(in, read)
	} else {
		err = r.inspectWindow(ctx, in)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect a key: %w", err)
	}
	return in, nil
}

func (r *reader) inspectSides(in *KeyInside, read func(s *KeySide) (*pages.PageInside, error)) error {
	k := in.Kind
	sides := []KeySide{{Side: "direct", Kind: k.Name, Owner: in.User, Target: in.Target}}
	if k.Reverse != "" {
		sides = append(sides,
			KeySide{Side: "mirror", Kind: k.Reverse, Owner: in.Target, Target: in.User},
			KeySide{Side: "reverse", Kind: k.Name, Owner: in.Target, Target: in.User},
			KeySide{Side: "reverse_mirror", Kind: k.Reverse, Owner: in.User, Target: in.Target})
	}
	for i := range sides {
		s := &sides[i]
		inside, err := read(s)
		if err != nil {
			return err
		}
		s.Page, s.Number, s.State, s.Confirmed = inside.ID.String(), inside.Number, inside.State, inside.Ledger != nil
		r.trace(s, k, inside.Page)
	}
	in.Sides = sides
	return nil
}

// askOfRow asks the ledger for the times of a side's row, even if that has ended.
func (r *Recorder) askOfRow(ctx context.Context, s *KeySide) error {
	rows, err := r.ledger.Lookup(ctx, ledger.LookupQuery{
		// No row has ended at that time.
		Hash: r.userHash(s.Owner), Owner: s.Owner, Now: time.Unix(0, 0),
		Items: []ledger.Item{{Kind: s.Kind, Target: s.Target}},
	})
	if err != nil {
		return pages.Unavailable("ledger", err)
	}
	s.Row = &Item{Target: s.Target} // it may have been removed meanwhile
	if len(rows) > 0 {
		s.Row.Since, s.Row.Until = rows[0].Since, rows[0].Until
	}
	return nil
}

// trace looks the key of a side up in its page.
func (r *reader) trace(s *KeySide, k Kind, page *favfilter.Page) {
	if page != nil {
		seed := r.source.Identity().Seed
		s.Traced = page.Trace(k.keyStart(seed, s.Kind, s.Owner).With(favfilter.HashKey(seed, s.Target)))
	}
	s.Verdict = r.verdict(s)
	switch {
	case !s.Traced.Reported:
		s.Removal = NothingToRemove
	case !k.InLedger():
		s.Removal = RemovedByTime
	case s.Traced.Removable, !s.Confirmed && s.Traced.Clearable > 0:
		s.Removal = RemovedByClearing
	case s.Confirmed:
		s.Removal = RemovedByRebuild
	default:
		s.Removal = NotRemovable
	}
}

func (r *reader) verdict(s *KeySide) Verdict {
	switch reported := s.Traced.Reported; {
	case s.Row != nil && !s.Row.Until.IsZero() && !s.Row.Until.After(r.source.Now()):
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

// inspectWindow looks for the key in the existing parts of the user's window, the newest first.
func (r *reader) inspectWindow(ctx context.Context, in *KeyInside) error {
	parts, err := r.partsSeen(ctx, in.Kind, r.userHash(in.User))
	if err != nil {
		return err
	}
	for _, part := range parts {
		if part.Page == nil && part.Damage == nil {
			continue
		}
		s := KeySide{
			Side: "direct", Kind: in.Kind.Name, Owner: in.User, Target: in.Target, Page: part.ID.String(), Number: part.ID.Number,
			State: pages.PageSound, From: part.From, Forgotten: part.Forgotten,
		}
		if part.Damage != nil {
			s.State = pages.PageDamaged
		}
		r.trace(&s, in.Kind, part.Page)
		in.Sides = append(in.Sides, s)
	}
	return nil
}

// Key returns the key as text, such as "block:U1_U2".
func (s *KeySide) Key(k Kind) string {
	return pages.Key(s.Kind, s.Owner, s.Target, k.Target == User)
}
