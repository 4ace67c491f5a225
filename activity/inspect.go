package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// maxLargest is how many of a page's users are told apart.
	maxLargest = 10
	// inspectTries is how often a page and the ledger are read until they are of one moment, and inspectPause how long
	// a write on its way gets in between.
	inspectTries = 5
	inspectPause = 5 * time.Millisecond
)

// ErrNoPage says that there is no page of a number.
var ErrNoPage = errors.New("there is no such page")

// PageInside is what a page says, beside what the ledger says of it.
type PageInside struct {
	Number uint32
	ID     favfilter.PageID // where it stands in the store
	Own    bool             // of one user alone
	State  PageState
	Damage error // why it cannot be read; nil: it can, or there is none

	Page     *favfilter.Page // to be read only; nil if there is none, or it is damaged
	Standing favfilter.Standing
	Limit    uint32 // bits set from which on it is made anew; of a page without a ledger, that grows
	Capacity int    // keys that it is expected to hold by then

	Ledger *LedgerPage // nil without a ledger
	// Lacks counts the ledger's keys that the page does not report, by kind: of one that is not behind, a loss.
	Lacks map[string]int
	// Behind is how many changes of the ledger the page lacks, and Residual how many keys it counts more than the ledger
	// has; fewer, if negative.
	Behind   uint64
	Residual int
}

// LedgerPage is what the ledger has of a page.
type LedgerPage struct {
	Sequence uint64
	Moves    uint32
	Keys     int            // those that have ended and were not removed yet included
	Kinds    map[string]int // of them, by kind, the other sides of two-way kinds under their own names
	Users    int            // who have any
	Largest  []UserKeys     // those who have most, up to 10, most first
}

// UserKeys is how many keys a user has.
type UserKeys struct {
	User string
	Keys int
}

// Agrees reports whether the page is as the ledger has it. Without a ledger there is nothing to disagree with.
func (p *PageInside) Agrees() bool {
	if p.Ledger == nil {
		return !p.State.Amiss()
	}
	if p.State == PageUnused {
		return p.Ledger.Keys == 0
	}
	return p.State == PageSound && p.Behind == 0 && p.Residual == 0 && len(p.Lacks) == 0
}

