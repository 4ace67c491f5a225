package favfilter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// faultyStore passes calls on to a store, and records them. Calls about one page fail as it is
// instructed.
type faultyStore struct {
	favfilter.Store

	loads, applies int // numbers of calls; not for concurrent use
	pages          int // pages of the last Load or Apply

	page     uint32          // the page that fails
	down     error           // reads and changes fail
	damage   error           // reads report this damage
	unheard  error           // Apply works, but the answer is lost
	replaced error           // Replace fails
	state    favfilter.State // Apply returns this state, and applies nothing
}

func (s *faultyStore) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	s.loads++
	s.pages = len(ids)
	var versions []favfilter.Version
	loaded, err := s.load(ctx, ids, func(ctx context.Context, ids []favfilter.PageID) (l []favfilter.Loaded, err error) {
		l, versions, err = s.Store.Load(ctx, ids, held...)
		return l, err
	})
	return loaded, versions, err
}

func (s *faultyStore) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	if len(ids) > 64 {
		return nil, errors.New("too many pages at a time")
	}
	return s.load(ctx, ids, s.Store.LoadWhole)
}

func (s *faultyStore) load(
	ctx context.Context, ids []favfilter.PageID, read func(context.Context, []favfilter.PageID) ([]favfilter.Loaded, error),
) ([]favfilter.Loaded, error) {
	loaded, err := read(ctx, ids)
	if i := slices.Index(ids, favfilter.PageID{Number: s.page}); err == nil && i >= 0 {
		err = s.down
		if s.damage != nil {
			loaded[i] = favfilter.Loaded{Version: "damaged", Damage: s.damage}
		}
	}
	return loaded, err
}

func (s *faultyStore) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	statuses, err := s.Store.Peek(ctx, ids)
	i := slices.Index(ids, favfilter.PageID{Number: s.page})
	if err == nil && i >= 0 && (s.down != nil || s.damage != nil) {
		statuses[i] = favfilter.Status{Err: s.down, Damage: s.damage}
	}
	return statuses, err
}

func (s *faultyStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	s.applies++
	s.pages = len(batches)
	results := make([]favfilter.Result, len(batches))
	for i, b := range batches {
		if faulty := b.ID.Number == s.page; faulty && (s.down != nil || s.state != 0) {
			results[i] = favfilter.Result{Err: s.down, State: s.state}
			continue
		}
		results[i] = s.Store.Apply(ctx, []favfilter.Batch{b})[0]
		if s.unheard != nil {
			results[i] = favfilter.Result{Err: s.unheard}
		}
	}
	return results
}

func (s *faultyStore) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if s.replaced != nil {
		return false, s.replaced
	}
	return s.Store.Replace(ctx, r)
}

// With PageBy, any number of keys of one user takes one page and one call.
func TestPageByMakesOnePage(t *testing.T) {
	store := &faultyStore{Store: &favfilter.Memory{}}
	f := openFilter(t, store, favfilter.Config{Capacity: 100_000, Pages: 32, PageBy: byUser})
	keys := userKeys("U1", 1000)
	mustAdd(t, f, keys[0]) // creates the page
	for name, call := range map[string]func(){
		"Add":      func() { mustAdd(t, f, keys...) },
		"Contains": func() { mustContain(t, f, keys...) },
		"Remove":   func() { mustRemove(t, f, keys...) },
	} {
		store.loads, store.applies = 0, 0
		call()
		if store.loads+store.applies != 1 || store.pages != 1 {
			t.Errorf("%s of 1,000 keys: %d loads and %d applies, the last of %d pages", name, store.loads, store.applies, store.pages)
		}
	}
	store.loads = 0
	mustContain(t, f, append(keys, userKeys("U2", 1000)...)...)
	if store.loads != 1 || store.pages != 2 {
		t.Errorf("keys of two users: %d loads, of %d pages", store.loads, store.pages)
	}
}

// A page that the store loses is empty, and the next Add creates it again.
func TestFilterLosesAPage(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	store := &favfilter.Memory{Now: func() time.Time { return now }}
	f := openFilter(t, store, favfilter.Config{Capacity: 1000, Pages: 2, PageBy: byUser})
	keys := []string{keyOfPage(0, 2), keyOfPage(1, 2)}
	mustAdd(t, f, keys...)
	for number := range uint32(2) {
		lose(t, store, favfilter.PageID{Number: number}, func() { now = now.Add(time.Minute) })
		want := []bool{number != 0, number != 1}
		if found := mustContain(t, f, keys...); !slices.Equal(found, want) {
			t.Fatalf("page %d lost: found %v, want %v", number, found, want)
		}
		if got := mustRemove(t, f, keys[number]); got[0] != favfilter.Absent {
			t.Errorf("removal of a lost key: %v, want absent", got[0])
		}
		if got := mustAdd(t, f, keys...); got[number] != favfilter.Added || got[1-number] != favfilter.Present {
			t.Errorf("page %d lost: added again %v", number, got)
		}
	}
}

