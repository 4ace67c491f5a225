package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// openWindows opens the windows of all kinds that have one.
func (r *reader) openWindows(c seen.Config) (err error) {
	c.Identity, c.FalsePositiveRate = r.source.Identity(), r.rates.Window
	for _, k := range r.kinds.All() {
		if !k.InLedger() {
			c.Kinds = append(c.Kinds, seen.Kind{Name: k.Name, Length: k.Window, Parts: k.Parts, Most: k.Most})
		}
	}
	r.seen, err = seen.Open(c)
	return err
}

// addSeen adds the i-th activity of a call, of a kind with a window, to b.
func (r *reader) addSeen(b *seen.Batch, k Kind, a Activity, i int) {
	seed := r.source.Identity().Seed
	key := k.keyStart(seed, a.User).With(favfilter.HashKey(seed, a.Target))
	b.Add(k.Name, pages.UserHash(seed, a.User), key, a.Since, i)
}

// recordSeen writes b with the time now, and sets the outcomes of new activities to Changed.
func (r *reader) recordSeen(ctx context.Context, b *seen.Batch, now time.Time, outcomes []Outcome) error {
	fresh, err := r.seen.Record(ctx, b, now)
	for _, i := range fresh {
		outcomes[i] = Changed
	}
	return pages.Unavailable("pages", err)
}

// Window reads a user's window from the store. The kind must have one. Errors are an
// [*UnavailableError], or that of ctx.
func (r *reader) Window(ctx context.Context, kind Kind, user string) (*seen.Window, error) {
	w := r.seen.Window(kind.Name, r.userHash(user), r.source.Now())
	loaded, err := r.source.Load(ctx, []favfilter.PageID{w.ID()})
	if err != nil {
		return nil, err
	}
	w.Fill(ctx, loaded[0])
	return w, nil
}

// Runs returns the runs of the i-th kind's window that report id, the oldest first. It returns nil
// for a kind without a window, and for a degraded one.
func (v *View) Runs(i int, id string) []favfilter.Run {
	l := &v.kinds[i]
	if l.window == nil {
		return nil
	}
	return l.window.RunsOf(l.direct.With(favfilter.HashKey(v.seed, id)))
}

// Record records that the user has the i-th kind with each of targets. The kind must have a window.
// It takes one write to the store, since the View has already read the window.
//
// When Record returns nil, every View that begins afterwards has them. After an
// [*UnavailableError], or if ctx ends, Record may or may not have taken effect.
func (v *View) Record(ctx context.Context, i int, targets []string) error {
	l := &v.kinds[i]
	if l.window == nil {
		return fmt.Errorf("record %s: %w", l.kind.Name, pages.Unavailable("pages", errors.New("the window could not be read")))
	}
	keys := make([]favfilter.Hash, len(targets))
	for n, target := range targets {
		keys[n] = l.direct.With(favfilter.HashKey(v.seed, target))
	}
	return pages.Unavailable("pages", l.window.Add(ctx, keys))
}
