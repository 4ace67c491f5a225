package storetest

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// FilterModel compares a favfilter.Filter on an empty store with a plain set. Each call is one
// example of a property. It checks that outcomes are right. Keys that were added, and were not
// false positives before, must be reported until they are removed.
func FilterModel(t *rapid.T, store favfilter.Store) {
	f, err := favfilter.Open(t.Context(), store, favfilter.Config{
		Capacity: rapid.IntRange(1, 300).Draw(t, "capacity"),
		Pages:    rapid.SampledFrom([]uint32{1, 2, 8}).Draw(t, "pages"),
		Seed:     rapid.Uint64().Draw(t, "seed"),
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &filterModel{filter: f, added: map[string]bool{}}
	t.Repeat(map[string]func(*rapid.T){"add": m.add, "remove": m.remove, "": m.check})
}

type filterModel struct {
	filter *favfilter.Filter
	added  map[string]bool
}

func (m *filterModel) add(t *rapid.T) {
	from := rapid.IntRange(0, mostKeys-30).Draw(t, "first key")
	keys := make([]string, rapid.IntRange(0, 30).Draw(t, "keys"))
	for i := range keys {
		keys[i] = modelKey(from + i)
	}
	outcomes, err := m.filter.Add(t.Context(), keys...)
	full := slices.Contains(outcomes, favfilter.Full)
	if (err != nil) != full || len(outcomes) != len(keys) {
		t.Fatalf("add: %v, %v", outcomes, err)
	}
	for i, o := range outcomes {
		switch {
		case m.added[keys[i]] && o != favfilter.Present:
			t.Fatalf("%s, added before, is %v", keys[i], o)
		case o == favfilter.Added:
			m.added[keys[i]] = true
		case o != favfilter.Present && o != favfilter.Full:
			t.Fatalf("%s is %v", keys[i], o)
		}
	}
}

// remove removes keys that are in the filter. Removing others could lose keys.
func (m *filterModel) remove(t *rapid.T) {
	if len(m.added) == 0 {
		return
	}
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(m.added))), 1, min(len(m.added), 30), rapid.ID[string]).Draw(t, "keys")
	outcomes, err := m.filter.Remove(t.Context(), keys...)
	if err != nil || len(outcomes) != len(keys) {
		t.Fatalf("remove: %v, %v", outcomes, err)
	}
	for i, o := range outcomes {
		if o != favfilter.Removed && o != favfilter.Stuck {
			t.Fatalf("%s, added before, is %v", keys[i], o)
		}
		delete(m.added, keys[i])
	}
}

// check looks up every key, in another order than they were added.
func (m *filterModel) check(t *rapid.T) {
	keys := make([]string, mostKeys)
	for i := range keys {
		keys[i] = modelKey(mostKeys - 1 - i)
	}
	found, err := m.filter.Contains(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	for i, ok := range found {
		if !ok && m.added[keys[i]] {
			t.Fatalf("%s was lost", keys[i])
		}
	}
}

// mostKeys is the number of keys of a model.
const mostKeys = 430

func modelKey(i int) string { return fmt.Sprintf("U%d_P%d", i/10, i%10) }
