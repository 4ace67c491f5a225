package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// maxLargest is the number of a page's users that are listed by name.
	maxLargest = 10
	// inspectTries is how often a page and the ledger are read until both have the same sequence.
	// inspectPause is the time between two tries, in which a write in flight can arrive.
	inspectTries = 5
	inspectPause = 5 * time.Millisecond
	// maxInspected is how many pages are inspected at once; others wait. What others did with a user
	// is on the user's page, and inspecting a page reads all of it.
	maxInspected = 2
)

// Inspector shows what is in pages. No method changes a page. It is safe for concurrent use.
type Inspector struct {
	core

	rebuilder *rebuilder
	slots     chan struct{} // of pages that are inspected
}

func newInspector(b *rebuilder) *Inspector {
	return &Inspector{core: b.core, rebuilder: b, slots: make(chan struct{}, maxInspected)}
}

// enter waits for a slot. The caller calls leave at the end.
func (in *Inspector) enter(ctx context.Context) (leave func(), err error) {
	select {
	case in.slots <- struct{}{}:
		return func() { <-in.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Identity returns the identity of the filter: see [Pages.Identity].
func (in *Inspector) Identity() favfilter.Identity { return in.storage.identity }

// Now returns the time that is used for the start and end of activities.
func (in *Inspector) Now() time.Time { return in.storage.now() }

// PageInside is the content of a page, beside what the ledger has for it.
type PageInside struct {
	Number    uint32
	ID        favfilter.PageID // its place in the store
	Dedicated bool             // dedicated to one user
	State     string           // one of the Page constants
	Damage    error            // why the page cannot be read; nil: readable or missing

	Page   *favfilter.Page // read-only; nil if it is missing or damaged
	Status favfilter.Status
	// Limit is the number of set bits at which the page is rebuilt. Without a ledger, the page
	// grows at that number instead.
	Limit    uint32
	Capacity int // expected number of keys at that limit

	// Ledger is what the ledger has for the page; nil without a ledger.
	Ledger *LedgerPage
	// User is what the ledger has of the user whose page was asked for; zero without one.
	User UserInside
	// Lacks counts the ledger's keys that the page does not report, by kind. If the page is not
	// stale, these keys are lost.
	Lacks map[string]int
	// Behind is the number of the ledger's changes that the page lacks.
	Behind uint64
	// Residual is the page's number of keys minus the ledger's. It is negative if the page has
	// fewer.
	Residual int
}

// LedgerPage is what the ledger has for a page.
type LedgerPage struct {
	Sequence uint64
	Left     uint64 // sequence with which a user last left the page; 0: none has
	Keys     int    // including ended ones that are not removed yet
	// Kinds is the number of Keys by kind. Other sides of two-way kinds count under their own
	// names.
	Kinds   map[string]int
	Users   int        // number of users with keys
	Largest []UserKeys // the users with the most keys, at most 10, in descending order
}

// UserKeys is the number of a user's keys.
type UserKeys struct {
	User string
	Keys int
}

// UserInside is what the ledger has of one user. Other sides of two-way kinds count under their own
// names.
type UserInside struct {
	Rows  []ledger.Row
	Keys  map[string]int // the number of rows, by kind
	Lacks map[string]int // of these, keys that the page does not report
}

// Agrees reports whether the page agrees with the ledger. Without a ledger it reports whether the
// page is sound or unused.
func (p *PageInside) Agrees() bool {
	if p.Ledger == nil {
		return p.State == PageSound || p.State == PageUnused
	}
	if p.State == PageUnused {
		return p.Ledger.Keys == 0
	}
	return p.State == PageSound && p.Behind == 0 && p.Residual == 0 && len(p.Lacks) == 0
}

// InspectPage reads a page with its collision bitmap, reads the ledger's rows for it, and compares
// the two key by key. Both have the same sequence, unless writes to the page never pause.
// InspectPage changes nothing, and leaves the repair of a faulty page to the next feed or the
// scrub.
//
// It reads the whole page and all its rows, some 100 MiB for a large page, so two pages are
// inspected at once, and other calls wait. Errors are [ErrNoPage], an [*UnavailableError], or that
// of ctx.
func (in *Inspector) InspectPage(ctx context.Context, number uint32) (*PageInside, error) {
	if !in.layout.InUse(number) {
		return nil, fmt.Errorf("inspect page %d: %w", number, ErrNoPage)
	}
	leave, err := in.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("inspect page %d: %w", number, err)
	}
	defer leave()
	p, rows, err := in.readSettled(ctx, number)
	if err == nil {
		err = in.compare(ctx, p, rows, "")
	}
	if err != nil {
		return nil, fmt.Errorf("inspect page %d: %w", number, err)
	}
	return p, nil
}

// Weights returns the weights of the keys of rows, by their kind. The weight of a kind does not
// change.
func (in *Inspector) Weights() map[string]uint8 {
	return weightsOf(*in.rebuilder.declared.Load())
}

// readSettled reads a page and its rows. It repeats that while a write to the page is in flight.
func (in *Inspector) readSettled(
	ctx context.Context, number uint32,
) (*PageInside, []ledger.Row, error) {
	for tries := 1; ; tries++ {
		p, rows, err := in.readInside(ctx, number)
		settled := err != nil || p.Page == nil || p.Status.Header.Sequence == p.Ledger.Sequence
		if settled || tries == inspectTries || in.life.Rest(ctx, inspectPause) != nil {
			return p, rows, err
		}
	}
}

// readInside reads the page first and the ledger after it. So a page with a higher sequence than
// the ledger's has not merely changed between the reads.
func (in *Inspector) readInside(
	ctx context.Context, number uint32,
) (*PageInside, []ledger.Row, error) {
	want := in.sequences.Of(number).Required.Load() // before the read
	loaded, err := in.storage.loadWhole(ctx, in.layout.PageID(number))
	if err != nil {
		return nil, nil, err
	}
	rows, s, err := in.rebuilder.allKeys(ctx, number)
	if errors.Is(err, ledger.ErrGone) {
		return nil, nil, ErrNoPage
	}
	if err != nil {
		return nil, nil, Unavailable("ledger", err)
	}
	in.sequences.Of(number).Learn(s.Sequence)
	p := in.storage.insideOf(number, in.layout.PageID(number), loaded)
	p.Dedicated = number >= ledger.DedicatedPages
	p.Ledger = &LedgerPage{Sequence: s.Sequence, Left: s.Left}
	switch {
	case loaded.Damage == nil && loaded.Page == nil && s.Sequence == 0:
		p.State = PageUnused
	default:
		fault, err := in.fault(ctx, number, max(want, s.Sequence), statusOf(loaded))
		if err != nil {
			return nil, nil, err
		}
		p.State = cmp.Or(fault, PageSound)
	}
	if p.State == reasonClosed {
		p.State = PageAhead
	}
	if p.State == PageSound && in.rebuilder.overfull(p.Status.Header) {
		p.State = PageOverfull
	}
	if p.State == PageBehind {
		p.Behind = s.Sequence - min(s.Sequence, p.Status.Header.Sequence)
	}
	return p, rows, nil
}

// insideOf returns what the page itself tells.
func (s *storage) insideOf(number uint32, id favfilter.PageID, l favfilter.Loaded) *PageInside {
	p := &PageInside{
		Number: number,
		ID:     id,
		Page:   l.Page,
		Damage: l.Damage,
		Status: statusOf(l),
		Lacks:  make(map[string]int),
	}
	if l.Page != nil {
		p.Status = l.Page.Status()
		shape := p.Status.Header.Shape
		p.Limit, p.Capacity = shape.Limit(s.keyRate), shape.Capacity(s.keyRate)
	}
	p.State = s.stateAlone(p.Status)
	return p
}

// compare counts the ledger's keys, and looks each up in the page. It keeps the rows of a user.
func (in *Inspector) compare(
	ctx context.Context, p *PageInside, rows []ledger.Row, user string,
) error {
	kinds := make(map[string]int)
	p.User = UserInside{Keys: make(map[string]int), Lacks: make(map[string]int)}
	var users []UserKeys
	for len(rows) > 0 {
		n := 1 // rows of one user and kind are adjacent
		for n < len(rows) && rows[n].Owner == rows[0].Owner && rows[n].Kind == rows[0].Kind {
			n++
		}
		some := rows[:n]
		rows = rows[n:]
		keys, err := in.rebuilder.keysOf(ctx, some)
		if err != nil {
			return Unavailable("ledger", err)
		}
		kinds[some[0].Kind] += len(keys.hashes)
		p.Ledger.Keys += len(keys.hashes)
		lacking := lacking(p.Page, keys)
		if lacking > 0 {
			p.Lacks[some[0].Kind] += lacking
		}
		if some[0].Owner == user {
			p.User.Rows = append(p.User.Rows, some...)
			p.User.Keys[some[0].Kind] += len(keys.hashes)
			if lacking > 0 {
				p.User.Lacks[some[0].Kind] += lacking
			}
		}
		if len(users) == 0 || users[len(users)-1].User != some[0].Owner {
			users = append(users, UserKeys{User: some[0].Owner})
		}
		users[len(users)-1].Keys += len(keys.hashes)
	}
	slices.SortStableFunc(users, func(a, b UserKeys) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.User, b.User))
	})
	p.Ledger.Kinds = kinds
	p.Ledger.Users = len(users)
	p.Ledger.Largest = users[:min(maxLargest, len(users))]
	if p.Page != nil {
		p.Residual = int(p.Status.Header.Count) - p.Ledger.Keys
	}
	return nil
}