// lose stores the page again with a time to live, and lets that time pass.
func lose(t testing.TB, store favfilter.Store, id favfilter.PageID, pass func()) {
	t.Helper()
	l, _, err := store.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	replace(t, store, favfilter.Replacement{ID: id, Page: l[0].Page, Seen: l[0].Version, Expire: time.Second})
	pass()
}

func TestFilterOfADamagedPage(t *testing.T) {
	store := &faultyStore{Store: &favfilter.Memory{}}
	config := favfilter.Config{Capacity: 1000, Pages: 2, PageBy: byUser}
	f := openFilter(t, store, config)
	store.page, store.damage, store.state = 1, fmt.Errorf("page 1: %w", favfilter.ErrFormat), favfilter.Torn // the format is damage
	for call, err := range everyCall(t.Context(), f, keyOfPage(0, 2), keyOfPage(1, 2)) {
		if !errors.Is(err, favfilter.ErrDamaged) || !strings.Contains(err.Error(), "page 1") {
			t.Errorf("%s: error %v, want a damaged page 1", call, err)
		}
	}
	for call, err := range everyCall(t.Context(), f, keyOfPage(0, 2)) {
		if err != nil {
			t.Errorf("%s of the sound page: %v", call, err)
		}
	}
	store.page = 0
	_, err := favfilter.Open(t.Context(), store, config)
	if keep := f.Keep(t.Context()); !errors.Is(err, favfilter.ErrFormat) || !errors.Is(keep, favfilter.ErrFormat) {
		t.Errorf("page 0 of another format version: opened with %v, kept with %v", err, keep)
	}
}

// If one page fails, the outcomes of the others are valid, and 0 stands for keys in an unknown
// state.
func TestFilterFailsInPart(t *testing.T) {
	down := errors.New("node is down")
	store := &faultyStore{Store: &favfilter.Memory{}}
	f := openFilter(t, store, favfilter.Config{Capacity: 1000, Pages: 2, PageBy: byUser})
	keys := []string{keyOfPage(1, 2), keyOfPage(0, 2)}
	mustAdd(t, f, keys...)
	store.page, store.down = 1, down
	if got, err := f.Add(t.Context(), keys...); !errors.Is(err, down) || !slices.Equal(got, []favfilter.Outcome{0, favfilter.Present}) {
		t.Errorf("add: %v, %v", got, err)
	}
	if got, err := f.Remove(t.Context(), keys...); !errors.Is(err, down) || !slices.Equal(got, []favfilter.Outcome{0, favfilter.Removed}) {
		t.Errorf("remove: %v, %v", got, err)
	}
}

// If an answer is lost, the change remains; the retry finds it done and changes nothing.
func TestFilterRetries(t *testing.T) {
	reset := errors.New("connection reset")
	store := &faultyStore{Store: &favfilter.Memory{}}
	f := openFilter(t, store, favfilter.Config{Capacity: 1000})
	for _, c := range []struct {
		name  string
		call  func(context.Context, ...string) ([]favfilter.Outcome, error)
		again favfilter.Outcome
		found bool
	}{
		{"add", f.Add, favfilter.Present, true},
		{"remove", f.Remove, favfilter.Absent, false},
	} {
		store.unheard = reset
		if got, err := c.call(t.Context(), "key"); !errors.Is(err, reset) || got[0] != 0 {
			t.Errorf("%s: %v, %v, want the lost answer", c.name, got, err)
		}
		store.unheard = nil
		for range 3 {
			if got, err := c.call(t.Context(), "key"); err != nil || got[0] != c.again {
				t.Errorf("%s again: %v, %v, want %v", c.name, got, err, c.again)
			}
		}
		if found := mustContain(t, f, "key"); found[0] != c.found {
			t.Errorf("after %s and retries the key is contained: %v", c.name, found[0])
		}
	}
}