// InspectPage reads a page, marks included, and what the ledger has of it, and compares the two key by key: as of one
// moment, unless writes to it do not cease. Nothing is changed: what is amiss is left to the next feed or the scrub.
// It reads all of a page and of its rows, which of a large one may be some 100 MiB. Errors are [ErrNoPage], an
// [*UnavailableError], or that of ctx.
func (r *Recorder) InspectPage(ctx context.Context, number uint32) (*PageInside, error) {
	if !r.hasPage(number) {
		return nil, fmt.Errorf("inspect page %d: %w", number, ErrNoPage)
	}
	p, rows, err := r.readSettled(ctx, number)
	if err == nil {
		err = r.compare(ctx, p, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect page %d: %w", number, err)
	}
	return p, nil
}

// hasPage reports whether there is such a page, as far as this process knows.
func (r *Recorder) hasPage(number uint32) bool {
	if number < ledger.OwnPages {
		return number < r.identity.Pages
	}
	return r.placements.census().has(number)
}

// readSettled reads a page and its rows, again while a write to it is on its way.
func (r *Recorder) readSettled(ctx context.Context, number uint32) (*PageInside, []ledger.Row, error) {
	for tries := 1; ; tries++ {
		p, rows, err := r.readInside(ctx, number)
		settled := err != nil || p.Page == nil || p.Standing.Header.Sequence == p.Ledger.Sequence
		if settled || tries == inspectTries || r.rest(ctx, inspectPause) != nil {
			return p, rows, err
		}
	}
}

// readInside reads the page first, and the ledger after it: a page that is ahead was changed meanwhile, or is of another.
func (r *Recorder) readInside(ctx context.Context, number uint32) (*PageInside, []ledger.Row, error) {
	want := r.sequences.of(number).required.Load() // before the read
	loaded, err := r.loadWhole(ctx, r.pageID(number))
	if err != nil {
		return nil, nil, err
	}
	rows, s, err := r.allKeys(ctx, number)
	if err != nil {
		return nil, nil, unavailable("ledger", err)
	}
	r.sequences.of(number).learn(s.Sequence)
	p := r.insideOf(number, r.pageID(number), loaded)
	p.Own = number >= ledger.OwnPages && r.placements.census().isOwn(number)
	p.Ledger = &LedgerPage{Sequence: s.Sequence, Moves: s.Moves}
	switch {
	case loaded.Damage == nil && loaded.Page == nil && s.Sequence == 0:
		p.State = PageUnused
	default:
		p.State = stateOf(r.fault(ctx, number, max(want, s.Sequence), standing(loaded)))
	}
	if p.State == PageSound && r.overfull(p.Standing.Header) {
		p.State = PageOverfull
	}
	if p.State == PageBehind {
		p.Behind = s.Sequence - min(s.Sequence, p.Standing.Header.Sequence)
	}
	return p, rows, nil
}

// insideOf is what a page says by itself.
func (r *reader) insideOf(number uint32, id favfilter.PageID, l favfilter.Loaded) *PageInside {
	p := &PageInside{Number: number, ID: id, Page: l.Page, Damage: l.Damage, Lacks: make(map[string]int)}
	p.Standing = favfilter.Standing{Missing: l.Page == nil && l.Damage == nil, Damage: l.Damage}
	if l.Page != nil {
		p.Standing = l.Page.Standing()
		shape := p.Standing.Header.Shape
		p.Limit, p.Capacity = shape.Limit(r.keyRate), shape.Capacity(r.keyRate)
	}
	p.State = r.stateAlone(p.Standing)
	return p
}

// compare counts the ledger's keys, and looks for each in the page.
func (r *Recorder) compare(ctx context.Context, p *PageInside, rows []ledger.Row) error {
	kinds := make(map[string]int)
	var users []UserKeys
	for len(rows) > 0 {
		n := 1 // rows of one user and kind come together
		for n < len(rows) && rows[n].Owner == rows[0].Owner && rows[n].Kind == rows[0].Kind {
			n++
		}
		some := rows[:n]
		rows = rows[n:]
		keys, err := r.hashes(ctx, some)
		if err != nil {
			return unavailable("ledger", err)
		}
		kinds[some[0].Kind] += len(keys)
		p.Ledger.Keys += len(keys)
		if lacking := lacking(p.Page, keys); lacking > 0 {
			p.Lacks[some[0].Kind] += lacking
		}
		if len(users) == 0 || users[len(users)-1].User != some[0].Owner {
			users = append(users, UserKeys{User: some[0].Owner})
		}
		users[len(users)-1].Keys += len(keys)
	}
	slices.SortStableFunc(users, func(a, b UserKeys) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.User, b.User))
	})
	p.Ledger.Kinds, p.Ledger.Users, p.Ledger.Largest = kinds, len(users), users[:min(maxLargest, len(users))]
	if p.Page != nil {
		p.Residual = int(p.Standing.Header.Count) - p.Ledger.Keys
	}
	return nil
}

// lacking is how many of the keys a page does not report; all, where there is none.
func lacking(page *favfilter.Page, keys []favfilter.Hash) (n int) {
	for _, key := range keys {
		if page == nil || !page.Contains(key) {
			n++
		}
	}
	return n
}

// Rebuilt is a page that was made anew.
type Rebuilt struct {
	Number   uint32
	Sequence uint64
	Keys     int
	Bytes    int // of both strings
	Took     time.Duration
}

// RebuildPage makes a page anew from the ledger, whatever is in its place, and returns when it stands there. Errors are
// [ErrNoPage], a [*NoLedgerError], an [*UnavailableError], or that of ctx.
func (r *Recorder) RebuildPage(ctx context.Context, number uint32) (Rebuilt, error) {
	if !r.hasPage(number) {
		return Rebuilt{}, fmt.Errorf("rebuild page %d: %w", number, ErrNoPage)
	}
	start := time.Now()
	f, err := r.rebuild(ctx, number, r.sequences.of(number).required.Load(), "asked for", maxFlights)
	if err == nil {
		err = unavailable("pages", f.storeErr)
	}
	if err != nil {
		return Rebuilt{}, err
	}
	st := f.page.Standing()
	return Rebuilt{
		Number: number, Sequence: st.Header.Sequence, Keys: int(st.Header.Count), Bytes: int(st.Size.Bytes), Took: time.Since(start),
	}, nil
}
