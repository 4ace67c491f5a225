package activity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Verdict is what a page and the ledger say of a key, together.
type Verdict uint8

// Verdicts.
const (
	Held          Verdict = iota + 1 // the ledger has it, and the page reports it
	Gone                             // neither does
	FalsePositive                    // the page reports it, and the ledger does not have it
	Lost                             // the ledger has it, and the page does not report it
	Over                             // it has ended by itself, and is in the page until it is removed
	Reported                         // the page reports it, and there is nobody to confirm it
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
	RemovedByRebuild                     // too few are: the page is made anew
	RemovedByTime                        // its window forgets it
	NotRemovable                         // none is, and there is no ledger to make the page anew from
	NothingToRemove                      // the page does not report it
)

func (r Removal) String() string {
	names := [...]string{unknownName, "clears", "rebuilds", "by_time", "stuck", "absent"}
	if int(r) < len(names) {
		return names[r]
	}
	return names[0]
}

// KeyInside is how the keys of an activity stand: one for each side, and for a two-way kind also those of
// the same activity the other way round.
type KeyInside struct {
	Kind   Kind
	User   string
	Target string
	Sides  []KeySide
}

// KeySide is one key in one page.
type KeySide struct {
	Side          string // "direct", "mirror" in the target's page; "reverse", "reverse_mirror" of the target's activity with the user
	Kind          string // of the row: the kind's name, or that of its other side
	Owner, Target string // of the row; the owner's is the page
	Page          string // where it stands in the store: a number, and for a window a part
	Number        uint32 // the same; of a window, the home page in whose slot it is
	State         PageState

	Traced  favfilter.Traced // zero where there is no page
	Removal Removal
	Verdict Verdict

	Confirmed bool  // a ledger says whether it has the row
	Row       *Item // what the ledger has; nil: nothing, or there is none to ask
	// From and Forgotten are those of a part of a window: when what it holds can have been recorded at the earliest, and
	// when it goes.
	From, Forgotten time.Time
}

// InspectKey tells how an activity stands bit for bit: in each page that has a key of it, and in the ledger. It changes nothing, and
// reads as much as [Recorder.InspectPage] of two pages. Errors are an [*InvalidError] of field "kind", "user" or "target",
// an [*UnavailableError], or that of ctx.
func (r *Recorder) InspectKey(ctx context.Context, kind, user, target string) (*KeyInside, error) {
	type read struct {
		inside *PageInside
		rows   []ledger.Row
	}
	pages := make(map[string]read) // by owner
	return r.inspectKey(ctx, kind, user, target, func(s *KeySide) (*PageInside, error) {
		p, ok := pages[s.Owner]
		if !ok {
			var err error
			if p.inside, p.rows, err = r.readUserPage(ctx, userHash(r.identity.Seed, s.Owner)); err != nil {
				return nil, err
			}
			pages[s.Owner] = p
		}
		// As of the moment that the page was read at: what was recorded since is in neither.
		if !slices.ContainsFunc(p.rows, func(row ledger.Row) bool {
			return row.Target == s.Target && row.Kind == s.Kind && row.Owner == s.Owner
		}) {
			return p.inside, nil
		}
		return p.inside, r.askOfRow(ctx, s)
	})
}

