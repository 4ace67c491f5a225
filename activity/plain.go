package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// plainPages is how many pages a filter without a ledger gets.
	plainPages = 16384
	// plainKeys is how many keys each of them is made for. It takes any number.
	plainKeys = 512
	// keepInterval is how often the store is looked at for whether it still says how the filter was made.
	keepInterval = time.Second
)

// NoLedgerError is about a call that needs a ledger, of a [Recorder] that has none.
type NoLedgerError struct{ Call string }

func (e *NoLedgerError) Error() string {
	return e.Call + " needs a ledger, and there is none: a filter alone cannot tell what it holds"
}

// openPlain makes a Recorder without a ledger: the pages are all there is of every kind. The
// filter that the store holds says how it was made; a new one gets a random seed, and c.Pages pages.
func openPlain(ctx context.Context, c Config) (*Recorder, error) {
	for _, k := range c.Kinds.All() {
		if k.Limit > 0 {
			return nil, fmt.Errorf("kind %q: %w", k.Name, &NoLedgerError{"a limit"})
		}
	}
	r := &Recorder{
		store:  c.Store,
		kinds:  c.Kinds,
		now:    c.Now,
		log:    c.Logger,
		closed: make(chan struct{}),
		owners: newOwners(),
		images: newImages(),

		placements: newPlacements(0),
		persist:    c.Persist,
		opened:     time.Now(),
	}
	r.rate, r.keyRate = c.FalsePositiveRate, c.FalsePositiveRate/float64(c.Kinds.lookups())
	r.base, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := r.openFilter(ctx, c); err != nil {
		return nil, err
	}
	r.survey = newSurvey(r.identity.Pages)
	if err := r.openWindows(); err != nil {
		return nil, err
	}
	r.ended.Go(func() { r.every(keepInterval, r.keepFilter) })
	return r, nil
}

// openFilter opens the filter that the store holds, or makes it. Of several that make it at once, one is
// the first, and the others take its.
func (r *Recorder) openFilter(ctx context.Context, c Config) error {
	for tries := 3; ; tries-- {
		identity, err := plainIdentity(ctx, c)
		if err != nil {
			return err
		}
		r.identity = identity
		r.plain, err = favfilter.Open(ctx, c.Store, favfilter.Config{
			Capacity:          plainKeys * int(identity.Pages),
			FalsePositiveRate: r.keyRate,
			Pages:             identity.Pages,
			Seed:              identity.Seed,
			PageBy:            ownerOf,
			Hash:              hashOf,
		})
		if !errors.Is(err, favfilter.ErrMismatch) || tries == 0 {
			return err
		}
	}
}

// keepFilter sees to it that the store says how the filter was made, also after it has lost everything.
func (r *Recorder) keepFilter() {
	ctx, cancel := context.WithTimeout(r.base, loadTimeout)
	defer cancel()
	err := r.plain.Keep(ctx)
	if errors.Is(err, favfilter.ErrMismatch) {
		r.log.ErrorContext(ctx, "the store holds another filter than the one that was opened: start again", "error", err)
		return
	}
	r.noteStore(ctx, err)
}

// plainIdentity is that of the filter in the store, or of a new one. Page 0 tells; where it was lost,
// any other does.
func plainIdentity(ctx context.Context, c Config) (favfilter.Identity, error) {
	found, err := standingIdentity(ctx, c.Store, 1)
	if err == nil && found == nil {
		found, err = standingIdentity(ctx, c.Store, max(c.Pages, plainPages))
	}
	switch {
	case err != nil:
		return favfilter.Identity{}, err
	case found == nil:
		return favfilter.Identity{Seed: favfilter.RandomID(), Pages: cmp.Or(c.Pages, plainPages)}, nil
	case found.Incarnation != 0:
		return *found, fmt.Errorf("%w: with a ledger, opened without", favfilter.ErrMismatch)
	case c.Pages != 0 && c.Pages != found.Pages:
		return *found, fmt.Errorf("%w: with %d pages, opened with %d", favfilter.ErrMismatch, found.Pages, c.Pages)
	}
	return *found, nil
}