// If a store loses a page every time it is created, the filter gives up.
func TestFilterOfAStoreThatLosesEverything(t *testing.T) {
	store := &faultyStore{Store: &favfilter.Memory{}}
	f := openFilter(t, store, favfilter.Config{Capacity: 1000})
	store.state = favfilter.Missing
	if _, err := f.Add(t.Context(), "key"); err == nil || !strings.Contains(err.Error(), "page 0: missing again") {
		t.Errorf("error %v, want the page named", err)
	}
	full := errors.New("out of memory")
	store.replaced = full
	if _, err := f.Add(t.Context(), "key"); !errors.Is(err, full) {
		t.Errorf("error %v, want the error of creating the page", err)
	}
	if _, err := favfilter.Open(t.Context(), store, favfilter.Config{Capacity: 1000}); !errors.Is(err, full) {
		t.Errorf("opened: %v", err)
	}
}

func TestFilterHonoursTheContext(t *testing.T) {
	store := &favfilter.Memory{}
	f := openFilter(t, store, favfilter.Config{Capacity: 1000})
	mustAdd(t, f, "key")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range everyCall(ctx, f, "key", "other") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the context's error", call, err)
		}
	}
	if _, err := favfilter.Open(ctx, store, favfilter.Config{Capacity: 1000}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v, want the context's error", err)
	}
	if found := mustContain(t, f, "key", "other"); !slices.Equal(found, []bool{true, false}) {
		t.Errorf("calls with a canceled context changed the filter: %v", found)
	}
}

// Removing from a missing page does not create the page.
func TestRemoveMakesNoPage(t *testing.T) {
	m := &favfilter.Memory{}
	f := openFilter(t, m, favfilter.Config{Capacity: 1000, Pages: 2, PageBy: byUser})
	mustRemove(t, f, keyOfPage(1, 2))
	l, _, _ := m.Load(t.Context(), []favfilter.PageID{{Number: 1}})
	if l[0].Page != nil {
		t.Error("a removal made page 1")
	}
}

// A filter of format version 3 keeps it, so processes that read no later version go on. A new
// filter has version 4. Pages of both versions may be in one filter.
func TestFilterKeepsItsFormat(t *testing.T) {
	weigh := func(seed uint64, key string) favfilter.Hash { return weighted(favfilter.HashKey(seed, key), 5) }
	config := favfilter.Config{Capacity: 1000, Pages: 2, PageBy: byUser, Hash: weigh}
	keys := []string{keyOfPage(0, 2), keyOfPage(1, 2)}
	formats := func(store favfilter.Store) (uniform []bool, set uint32) {
		statuses, err := store.Peek(t.Context(), []favfilter.PageID{{Number: 0}, {Number: 1}})
		must(t, err)
		for _, st := range statuses {
			uniform, set = append(uniform, st.Header.Shape.Uniform), set+st.Header.Set
		}
		return uniform, set
	}
	store := &favfilter.Memory{}
	f := openFilter(t, store, config)
	mustAdd(t, f, keys...)
	k := pageIn(t, store, 0).Header().Shape.Hashes
	if uniform, set := formats(store); slices.Contains(uniform, true) || set != 2*uint32(k+5) {
		t.Errorf("a new filter: uniform %v, %d bits set by two keys", uniform, set)
	}

	store = &favfilter.Memory{}
	h := pageIn(t, storeOf(t, config), 0).Header()
	h.Shape.Uniform = true
	replace(t, store, favfilter.Replacement{Page: newPage(t, h)})
	f = openFilter(t, store, config)
	mustAdd(t, f, keys...)
	if uniform, set := formats(store); slices.Contains(uniform, false) || set != 2*uint32(k) {
		t.Errorf("a filter of format version 3: uniform %v, %d bits set by two keys", uniform, set)
	}
	h.Number, h.Shape.Uniform = 1, false // made while page 0 was lost
	seen := pageIn(t, store, 1).Header().Version()
	replace(t, store, favfilter.Replacement{ID: favfilter.PageID{Number: 1}, Page: newPage(t, h), Seen: seen})
	f = openFilter(t, store, config)
	mustAdd(t, f, keys...)
	if found := mustContain(t, f, keys...); slices.Contains(found, false) {
		t.Errorf("found %v in pages of both versions", found)
	}
	if got := mustRemove(t, f, keys...); !slices.Equal(got, []favfilter.Outcome{favfilter.Removed, favfilter.Removed}) {
		t.Errorf("removals: %v", got)
	}
}

// storeOf returns a store with the pages of a new filter.
func storeOf(t *testing.T, c favfilter.Config) favfilter.Store {
	t.Helper()
	store := &favfilter.Memory{}
	openFilter(t, store, c)
	return store
}

func pageIn(t *testing.T, store favfilter.Store, number uint32) *favfilter.Page {
	t.Helper()
	l, _, err := store.Load(t.Context(), []favfilter.PageID{{Number: number}})
	must(t, err)
	return l[0].Page
}
