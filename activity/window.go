package activity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// lookups returns by how many keys of a window a candidate may be looked up. Posts have their id
// and 16 related ones. Other facets have 64 ids, each with two forms of its fold and eight parents.
func lookups(facet Facet) float64 {
	if facet == Post {
		return 17
	}
	return 64 * 2 * (1 + MaxParents)
}

// lowestRate is the lowest rate of a window.
const lowestRate = 1e-11

// OfWindow returns the rate of a key in the window of a kind. Rates.Window is for all ids on a
// candidate together.
func (r Rates) OfWindow(k Kind) float64 { return max(lowestRate, r.Window/lookups(k.Target)) }

// openWindows opens the windows of all kinds that have one. Windows of version 0.2.0, in which each
// key has the rate of a candidate, stay in use until they are forgotten.
func (r *reader) openWindows(store favfilter.Store, log *slog.Logger) (err error) {
	identity := r.source.Identity()
	r.windows = make(map[string]*seen.Windows)
	for _, k := range r.kinds.All() {
		if k.InLedger() {
			continue
		}
		r.windows[k.Name], err = seen.Open(store, seen.Config{
			Name:              k.Name,
			Length:            k.Window,
			Parts:             k.Parts,
			Most:              k.Most,
			FalsePositiveRate: r.rates.OfWindow(k),
			MostTolerated:     3 * r.rates.Window,
			Seed:              identity.Seed,
			Pages:             identity.Pages,
			Log:               log,
		})
		if err != nil {
			return fmt.Errorf("kind %q: %w", k.Name, err)
		}
	}
	return nil
}

// addSeen adds the i-th activity of a call, of a kind with a window, to b.
func (r *reader) addSeen(b *seen.Batch, k Kind, a Activity, i int) {
	seed := r.source.Identity().Seed
	own, _, _ := k.rows(a.User, a.Target)
	key := r.startOf(&own).With(favfilter.HashKey(seed, a.Target))
	b.Add(r.windows[k.Name], pages.UserHash(seed, a.User), key, a.Since, i)
}

// Window reads a user's window from the store. The kind must have one. Errors are an
// [*UnavailableError], or that of ctx.
func (r *reader) Window(ctx context.Context, kind Kind, user string) (*seen.Window, error) {
	windows := r.windows[kind.Name]
	id := windows.ID(r.userHash(user))
	loaded, err := r.source.Load(ctx, []favfilter.PageID{id})
	if err != nil {
		return nil, err
	}
	return windows.Decode(ctx, id, loaded[0], r.source.Now()), nil
}

// windowsOf returns the ids of the windows that v has to read.
func (r *reader) windowsOf(v *View) (ids []favfilter.PageID) {
	for i := range v.kinds {
		if k := v.kinds[i].kind; !k.InLedger() {
			ids = append(ids, r.windows[k.Name].ID(v.userHash))
		}
	}
	return ids
}

// takeWindows hands each kind of v with a window what was loaded of it. ids are those of windowsOf.
func (r *reader) takeWindows(ctx context.Context, v *View, ids []favfilter.PageID) {
	loaded, now := v.read.Others, r.source.Now()
	for i := range v.kinds {
		l := &v.kinds[i]
		switch {
		case l.kind.InLedger():
		case v.read.OthersErr != nil:
			v.Degraded = append(
				v.Degraded, Degraded{Kind: l.kind.Name, Reason: "the page store is unavailable"},
			)
		default:
			l.window = r.windows[l.kind.Name].Decode(ctx, ids[0], loaded[0], now)
			ids, loaded = ids[1:], loaded[1:]
		}
	}
}

// Runs returns the runs of a kind's window that report id, the oldest first. It returns nil for a
// kind without a window, and for a degraded one.
func (v *View) Runs(kind, id string) []seen.Run {
	l := v.named(kind)
	if l.window == nil {
		return nil
	}
	runs := l.window.RunsOf(l.direct.With(l.hash(v.seed, id)))
	if other := l.kind.Fold.Other(id); len(runs) == 0 && other != "" {
		runs = l.window.RunsOf(l.direct.With(favfilter.HashKey(v.seed, other)))
	}
	return runs
}

// Record records that the user has the named kind of the View with each of targets. The kind must
// have a window. It takes one write to the store, since the View has already read the window.
//
// When Record returns nil, every View that begins afterwards has them. After an
// [*UnavailableError], or if ctx ends, Record may or may not have taken effect.
func (v *View) Record(ctx context.Context, kind string, targets []string) error {
	l := v.named(kind)
	if l.window == nil {
		return fmt.Errorf(
			"record %s: %w", kind, pages.Unavailable("pages", errors.New("the window could not be read")),
		)
	}
	keys := make([]favfilter.Hash, len(targets))
	for n, target := range targets {
		keys[n] = l.direct.With(l.hash(v.seed, target))
	}
	return pages.Unavailable("pages", l.window.Add(ctx, keys))
}

// named returns the lookup of a kind of the View.
func (v *View) named(kind string) *lookup {
	return &v.kinds[slices.IndexFunc(v.kinds, func(l lookup) bool {
		return l.kind.Name == kind || l.kind.Plural == kind
	})]
}
