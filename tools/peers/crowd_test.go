package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const crowdPages = 8

// crowdOf makes a population in which some users have a dedicated page, a subject without
// activities, and the crowd of that population.
func crowdOf(t *testing.T, store favfilter.Store) (*bench.Subject, *crowd) {
	t.Helper()
	people, err := bench.NewPopulation(300, 20_000, 5)
	if err != nil {
		t.Fatal(err)
	}
	join(people, maxSharedKeys*3) // not a viewer, because the next join replaces the viewers
	join(people, maxSharedKeys*2, 1, 100, maxSharedKeys-400)
	subject, err := bench.OpenSubject(t.Context(), bench.SubjectConfig{Store: store, File: filepath.Join(t.TempDir(), "l.db"), Pages: crowdPages})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := subject.Close(); err != nil {
			t.Error(err)
		}
	})
	c := newCrowd(people, subject.Identity())
	if len(c.own) < 2 || c.heavy(people.Viewers[3]) {
		t.Fatalf("%d users have a dedicated page", len(c.own))
	}
	return subject, c
}

// TestCrowdIsWhatAnImportMakes checks that the pages of a crowd have the same keys and bits as
// those of an import.
func TestCrowdIsWhatAnImportMakes(t *testing.T) {
	imported, made := &favfilter.Memory{}, &favfilter.Memory{}
	subject, c := crowdOf(t, imported)
	if err := subject.Record(t.Context(), c.people.Activities()); err != nil {
		t.Fatal(err)
	}
	if err := c.put(t.Context(), made, nil); err != nil {
		t.Fatal(err)
	}
	var ids []favfilter.PageID
	for page := range uint32(crowdPages) {
		ids = append(ids, favfilter.PageID{Number: page})
	}
	want, got := peek(t, imported, ids), peek(t, made, ids)
	for i := range ids {
		w, g := want[i].Header, got[i].Header
		if g.Count != w.Count || g.Set != w.Set || g.Shape != w.Shape || w.Count == 0 {
			t.Errorf("page %d: %d keys, %d bits set of %d, want %d, %d of %d", i, g.Count, g.Set, g.Shape.Bits, w.Count, w.Set, w.Shape.Bits)
		}
		if int(g.Count) != c.keys[i] {
			t.Errorf("page %d: the crowd counts %d keys, the page has %d", i, c.keys[i], g.Count)
		}
	}
	for _, u := range c.own {
		var owns []favfilter.PageID
		for n := range len(c.own) {
			owns = append(owns, favfilter.PageID{Number: c.page[u], Part: "p" + strconv.Itoa(1<<31+n)})
		}
		statuses, err := imported.Peek(t.Context(), owns)
		if err != nil || !slices.ContainsFunc(statuses, func(s favfilter.Status) bool { return int(s.Header.Count) == c.held(int(u)) }) {
			t.Errorf("user %d has no dedicated page with %d keys: %+v, %v", u, c.held(int(u)), statuses, err)
		}
	}
}

func peek(t *testing.T, store favfilter.Store, ids []favfilter.PageID) []favfilter.Status {
	t.Helper()
	statuses, err := store.Peek(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range statuses {
		if s.Missing || s.Damage != nil {
			t.Fatalf("page %v: %+v", ids[i], s)
		}
	}
	return statuses
}

// TestViewersPagesAreBelieved stores only the shared pages of viewers. Their feeds must be read
// from these pages without a rebuild, with all keys of other users.
func TestViewersPagesAreBelieved(t *testing.T) {
	store := &favfilter.Memory{}
	subject, c := crowdOf(t, store)
	if err := subject.Record(t.Context(), ofViewers(c.people)); err != nil {
		t.Fatal(err)
	}
	if err := c.put(t.Context(), store, c.viewersPages()); err != nil {
		t.Fatal(err)
	}
	if err := subject.Record(t.Context(), c.people.Seen()); err != nil {
		t.Fatal(err)
	}
	before := subject.Recorder.Stats().Rebuilds
	if err := verify(t.Context(), subject, c.people.Feeds(growthFeed)); err != nil {
		t.Error(err)
	}
	if after := subject.Recorder.Stats().Rebuilds; !maps.Equal(after, before) {
		t.Errorf("pages were rebuilt: %v", after)
	}
	hide, _ := subject.Recorder.Kinds().Named(bench.Hide)
	for _, u := range c.people.Viewers {
		v, err := subject.Recorder.View(t.Context(), bench.UserID(u), []activity.Kind{hide})
		if err != nil {
			t.Fatal(err)
		}
		want := c.keys[c.page[u]]
		if c.heavy(u) {
			want = c.held(u)
		}
		if v.Page().Keys != want {
			t.Errorf("viewer %d reads %d keys, want %d", u, v.Page().Keys, want)
		}
	}
}

// TestCrowdMemory checks that the computed memory is close to what Redis uses.
func TestCrowdMemory(t *testing.T) {
	client := redistest.Start(t).Client()
	store, err := redisstore.New(client, "crowd")
	if err != nil {
		t.Fatal(err)
	}
	subject, c := crowdOf(t, store)
	if err := subject.Record(t.Context(), ofViewers(c.people)); err != nil {
		t.Fatal(err)
	}
	if err := c.put(t.Context(), store, nil); err != nil {
		t.Fatal(err)
	}
	computed, err := c.memory("crowd")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := client.Keys(t.Context(), "fav:{crowd/*").Result()
	if err != nil || len(keys) != 2*(crowdPages+len(c.own)) {
		t.Fatalf("%d strings, %v", len(keys), err)
	}
	used := int64(0)
	for _, key := range keys {
		n, err := client.MemoryUsage(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		used += n
	}
	if share := computed / float64(used); share < 0.98 || share > 1.05 {
		t.Errorf("computed %.0f bytes, Redis has %d", computed, used)
	}
}
