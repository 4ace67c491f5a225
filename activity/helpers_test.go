package activity

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

func posts(prefix string) func(i int) string {
	return func(i int) string { return fmt.Sprint(prefix, i) }
}

// snapshot returns all strings of the server, restore sets it back to them.
func snapshot(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	must(t, err)
	m := map[string]string{}
	for _, k := range keys {
		m[k], err = client.Get(t.Context(), k).Result()
		must(t, err)
	}
	return m
}

// openKinds opens a Recorder of its own on a ledger and a store, which does nothing of its own
// accord.
func openKinds(t testing.TB, l *ledger.Ledger, s favfilter.Store, kinds *Kinds) *rig {
	t.Helper()
	g := &rig{store: s}
	g.now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	const rate = 1e-6 // what is not there is found once in many runs only
	r, err := Open(t.Context(), Config{
		Ledger: l, Store: s, Kinds: kinds, FalsePositiveRate: rate, StalenessBound: -1, Passive: true,
		Now: func() time.Time { return time.Unix(0, g.now.Add(1000)) },
	})
	must(t, err)
	t.Cleanup(r.Close)
	g.Recorder, g.using = r, using{r}
	return g
}

// dependency names what err says is unavailable; "" if it says nothing of the kind.
func dependency(err error) string {
	if down, ok := errors.AsType[*UnavailableError](err); ok {
		return down.Dependency
	}
	return ""
}