// InspectUser is [Inspector.InspectPage] for the page of a user. It follows a user who moves to
// another page during the call.
func (in *Inspector) InspectUser(ctx context.Context, user string) (*PageInside, error) {
	return in.inspectOwner(ctx, UserHash(in.storage.identity.Seed, user), user)
}

// InspectPhrase is InspectUser for the other side of a phrase in canonical form, whose keys are on
// the page of its head.
func (in *Inspector) InspectPhrase(ctx context.Context, phrase string) (*PageInside, error) {
	return in.inspectOwner(ctx, PhraseHash(in.storage.identity.Seed, phrase), phrase)
}

func (in *Inspector) inspectOwner(
	ctx context.Context, hash uint64, owner string,
) (*PageInside, error) {
	leave, err := in.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	since := in.known.Recent()
	var at known.Position
	for range maxLooks {
		at = known.Position{User: hash}
		in.known.KeepUp(ctx, since, &at)
		p, rows, err := in.readSettled(ctx, at.Page)
		if err != nil && !errors.Is(err, ErrNoPage) {
			return nil, err
		}
		place, failed := in.ledger.Place(ctx, hash)
		if failed != nil {
			return nil, Unavailable("ledger", failed)
		}
		if err == nil && place.Page == at.Page {
			return p, in.compare(ctx, p, rows, owner)
		}
		since = in.life.Elapsed()
	}
	return nil, in.movedFrom(at.Page)
}
