package activity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// checkRate fails if of so many absent keys more were found than the rate of one key explains. Seeds
// are random, so other keys are found each time.
func (r *reader) checkRate(t testing.TB, found, keys int) {
	t.Helper()
	rate := r.keyRate
	if most := mostByChance(rate * float64(keys)); found > most {
		t.Errorf("%d false positives of %d keys, more than the %d that a rate of %.4f %% allows", found, keys, most, 100*rate)
	}
}

// mostByChance is what a count of rare events, independent of each other, exceeds once in a thousand million times: by
// Poisson's distribution, as a normal one says far too little of small means.
func mostByChance(mean float64) int {
	const never = 1e-9
	for n := 0; ; n++ {
		above, term := 0.0, 0.0
		for i := n + 1; i <= n+1000; i++ { // of the tail, the rest is nothing
			if term *= mean / float64(i); i == n+1 {
				lgamma, _ := math.Lgamma(float64(i + 1))
				term = math.Exp(float64(i)*math.Log(mean) - mean - lgamma)
			}
			above += term
		}
		if above < never {
			return n
		}
	}
}

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

// sharedLedger says that others write to it.
type sharedLedger struct{ Ledger }

func (sharedLedger) Shared() bool { return true }

// openKinds opens a Recorder of its own on a ledger and a store, which does nothing of its own accord.
func openKinds(t testing.TB, l Ledger, s favfilter.Store, kinds *Kinds) *rig {
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
	g.Recorder = r
	return g
}

// startProcess opens a Recorder as a service does. The caller closes it.
func startProcess(t *testing.T, l Ledger, s favfilter.Store, c Config) *rig {
	t.Helper()
	c.Ledger, c.Store = l, s
	r, err := Open(t.Context(), c)
	must(t, err)
	return &rig{Recorder: r, store: s}
}

// dependency names what err says is unavailable; "" if it says nothing of the kind.
func dependency(err error) string {
	if down, ok := errors.AsType[*UnavailableError](err); ok {
		return down.Dependency
	}
	return ""
}

// downStore answers nothing.
type downStore struct{}

func (downStore) Load(context.Context, []favfilter.PageID) ([]favfilter.Loaded, error) {
	return nil, faulttest.ErrInjected
}

func (downStore) LoadWhole(context.Context, []favfilter.PageID) ([]favfilter.Loaded, error) {
	return nil, faulttest.ErrInjected
}

func (downStore) Apply(_ context.Context, batches []favfilter.Batch) []favfilter.Result {
	results := make([]favfilter.Result, len(batches))
	for i := range results {
		results[i].Err = faulttest.ErrInjected
	}
	return results
}

func (downStore) Replace(context.Context, favfilter.Replacement) (bool, error) {
	return false, faulttest.ErrInjected
}

func (downStore) Peek(context.Context, []favfilter.PageID) ([]favfilter.Status, error) {
	return nil, faulttest.ErrInjected
}

func (downStore) Probe(
	context.Context, favfilter.PageID, favfilter.Header, []favfilter.Hash, []bool,
) (uint64, bool, error) {
	return 0, false, faulttest.ErrInjected
}

func (downStore) Epoch(context.Context) (string, error) {
	return "", faulttest.ErrInjected
}
