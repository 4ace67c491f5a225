package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/phrases"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

const (
	// alonePages is the default number of pages of a filter without a ledger.
	alonePages = 16384
	// aloneKeys is the number of keys that each of these pages is created for. A page takes any
	// number.
	aloneKeys = 512
	// keepInterval is how often keepFilter checks that the store still records how the filter was
	// made.
	keepInterval = time.Second
)

// AloneConfig configures [Alone]. The fields without a comment are those of activity.PlainConfig.
type AloneConfig struct {
	_ struct{} // fields are named

	Store   favfilter.Store
	Pages   uint32
	KeyRate float64 // false-positive rate of one key
	// Kinds are the kinds of rows by name, with their facets and weights. Keys of other kinds are not
	// looked up.
	Kinds map[string]RowKind

	Now    func() time.Time
	Logger *slog.Logger
}

// Alone has pages without a ledger: they are the only copy of their keys. It is safe for concurrent
// use.
type Alone struct {
	life    *lifecycle.Lifecycle
	storage *storage
	kinds   map[string]RowKind

	filter *favfilter.Filter
}

// OpenAlone opens the filter that the store holds, with that filter's seed and number of pages. If
// the store holds none, OpenAlone creates one with a random seed and c.Pages pages. Errors wrap
// [favfilter.ErrMismatch] if the store holds another filter.
func OpenAlone(ctx context.Context, c AloneConfig) (*Alone, error) {
	life := lifecycle.New(ctx)
	p := &Alone{life: life, kinds: c.Kinds, storage: &storage{
		life: life, store: c.Store, keyRate: c.KeyRate, now: c.Now, log: c.Logger,
	}}
	if p.storage.now == nil {
		p.storage.now = time.Now
	}
	if err := p.openFilter(ctx, c); err != nil {
		return nil, err
	}
	p.life.Go(func() { p.life.Every(keepInterval, p.keepFilter) })
	return p, nil
}

// Identity returns the identity of the filter.
func (p *Alone) Identity() favfilter.Identity { return p.storage.identity }

// Weights returns the weights of the keys of rows, by their kind.
func (p *Alone) Weights() map[string]uint8 { return weightsOf(p.kinds) }

// Now returns the time by which activities are recorded.
func (p *Alone) Now() time.Time { return p.storage.now() }

// Load is [Pages.Load].
func (p *Alone) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return p.storage.loadAny(ctx, ids)
}

// Close waits until all work in flight is done, then returns.
func (p *Alone) Close() { p.life.Close() }

// openFilter opens the filter that the store holds, or creates it. If several processes create one
// at once, the first one wins, and the others open its filter.
func (p *Alone) openFilter(ctx context.Context, c AloneConfig) error {
	for tries := 3; ; tries-- {
		identity, err := aloneIdentity(ctx, c)
		if err != nil {
			return err
		}
		p.storage.identity = identity
		p.filter, err = favfilter.Open(ctx, c.Store, favfilter.Config{
			Capacity:          aloneKeys * int(identity.Pages),
			FalsePositiveRate: p.storage.keyRate,
			Pages:             identity.Pages,
			Seed:              identity.Seed,
			PageBy:            p.placeOf,
			Hash: func(seed uint64, key string) favfilter.Hash {
				return hashOf(seed, key, c.Kinds[kindOf(key)].Weight)
			},
			Marks: p.marksOf,
		})
		if !errors.Is(err, favfilter.ErrMismatch) || tries == 0 {
			return err
		}
	}
}

// placeOf returns the user whose page holds a key.
func (p *Alone) placeOf(key string) string {
	owner := ownerOf(key)
	if p.kinds[kindOf(key)].ownsPhrases() {
		return phrases.Head(owner)
	}
	return owner
}

// marksOf returns the marks that go with a key.
func (p *Alone) marksOf(seed uint64, key string) []favfilter.Hash {
	k := p.kinds[kindOf(key)]
	if !k.Phrases {
		return nil
	}
	row := ledger.Row{Kind: kindOf(key), Owner: ownerOf(key), Target: targetOf(key)}
	return appendMarks(nil, seed, &row, k)
}

// keepFilter makes the store record how the filter was made, even after the store lost everything.
func (p *Alone) keepFilter() {
	ctx, cancel := context.WithTimeout(p.life.Base, loadTimeout)
	defer cancel()
	err := p.filter.Keep(ctx)
	if errors.Is(err, favfilter.ErrMismatch) {
		p.storage.log.ErrorContext(
			ctx, "the store holds another filter than the one that was opened: start again", "error", err,
		)
		return
	}
	p.storage.noteStore(ctx, err)
}

