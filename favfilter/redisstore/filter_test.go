package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func openFilter(t testing.TB, store favfilter.Store, c favfilter.Config) *favfilter.Filter {
	t.Helper()
	f, err := favfilter.Open(t.Context(), store, c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func userKeys(user string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s_P%d", user, i)
	}
	return keys
}

func byUser(key string) string {
	user, _, _ := strings.Cut(key, "_")
	return user
}

func TestFilterModel(t *testing.T) {
	client := redistest.Start(t).Client()
	var opened atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		storetest.FilterModel(rt, openStore(t, client, fmt.Sprintf("model-%d", opened.Add(1))))
	})
}

// Outcomes are in the order of the keys, even if one call changes some pages by script and others
// by compare-and-swap.
func TestFilterKeepsTheOrderOfKeys(t *testing.T) {
	client := redistest.Start(t).Client()
	f := openFilter(t, openStore(t, client, "order"), favfilter.Config{Capacity: 4000, Pages: 16, PageBy: byUser})
	keys := slices.Concat(userKeys("U1", 100), userKeys("U2", 3), userKeys("U3", 40), userKeys("U4", 1))
	var odd []string
	for i := 1; i < len(keys); i += 2 {
		odd = append(odd, keys[i])
	}
	if _, err := f.Add(t.Context(), odd...); err != nil {
		t.Fatal(err)
	}
	outcomes, err := f.Add(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if want := []favfilter.Outcome{favfilter.Added, favfilter.Present}[i%2]; o != want {
			t.Errorf("%s is %v, want %v", keys[i], o, want)
		}
	}
	if _, err := f.Remove(t.Context(), odd...); err != nil {
		t.Fatal(err)
	}
	found, err := f.Contains(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range found {
		if want := i%2 == 0; got != want {
			t.Errorf("%s is contained: %v", keys[i], got)
		}
	}
}

// A lookup of any number of keys of one user is one command.
func TestFilterReadsOnePage(t *testing.T) {
	server := redistest.Start(t)
	f := openFilter(t, openStore(t, server.Client(), "user"), favfilter.Config{Capacity: 100_000, PageBy: byUser})
	keys := userKeys("U1", 2000)
	if _, err := f.Add(t.Context(), keys[:20]...); err != nil {
		t.Fatal(err)
	}
	got := commandsOf(server, func() {
		if _, err := f.Contains(t.Context(), keys...); err != nil {
			t.Error(err)
		}
	})
	if len(got) != 1 || got["mget"] != 1 {
		t.Errorf("commands %v, want one", got)
	}
}

// A lost page is empty, and Add creates it again. A damaged page makes every call fail until it is
// deleted.
func TestFilterOfALostOrDamagedPage(t *testing.T) {
	client := redistest.Start(t).Client()
	f := openFilter(t, openStore(t, client, "loss"), favfilter.Config{Capacity: 1000, Pages: 1})
	add := func(want favfilter.Outcome) {
		t.Helper()
		if got, err := f.Add(t.Context(), "key"); err != nil || got[0] != want {
			t.Fatalf("add: %v, %v, want %v", got, err, want)
		}
	}
	const bits, regions = "fav:{loss/0}:bits", "fav:{loss/0}:regions"
	add(favfilter.Added)
	must(t, client.Del(t.Context(), bits, regions))
	add(favfilter.Added)
	must(t, client.Del(t.Context(), bits)) // the regions string of the old page stays
	add(favfilter.Added)
	add(favfilter.Present)
	for name, damage := range map[string]func(){
		"the header overwritten": func() { must(t, client.SetRange(t.Context(), bits, 4, "\xff\xff")) },
		"the bits cut short":     func() { must(t, client.Set(t.Context(), bits, "FAV\x03", 0)) },
		"not a page":             func() { must(t, client.Set(t.Context(), bits, strings.Repeat("x", 3000), 0)) },
	} {
		damage()
		_, addErr := f.Add(t.Context(), "key")
		_, manyErr := f.Add(t.Context(), userKeys("U1", 50)...)
		_, removeErr := f.Remove(t.Context(), "key")
		_, containsErr := f.Contains(t.Context(), "key")
		for call, err := range map[string]error{"Add": addErr, "Add of 50": manyErr, "Remove": removeErr, "Contains": containsErr} {
			if !errors.Is(err, favfilter.ErrDamaged) || !strings.Contains(err.Error(), "page 0") {
				t.Errorf("%s, %s: error %v, want a damaged page 0", name, call, err)
			}
		}
		must(t, client.Del(t.Context(), bits, regions))
		add(favfilter.Added)
	}
	must(t, client.Del(t.Context(), regions)) // reads need only the bits string
	if _, err := f.Add(t.Context(), "other"); !errors.Is(err, favfilter.ErrDamaged) {
		t.Errorf("without its regions string the page is changed: %v", err)
	}
	if found, err := f.Contains(t.Context(), "key"); err != nil || !found[0] {
		t.Errorf("without its regions string the page is read: %v, %v", found, err)
	}
}

// Every call refuses a filter of another format version: it cannot be rebuilt.
func TestFilterOfAnotherFormat(t *testing.T) {
	client := redistest.Start(t).Client()
	f := openFilter(t, openStore(t, client, "old"), favfilter.Config{Capacity: 1000, Pages: 1})
	if _, err := f.Add(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	const bits = "fav:{old/0}:bits"
	raw, err := client.Get(t.Context(), bits).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	old := storetest.AsFormat(raw, 2)
	must(t, client.Set(t.Context(), bits, old, 0))
	_, openErr := favfilter.Open(t.Context(), openStore(t, client, "old"), favfilter.Config{Capacity: 1000, Pages: 1})
	_, containsErr := f.Contains(t.Context(), "key")
	for call, err := range map[string]error{"Open": openErr, "Contains": containsErr, "Keep": f.Keep(t.Context())} {
		if !errors.Is(err, favfilter.ErrFormat) || !strings.Contains(err.Error(), "another format version: 2, this version reads 3") {
			t.Errorf("%s: error %v, want ErrFormat", call, err)
		}
	}
	for _, keys := range [][]string{{"other"}, userKeys("U1", 50)} {
		if _, err := f.Add(t.Context(), keys...); !errors.Is(err, favfilter.ErrDamaged) {
			t.Errorf("%d keys are added: %v", len(keys), err)
		}
		if _, err := f.Remove(t.Context(), keys...); !errors.Is(err, favfilter.ErrDamaged) {
			t.Errorf("%d keys are removed: %v", len(keys), err)
		}
	}
	if got, err := client.Get(t.Context(), bits).Bytes(); err != nil || !slices.Equal(got, old) {
		t.Errorf("the old page was changed: %v", err)
	}
}

func must(t testing.TB, cmd redis.Cmder) {
	t.Helper()
	if err := cmd.Err(); err != nil {
		t.Fatal(err)
	}
}

// Writers in several processes, each with its own client and store, change the same page by script
// and by compare-and-swap: no key is lost.
func TestFilterRacing(t *testing.T) {
	server := redistest.Start(t)
	const writers, rounds = 8, 25
	kept := make([][]string, writers)
	var wg sync.WaitGroup
	for w := range writers {
		f := openFilter(t, openStore(t, dial(t, server.Addr()), "race"), favfilter.Config{Capacity: 8000, Pages: 2})
		wg.Go(func() {
			for r := range rounds {
				keys := userKeys(fmt.Sprintf("U%d-%d", w, r), 1+39*(r%2))
				outcomes, err := f.Add(t.Context(), keys...)
				if err != nil {
					t.Error(err)
					return
				}
				var undo []string
				for i, o := range outcomes {
					switch {
					case o != favfilter.Added: // a false positive, so this writer must not remove it
					case i%3 == 0:
						kept[w] = append(kept[w], keys[i])
					default:
						undo = append(undo, keys[i])
					}
				}
				if _, err := f.Remove(t.Context(), undo...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f := openFilter(t, openStore(t, server.Client(), "race"), favfilter.Config{Capacity: 8000, Pages: 2})
	for w, keys := range kept {
		found, err := f.Contains(t.Context(), keys...)
		if err != nil || slices.Contains(found, false) {
			t.Errorf("writer %d lost a key of %d: %v", w, len(keys), err)
		}
	}
}

// Writers in several processes make one page grow, by batches of one key and of many. No key is
// lost, even if other writers overtake a swap.
func TestFilterRacingGrowth(t *testing.T) {
	server := redistest.Start(t)
	const writers, rounds = 6, 30
	config := favfilter.Config{Capacity: 10, Pages: 1}
	var wg sync.WaitGroup
	keysOf := func(w, r int) []string { return userKeys(fmt.Sprintf("U%d-%d", w, r), 1+19*(r%2)) }
	for w := range writers {
		f := openFilter(t, openStore(t, dial(t, server.Addr()), "growth"), config)
		wg.Go(func() {
			for r := range rounds {
				if _, err := f.Add(t.Context(), keysOf(w, r)...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	store := openStore(t, server.Client(), "growth")
	f := openFilter(t, store, config)
	for w := range writers {
		for r := range rounds {
			if found, err := f.Contains(t.Context(), keysOf(w, r)...); err != nil || slices.Contains(found, false) {
				t.Errorf("writer %d lost a key of round %d: %v", w, r, err)
			}
		}
	}
	l, err := store.Load(t.Context(), []favfilter.PageID{{}})
	if err != nil || l[0].Page.Header().Grown < 3 || l[0].Page.FalsePositiveRate() > 0.001 {
		t.Errorf("%+v, %v", l[0], err)
	}
}