// standingIdentity is that of the first page that stands among so many; nil if none does.
func standingIdentity(ctx context.Context, store favfilter.Store, pages uint32) (*favfilter.Identity, error) {
	for from := uint32(0); from < pages; from += scrubChunk {
		var ids []favfilter.PageID
		for number := from; number < min(pages, from+scrubChunk); number++ {
			ids = append(ids, favfilter.PageID{Number: number})
		}
		standings, err := store.Peek(ctx, ids)
		if err != nil {
			return nil, unavailable("pages", err)
		}
		for _, st := range standings {
			switch {
			case st.Err != nil:
				return nil, unavailable("pages", st.Err)
			case st.Damage != nil:
				return nil, st.Damage
			case !st.Missing:
				return &st.Header.Identity, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // an empty store
}

// refusePlain fails if the store holds a filter without a ledger: its pages would be taken for those of another
// ledger, and made anew from one that does not have what they hold. Where the store cannot be asked, they are.
func (r *Recorder) refusePlain(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	loaded, err := r.store.Load(limited, []favfilter.PageID{{}})
	if err != nil || loaded[0].Page == nil || loaded[0].Page.Header().Incarnation != 0 {
		return ctx.Err()
	}
	return fmt.Errorf("%w: without a ledger, opened with one", favfilter.ErrMismatch)
}

// ownerOf is the id of the user whose page a key is in.
func ownerOf(key string) string {
	_, rest, _ := strings.Cut(key, ":U")
	owner, _, _ := strings.Cut(rest, "_")
	return unescape(owner)
}

// keysOf are the keys of an activity: two for a two-way kind, in two users' pages.
func keysOf(k Kind, a Activity) []string {
	keys := []string{string(appendEscaped(appendKeyStart(nil, k.Name, a.User, k.Target), a.Target))}
	if k.Reverse != "" {
		keys = append(keys, string(appendEscaped(appendKeyStart(nil, k.Reverse, a.Target, k.Target), a.User)))
	}
	return keys
}

// recordPlain records activities in pages that no ledger backs: those numbered in of, in their
// order. Additions, and removals, that follow on each other share a call of the store.
func (r *Recorder) recordPlain(ctx context.Context, activities []Activity, of []int, outcomes []Outcome) error {
	for len(of) > 0 {
		remove := activities[of[0]].Remove
		n := 1
		for n < len(of) && activities[of[n]].Remove == remove {
			n++
		}
		if err := r.recordRun(ctx, activities, of[:n], remove, outcomes); err != nil {
			return fmt.Errorf("record %d activities: %w", len(activities), unavailable("pages", err))
		}
		of = of[n:]
	}
	return nil
}

func (r *Recorder) recordRun(ctx context.Context, activities []Activity, of []int, remove bool, outcomes []Outcome) error {
	var keys []string
	var owner []int
	for _, i := range of {
		k, _ := r.kinds.Named(activities[i].Kind)
		for _, key := range keysOf(k, activities[i]) {
			keys = append(keys, key)
			owner = append(owner, i)
		}
	}
	change := r.plain.Add
	if remove {
		change = r.plain.Remove
	}
	results, err := change(ctx, keys...)
	if err != nil {
		return err
	}
	for n, result := range results {
		outcomes[owner[n]] = max(outcomes[owner[n]], plainOutcome(result))
	}
	// What is stuck on one side stays on the other, too.
	var back []string
	for n, result := range results {
		if result == favfilter.Removed && outcomes[owner[n]] == Stuck {
			back = append(back, keys[n])
		}
	}
	if len(back) > 0 {
		_, err = r.plain.Add(ctx, back...)
	}
	return err
}

// plainOutcome is what becomes of an activity by what became of one of its keys.
func plainOutcome(o favfilter.Outcome) Outcome {
	switch o {
	case favfilter.Added, favfilter.Removed:
		return Changed
	case favfilter.Stuck:
		return Stuck
	default:
		return Unchanged
	}
}

// plainPage returns the page of a View, nil if it is empty.
func (r *Recorder) plainPage(l favfilter.Loaded) (*favfilter.Page, error) {
	switch {
	case l.Damage != nil:
		return nil, unavailable("pages", l.Damage)
	case l.Page == nil:
		return nil, nil //nolint:nilnil // nobody on it has done anything
	case l.Page.Header().Identity != r.identity:
		return nil, unavailable("pages", errors.New("the page is of another filter"))
	default:
		return l.Page, nil
	}
}

// HasLedger reports whether there is a ledger behind the pages. Without, every call that needs one fails
// with a [*NoLedgerError].
func (r *Recorder) HasLedger() bool { return r.plain == nil }