// aloneIdentity returns the identity of the filter in the store, or that of a new one. It reads
// page 0, and all other pages if page 0 is lost.
func aloneIdentity(ctx context.Context, c AloneConfig) (favfilter.Identity, error) {
	found, err := identityIn(ctx, c.Store, firstIDs(1))
	if err == nil && found == nil {
		found, err = identityIn(ctx, c.Store, firstIDs(max(c.Pages, alonePages)))
	}
	switch {
	case err != nil:
		return favfilter.Identity{}, err
	case found == nil:
		return favfilter.Identity{Seed: favfilter.RandomID(), Pages: cmp.Or(c.Pages, alonePages)}, nil
	case found.Incarnation != 0:
		return *found, fmt.Errorf("%w: with a ledger, opened without", favfilter.ErrMismatch)
	case c.Pages != 0 && c.Pages != found.Pages:
		return *found, fmt.Errorf(
			"%w: with %d pages, opened with %d", favfilter.ErrMismatch, found.Pages, c.Pages,
		)
	}
	return *found, nil
}

// Add adds keys, see [Key], and returns the outcome of each.
func (p *Alone) Add(ctx context.Context, keys ...string) ([]favfilter.Outcome, error) {
	return p.filter.Add(ctx, keys...)
}

// Remove removes keys, and returns the outcome of each.
func (p *Alone) Remove(ctx context.Context, keys ...string) ([]favfilter.Outcome, error) {
	return p.filter.Remove(ctx, keys...)
}

// Read reads the pages of a user and of lists, with one command to the store for each. If a page is
// empty, the Answer's Page is nil. Errors are an [*UnavailableError], or that of ctx.
func (p *Alone) Read(ctx context.Context, q Query) (a Answer, err error) {
	users := q.Lists
	if q.Page {
		users = append(slices.Clone(users), q.User) // last, next to Others in the same slot
	}
	ids := make([]favfilter.PageID, 0, len(users)+len(q.Others))
	for _, user := range users {
		ids = append(ids, favfilter.PageID{Number: p.storage.slot(user)})
	}
	loaded, err := p.storage.load(ctx, append(ids, q.Others...))
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	if len(users)+len(q.Others) > 0 {
		p.storage.stats.count(&p.storage.stats.fromStore, err)
	}
	if a.Others, a.OthersErr = loaded[len(users):], err; err != nil && len(users) > 0 {
		return a, Unavailable("pages", err)
	}
	answers := make([]Answer, len(users))
	for i := range users {
		answers[i].Number = ids[i].Number
		if answers[i].Page, err = p.page(loaded[i]); err != nil {
			return a, err
		}
	}
	if a.Lists = answers[:len(q.Lists)]; q.Page {
		own := answers[len(q.Lists)]
		a.Number, a.Page = own.Number, own.Page
	}
	return a, nil
}

// page returns a loaded page; nil if it is empty.
func (p *Alone) page(l favfilter.Loaded) (*favfilter.Page, error) {
	switch {
	case l.Damage != nil:
		return nil, Unavailable("pages", l.Damage)
	case l.Page == nil:
		return nil, nil //nolint:nilnil // no keys
	case l.Page.Header().Identity != p.storage.identity:
		return nil, Unavailable("pages", errors.New("the page is of another filter"))
	default:
		return l.Page, nil
	}
}

// Ready reports whether the store answers, with pages of this filter. If it does not, Ready returns
// one [*UnavailableError].
func (p *Alone) Ready(ctx context.Context) (ready bool, down []error) {
	loaded, _, err := p.storage.store.Load(ctx, []favfilter.PageID{{Number: 0}})
	if err == nil {
		_, err = p.page(loaded[0])
	}
	if err != nil {
		return false, []error{Unavailable("pages", err)}
	}
	return true, nil
}

// Stats returns the current counts.
func (p *Alone) Stats() Stats {
	s := p.storage.stats.counts()
	s.PagesDown = p.storage.storeDown.Load()
	s.SharedPages = int(p.storage.identity.Pages)
	return s
}

// InspectPage reads a page with its collision bitmap. Errors are [ErrNoPage], an
// [*UnavailableError], or that of ctx.
func (p *Alone) InspectPage(ctx context.Context, number uint32) (*PageInside, error) {
	if number >= p.storage.identity.Pages {
		return nil, fmt.Errorf("inspect page %d: %w", number, ErrNoPage)
	}
	id := favfilter.PageID{Number: number}
	loaded, err := p.storage.loadWhole(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("inspect page %d: %w", number, err)
	}
	return p.storage.insideOf(number, id, loaded), nil
}

// InspectUser reads the page of a user with its collision bitmap. Errors are an
// [*UnavailableError], or that of ctx.
func (p *Alone) InspectUser(ctx context.Context, user string) (*PageInside, error) {
	return p.InspectPage(ctx, p.storage.slot(UserHash(p.storage.identity.Seed, user)))
}

// InspectPhrase is InspectUser for the other side of a phrase in canonical form.
func (p *Alone) InspectPhrase(ctx context.Context, phrase string) (*PageInside, error) {
	return p.InspectPage(ctx, p.storage.slot(PhraseHash(p.storage.identity.Seed, phrase)))
}
