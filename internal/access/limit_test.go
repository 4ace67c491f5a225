package access_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/access"
)

func TestRate(t *testing.T) {
	for text, want := range map[string]access.Rate{
		"100": {PerSecond: 100}, "0.5": {PerSecond: 0.5}, "1e6": {PerSecond: 1e6}, "2:1": {PerSecond: 2, Burst: 1}, "0.1:1000000": {PerSecond: 0.1, Burst: 1e6},
		"": {},
	} {
		var r access.Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
		var again access.Rate
		if err := again.UnmarshalText([]byte(want.String())); err != nil || again != want {
			t.Errorf("%q is read as %+v, %v; want %+v", want.String(), again, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "NaN", "Inf", "1000001", "x", "1:", "1:0", "1:-1", "1:x", "1:1:1", "1:1000001", ":1", "1/s"} {
		var r access.Rate
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

// rated returns a token with a rate.
func rated(t *testing.T, r access.Rate) *access.Token {
	t.Helper()
	tokens, _, _ := opened(t, access.TokensConfig{Rate: r}, fileOf(entry("a", "a", `"feed:read"`)))
	k, err := tokens.Check([]string{"Bearer a"})
	must(t, err)
	return k
}

func TestTake(t *testing.T) {
	start := time.Now()
	k := rated(t, access.Rate{PerSecond: 4, Burst: 3})
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for i, c := range []struct {
		at   int // ms
		wait time.Duration
	}{
		{0, 0}, {0, 0}, {0, 0}, {0, 250 * time.Millisecond}, {100, 150 * time.Millisecond}, {250, 0}, {250, 250 * time.Millisecond},
		{10_000, 0}, {10_000, 0}, {10_000, 0}, {10_000, 250 * time.Millisecond}, // at most one burst is saved up
	} {
		if wait := k.Take(at(c.at)); wait.Round(time.Millisecond) != c.wait {
			t.Errorf("%d, at %d ms: wait %v, want %v", i, c.at, wait, c.wait)
		}
	}
	// A batch larger than a burst is accepted, and later requests wait.
	if wait := k.Charge(at(20_000), 11); wait.Round(time.Millisecond) != 2*time.Second {
		t.Errorf("11 requests, burst 3, 4 a second: %v", wait)
	}
	if wait := k.Take(at(20_000)); wait.Round(time.Millisecond) != 2250*time.Millisecond {
		t.Errorf("after a batch: %v", wait)
	}
	if wait := k.Take(at(22_250)); wait != 0 {
		t.Errorf("after the wait: %v", wait)
	}
	if wait := k.Charge(at(30_000), 0); wait != 0 {
		t.Errorf("0 requests: %v", wait)
	}
	free := rated(t, access.Rate{})
	if wait := free.Take(start) + free.Charge(start, 1e9); wait != 0 {
		t.Errorf("without a rate: %v", wait)
	}
	one := rated(t, access.Rate{PerSecond: 0.1})
	if one.Take(start) != 0 || one.Take(start).Round(time.Second) != 10*time.Second {
		t.Error("no request in ten seconds")
	}
}

func TestUsers(t *testing.T) {
	now := time.Now()
	if access.NewUsers(access.Rate{}).Take("a", now, 1) != 0 {
		t.Error("the zero rate limits a user")
	}
	u := access.NewUsers(access.Rate{PerSecond: 1, Burst: 2})
	for _, user := range []string{"a", "b"} {
		for i, want := range []time.Duration{0, 0, time.Second} {
			if wait := u.Take(user, now, 1).Round(time.Millisecond); wait != want {
				t.Errorf("%s, request %d: wait %v, want %v", user, i, wait, want)
			}
		}
	}
	if u.Take("a", now.Add(time.Second), 1) != 0 || u.Take("a", now.Add(time.Second), 1) == 0 {
		t.Error("no request after a second")
	}
	// The user is remembered after 60,000 others.
	for i := range 60_000 {
		u.Take(fmt.Sprint("other", i), now, 1)
	}
	if u.Take("b", now, 1) == 0 {
		t.Error("the user was forgotten too soon")
	}
}

func TestThrottle(t *testing.T) {
	th, now := access.NewThrottle(), time.Now()
	passed := 0
	for range 1000 {
		if suppressed, ok := th.Pass(now); ok {
			passed++
			if suppressed != 0 {
				t.Errorf("%d suppressed", suppressed)
			}
		}
	}
	if suppressed, ok := th.Pass(now.Add(time.Second)); passed != 10 || !ok || suppressed != 990 {
		t.Errorf("%d passed; a second later %v with %d suppressed", passed, ok, suppressed)
	}
	if _, ok := th.Pass(now.Add(time.Second)); ok {
		t.Error("two lines in one second")
	}
}

// TestTakeAtOnce checks that concurrent requests together get no more than the rate.
func TestTakeAtOnce(t *testing.T) {
	k, u, now := rated(t, access.Rate{PerSecond: 1, Burst: 50}), access.NewUsers(access.Rate{PerSecond: 1, Burst: 30}), time.Now()
	var mu sync.Mutex
	let := [2]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				a, b := k.Take(now), u.Take("a", now, 1)
				mu.Lock()
				if a == 0 {
					let[0]++
				}
				if b == 0 {
					let[1]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if let != [2]int{50, 30} {
		t.Errorf("%v, want 50 and 30", let)
	}
}

// TestSetRate changes both rates while they are in use.
func TestSetRate(t *testing.T) {
	now := time.Now()
	u := access.NewUsers(access.Rate{})
	free := u.Take("a", now, 1) + u.Take("a", now, 1)
	one := access.Rate{PerSecond: 1}
	u.SetRate(one)
	if free != 0 || u.Take("a", now, 1) != 0 || u.Take("a", now, 1) == 0 {
		t.Error("the new rate is not in force")
	}
	u.SetRate(one)
	if u.Take("a", now, 1) == 0 {
		t.Error("setting the same rate reset its use")
	}
	u.SetRate(access.Rate{PerSecond: 1, Burst: 3})
	if u.Take("a", now, 1)+u.Take("a", now, 1)+u.Take("a", now, 1) != 0 || u.Take("a", now, 1) == 0 {
		t.Error("fewer than three requests at once")
	}
	u.SetRate(access.Rate{})
	if u.Take("a", now, 1) != 0 {
		t.Error("the rate still applies")
	}

	own := strings.TrimSuffix(entry("own", "own", `"feed:read"`), "}") + `,"rate":1,"burst":2}`
	tokens, file, _ := opened(t, access.TokensConfig{}, fileOf(entry("a", "a", `"feed:read"`), own))
	passed := func(token string) (n int) {
		k, err := tokens.Check([]string{"Bearer " + token})
		must(t, err)
		for n < 10 && k.Take(now) == 0 {
			n++
		}
		return n
	}
	got := []int{passed("a"), passed("own")}
	tokens.SetRate(access.Rate{PerSecond: 1, Burst: 5})
	got = append(got, passed("a"), passed("own"))
	tokens.SetRate(access.Rate{PerSecond: 1, Burst: 5})
	got = append(got, passed("a"))
	write(t, file, fileOf(own, entry("b", "b", `"feed:read"`)))
	must(t, tokens.Reload(t.Context()))
	got = append(got, passed("b"))
	if want := []int{10, 2, 5, 0, 0, 5}; !slices.Equal(got, want) {
		t.Errorf("%v requests passed, want %v", got, want)
	}
}