// inspectKey is InspectKey. read returns the page of a side, and notes what the ledger has of it.
func (r *reader) inspectKey(
	ctx context.Context, kind, user, target string, read func(s *KeySide) (*PageInside, error),
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

func (r *reader) inspectSides(in *KeyInside, read func(s *KeySide) (*PageInside, error)) error {
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

// askOfRow asks the ledger for the times of the row of a side, also of one that has ended.
func (r *Recorder) askOfRow(ctx context.Context, s *KeySide) error {
	rows, err := r.ledger.Lookup(ctx, ledger.LookupQuery{
		Hash: userHash(r.identity.Seed, s.Owner), Owner: s.Owner, Now: time.Unix(0, 0), // none has ended by then
		Items: []ledger.Item{{Kind: s.Kind, Target: s.Target}},
	})
	if err != nil {
		return unavailable("ledger", err)
	}
	s.Row = &Item{Target: s.Target} // it may have been removed meanwhile
	if len(rows) > 0 {
		s.Row.Since, s.Row.Until = rows[0].Since, rows[0].Until
	}
	return nil
}

// trace looks for the key of a side in its page.
func (r *reader) trace(s *KeySide, k Kind, page *favfilter.Page) {
	if page != nil {
		seed := r.identity.Seed
		s.Traced = page.Trace(startHash(seed, s.Kind, s.Owner, k.Target).With(favfilter.HashKey(seed, s.Target)))
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
	case s.Row != nil && !s.Row.Until.IsZero() && !s.Row.Until.After(r.now()):
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

// inspectWindow looks for the key in the parts of the user's window that stand, the newest first.
func (r *reader) inspectWindow(ctx context.Context, in *KeyInside) error {
	parts, err := r.partsSeen(ctx, in.Kind, userHash(r.identity.Seed, in.User))
	if err != nil {
		return err
	}
	for _, part := range parts {
		if part.Page == nil && part.Damage == nil {
			continue
		}
		s := KeySide{
			Side: "direct", Kind: in.Kind.Name, Owner: in.User, Target: in.Target, Page: part.ID.String(), Number: part.ID.Number,
			State: PageSound, From: part.From, Forgotten: part.Forgotten,
		}
		if part.Damage != nil {
			s.State = PageDamaged
		}
		r.trace(&s, in.Kind, part.Page)
		in.Sides = append(in.Sides, s)
	}
	return nil
}

// Key is the key as the project writes it, such as "block:U1_U2".
func (s *KeySide) Key(k Kind) string {
	return string(appendEscaped(appendKeyStart(nil, s.Kind, s.Owner, k.Target), s.Target))
}

// Words says of each side what that comes to.
func (in *KeyInside) Words() []string {
	if len(in.Sides) == 0 {
		return []string{fmt.Sprintf("No part of the window stands: %s has nothing of kind %s that is not forgotten.", in.User, in.Kind.Name)}
	}
	words := make([]string, len(in.Sides))
	for i := range in.Sides {
		words[i] = in.Sides[i].words(in.Kind)
	}
	return words
}

func (s *KeySide) words(k Kind) string {
	set := 0
	for _, p := range s.Traced.Positions {
		if p.Set {
			set++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", s.Key(k))
	switch of := len(s.Traced.Positions); {
	case of == 0 && s.State == PageUnused:
		fmt.Fprintf(&b, "there is no page %s, as nobody on it has done anything. ", s.Page)
	case of == 0:
		fmt.Fprintf(&b, "page %s is %s. ", s.Page, s.State)
	case set == of:
		fmt.Fprintf(&b, "page %s reports it: all of its %d bits are set. ", s.Page, of)
	default:
		fmt.Fprintf(&b, "page %s does not report it: of its %d bits %d are set. ", s.Page, of, set)
	}
	b.WriteString(s.judgment())
	b.WriteString(s.undoing())
	return b.String()
}

// judgment says what the ledger makes of it.
func (s *KeySide) judgment() string {
	const minute = "2006-01-02 15:04:05 MST"
	switch s.Verdict {
	case Held:
		if until := s.Row.Until; !until.IsZero() {
			return fmt.Sprintf("The ledger has it since %s, until %s.", s.Row.Since.Format(minute), until.Format(minute))
		}
		return fmt.Sprintf("The ledger has it since %s.", s.Row.Since.Format(minute))
	case Over:
		return fmt.Sprintf("It ended at %s, and goes when what has ended is removed.", s.Row.Until.Format(minute))
	case Lost:
		return "The ledger has it, so this is a loss: the page is to be made anew."
	case FalsePositive:
		return "The ledger does not have it: a false positive, which an exact feed keeps."
	case Reported:
		if s.Forgotten.IsZero() {
			return "There is no ledger to confirm it."
		}
		return fmt.Sprintf("Recorded from %s on at the earliest, forgotten at %s; nobody can confirm it.",
			s.From.Format(minute), s.Forgotten.Format(minute))
	default:
		return "Nothing has it."
	}
}

// undoing says what an undo does.
func (s *KeySide) undoing() string {
	own := s.Traced.Clearable
	switch {
	case s.Verdict == FalsePositive:
		return "" // there is nothing to undo
	case s.Removal == RemovedByClearing:
		return fmt.Sprintf(" %d of its bits are in regions that it has to itself: an undo clears these.", own)
	case s.Removal == RemovedByRebuild:
		return fmt.Sprintf(" Only %d of its bits are in regions that it has to itself: an undo makes the page anew.", own)
	case s.Removal == NotRemovable:
		return " All of its bits are in regions that it shares: it cannot be undone."
	default:
		return ""
	}
}
