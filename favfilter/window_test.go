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

func TestWindow(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		at := newClock()
		open := func(pages uint32) *favfilter.Window {
			t.Helper()
			w, err := favfilter.OpenWindow(store, favfilter.WindowConfig{
				Length: 6 * time.Hour, Pages: pages, Seed: 3, Now: func() time.Time { return at.now },
				PageBy: func(key string) string { user, _, _ := strings.Cut(key, "_"); return user },
			})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		w := open(4)
		var keys []string
		for i := range 400 {
			keys = append(keys, fmt.Sprintf("U%d_P%d", i%9, i))
		}
		want := func(keys []string, some bool) {
			t.Helper()
			found, err := w.Contains(t.Context(), keys...)
			if err != nil || slices.Contains(found, !some) {
				t.Errorf("found %v, %v, want all %v", found, err, some)
			}
		}
		want(keys, false)
		outcomes, err := w.Add(t.Context(), append(keys, keys[0])...)
		if err != nil || outcomes[400] != favfilter.Present || slices.Contains(outcomes[:400], favfilter.Present) {
			t.Fatalf("%v, %v", outcomes, err)
		}
		want(keys, true)
		if n, err := w.Count(t.Context()); n != 400 || err != nil {
			t.Errorf("%d keys, %v", n, err)
		}
		at.now = at.now.Add(5 * time.Hour)
		if _, err := w.Add(t.Context(), keys[:50]...); err != nil {
			t.Fatal(err)
		}
		w = open(4) // another process
		want(keys, true)
		at.now = at.now.Add(2 * time.Hour)
		want(keys[:50], true)
		want(keys[50:], false)
		if n, err := w.Count(t.Context()); n != 50 || err != nil {
			t.Errorf("%d keys, %v", n, err)
		}
		if found, err := w.Contains(t.Context()); len(found) != 0 || err != nil {
			t.Errorf("no keys: %v, %v", found, err)
		}
		w = open(8)
		want(keys, false)
	})
}

func TestWindowRefuses(t *testing.T) {
	for _, c := range []favfilter.WindowConfig{{}, {Length: time.Hour, Pages: 3}, {Length: time.Hour, Parts: -1}} {
		if w, err := favfilter.OpenWindow(&favfilter.Memory{}, c); err == nil || w != nil {
			t.Errorf("%+v is taken", c)
		}
	}
	w, err := favfilter.OpenWindow(brokenStore{}, favfilter.WindowConfig{Length: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(t.Context(), "a"); !errors.Is(err, errBroken) {
		t.Errorf("add: %v", err)
	}
	if _, err := w.Contains(t.Context(), "a"); !errors.Is(err, errBroken) {
		t.Errorf("contains: %v", err)
	}
	if _, err := w.Count(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("count: %v", err)
	}
}

var errBroken = errors.New("broken")

// brokenStore is an unreachable store.
type brokenStore struct{ favfilter.Store }

func (brokenStore) Load(context.Context, []favfilter.PageID) ([]favfilter.Loaded, error) {
	return nil, errBroken
}

func (brokenStore) Peek(context.Context, []favfilter.PageID) ([]favfilter.Status, error) {
	return nil, errBroken
}
