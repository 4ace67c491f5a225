package integration

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// checkAtRest compares the service with the model after the load has ended and no fault is left.
// Through every instance, lists must equal the model exactly. Feeds must agree with it, from both
// sides of a block. What the first instance lists decides the state of undecided keys.
func (l *chaosLoad) checkAtRest(ctx context.Context) {
	m, y := l.model, l.tally
	if err := wait(ctx, time.Until(m.settledAt())); err != nil {
		return
	}
	for _, g := range l.targets {
		for u, user := range m.users {
			listed, err := g.lists(ctx, user)
			if err != nil {
				y.violatedf("rest", "the lists of %s at instance %d: %v", user, g.index, err)
				return
			}
			for _, wrong := range m.compare(u, listed) {
				y.violatedf("rest", "at instance %d: %s", g.index, wrong)
			}
		}
	}
	// After the staleness bound without writes, every instance knows all of them.
	if err := wait(ctx, stalenessBound); err != nil {
		return
	}
	rng := rand.New(rand.NewPCG(l.seed, 3))
	for _, g := range l.targets {
		for u := range m.users {
			f := m.newFeed(u, len(m.looks[u]), rng)
			r := g.send(ctx, http.MethodPost, "/v1/feed/filter", f.request)
			if !l.answered(ctx, g, callRest, r) {
				y.violatedf("rest", "the feed of %s at instance %d: status %d, %v", m.users[u], g.index, r.status, r.err)
				continue
			}
			l.judge(ctx, g, f, r)
			if !bytes.Contains(r.body, []byte(`"degraded":[]`)) {
				y.violatedf("rest", "the feed of %s at instance %d is degraded", m.users[u], g.index)
			}
		}
	}
}

// wait returns after that time, or returns an error when ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listing holds the kind and target of each entry in a user's lists.
type listing map[[2]string]bool

// lists reads all lists of a user.
func (g *target) lists(ctx context.Context, user string) (listing, error) {
	all := make(listing)
	for _, plural := range []string{"blocks", "hides", "likes", "domain-mutes", "word-mutes", "repost-mutes", "follows"} {
		for cursor, more := "", true; more; more = cursor != "" {
			path := "/v1/users/" + user + "/" + plural + "?limit=1000"
			if cursor != "" {
				path += "&cursor=" + url.QueryEscape(cursor)
			}
			var page struct {
				Items []struct{ Target string }
				Next  string
			}
			if err := g.send(ctx, http.MethodGet, path, nil).ok(&page); err != nil {
				return nil, fmt.Errorf("list %s: %w", plural, err)
			}
			for _, item := range page.Items {
				id := [2]string{plural, item.Target}
				if all[id] {
					return nil, fmt.Errorf("list %s: duplicate %s", plural, item.Target)
				}
				all[id] = true
			}
			cursor = page.Next
		}
	}
	return all, nil
}

// compare returns the differences between the lists of a user and the model.
func (m *chaosModel) compare(user int, listed listing) (wrong []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := 0
	for _, k := range m.own[user] {
		there := listed[[2]string{k.plural(), k.target}]
		if there {
			known++
		}
		if k.undecided {
			k.undecided, k.live, k.since = false, there, time.Now()
			k.history = append(k.history, fmt.Sprintf("settled: listed %v", there))
			clear(k.acks)
		}
		if there != k.live {
			wrong = append(wrong, fmt.Sprintf("%v: listed %v, want %v\n%s", k, there, k.live, k.past()))
		}
	}
	if known != len(listed) {
		wrong = append(wrong, fmt.Sprintf("%s: %d are listed, of which %d were ever written", m.users[user], len(listed), known))
	}
	return wrong
}
