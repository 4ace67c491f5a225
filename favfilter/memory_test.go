package favfilter_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Backend {
		var offset atomic.Int64
		m := &favfilter.Memory{Now: func() time.Time { return time.Unix(1_700_000_000, 0).Add(time.Duration(offset.Load())) }}
		return storetest.Backend{
			Store: m,
			Other: m,
			Strings: func(t testing.TB, id favfilter.PageID) ([]byte, []byte) {
				l, _, err := m.Load(t.Context(), []favfilter.PageID{id})
				must(t, err)
				if l[0].Page == nil {
					return l[0].Encode()
				}
				return l[0].Page.Clone().Encode()
			},
			Advance: func(testing.TB) { offset.Add(storetest.Expire) },
		}
	})
}

// Any number of goroutines may encode the same unchanged page. The race detector checks this.
func TestEncodeOfASharedPage(t *testing.T) {
	m := &favfilter.Memory{}
	openFilter(t, m, favfilter.Config{Capacity: 10})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			l, _, _ := m.Load(t.Context(), []favfilter.PageID{{}})
			l[0].Page.Encode()
		})
	}
	wg.Wait()
}

// Expired pages are dropped from memory.
func TestMemoryDropsExpiredPages(t *testing.T) {
	now := time.Unix(0, 0)
	m := &favfilter.Memory{Now: func() time.Time { return now }}
	s := shapeFor(t, 10, 0.001)
	s.Bits = 8 << 20 // 1 MiB
	before := heap()
	for i := range 64 {
		now = now.Add(time.Hour)
		p := newPage(t, favfilter.Header{Identity: favfilter.Identity{Pages: 1}, Shape: s})
		replace(t, m, favfilter.Replacement{ID: favfilter.PageID{Part: fmt.Sprint("w", i)}, Page: p, Expire: time.Second})
	}
	if grown := heap() - before; grown > 32<<20 {
		t.Errorf("%d MiB of expired pages are still held", grown>>20)
	}
	runtime.KeepAlive(m)
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func isPart(id favfilter.PageID) bool { return id.Part != "" }

// put stores an empty page of a filter of one page under the part.
func put(t *testing.T, m *favfilter.Memory, part string, expire time.Duration) {
	t.Helper()
	p := emptyPage(t, shapeFor(t, 10, 0.001))
	replace(t, m, favfilter.Replacement{ID: favfilter.PageID{Part: part}, Page: p, Newer: true, Expire: expire})
}

func add(t *testing.T, m *favfilter.Memory, part string, h favfilter.Hash) {
	t.Helper()
	b := favfilter.Batch{ID: favfilter.PageID{Part: part}, Identity: favfilter.Identity{Pages: 1}, Add: []favfilter.Hash{h}}
	if res := m.Apply(t.Context(), []favfilter.Batch{b})[0]; res.State != favfilter.Applied {
		t.Fatalf("add to %q: %v, %v", part, res.State, res.Err)
	}
}

func wantChanged(t *testing.T, m *favfilter.Memory, parts ...string) {
	t.Helper()
	var got []string
	for id := range m.Changed() {
		got = append(got, id.Part)
	}
	slices.Sort(got)
	if !slices.Equal(got, parts) {
		t.Errorf("changed: %q, want %q", got, parts)
	}
}

func TestMemoryTellsWhatChanged(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	m := &favfilter.Memory{Now: func() time.Time { return now }}
	put(t, m, "", 0)
	put(t, m, "before", 0)
	wantChanged(t, m)
	m.Track(isPart)
	wantChanged(t, m, "before")
	wantChanged(t, m)

	put(t, m, "a", time.Hour)
	put(t, m, "b", time.Hour)
	add(t, m, "a", favfilter.Hash{H1: 1})
	add(t, m, "", favfilter.Hash{H1: 1})
	wantChanged(t, m, "a", "b")
	add(t, m, "a", favfilter.Hash{H1: 1}) // present: nothing changes
	wantChanged(t, m)
	add(t, m, "a", favfilter.Hash{H1: 1 << 63})
	wantChanged(t, m, "a")

	// Expired pages are reported when they are dropped.
	now = now.Add(time.Hour)
	for i := range 5 {
		put(t, m, fmt.Sprint("later", i), time.Hour)
	}
	wantChanged(t, m, "b", "later0", "later1", "later2", "later3", "later4")
	m.Track(isPart)
	wantChanged(t, m, "a", "before", "later0", "later1", "later2", "later3", "later4")
}

func TestMemoryRestore(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	from, m := &favfilter.Memory{Now: clock}, &favfilter.Memory{Now: clock}
	m.Track(isPart)
	key := favfilter.Hash{H1: 1}
	put(t, from, "short", time.Minute)
	put(t, from, "long", time.Hour)
	put(t, from, "ever", 0)
	add(t, from, "ever", key)
	for _, part := range []string{"short", "long", "ever"} {
		id := favfilter.PageID{Part: part}
		stored, expires := from.Get(id)
		if !m.Restore(id, stored, expires) {
			t.Errorf("%q was not restored", part)
		}
		if m.Restore(id, favfilter.Loaded{Page: emptyPage(t, stored.Page.Header().Shape), Version: "another"}, expires) {
			t.Errorf("%q was restored twice", part)
		}
	}
	wantChanged(t, m)
	for _, c := range []struct {
		after time.Duration
		left  []string
	}{{0, []string{"ever", "long", "short"}}, {time.Minute, []string{"ever", "long"}}, {time.Hour, []string{"ever"}}} {
		now = time.Unix(1_700_000_000, 0).Add(c.after)
		var left []string
		for _, part := range []string{"ever", "long", "short"} {
			id := favfilter.PageID{Part: part}
			if stored, _ := m.Get(id); stored.Page != nil && stored.Page.Contains(key) == (part == "ever") {
				left = append(left, part)
			}
		}
		if !slices.Equal(left, c.left) {
			t.Errorf("after %v: %q are left, want %q", c.after, left, c.left)
		}
	}
	stored, _ := from.Get(favfilter.PageID{Part: "ever"})
	if m.Restore(favfilter.PageID{Part: "late"}, stored, now) {
		t.Error("a page that has expired was restored")
	}
	add(t, m, "ever", favfilter.Hash{H1: 1 << 63})
	wantChanged(t, m, "ever")
}
