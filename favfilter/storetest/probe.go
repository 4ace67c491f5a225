package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// probed checks that a probe finds exactly the keys that the page reports, and leaves elements of
// found set that were set before.
func probed(t *testing.T, b Backend) {
	for _, h := range []favfilter.Header{header(40, 3000), oneHash(header(41, 200))} {
		id := favfilter.PageID{Number: h.Number, Part: "own-1"}
		create(t, b.Store, id, h)
		apply(t, b.Store, favfilter.Batch{ID: id, Add: hashes(0, 2000)})
		loaded, err := b.Store.Load(t.Context(), []favfilter.PageID{id})
		if err != nil || loaded[0].Page == nil {
			t.Fatal(loaded, err)
		}
		page := loaded[0].Page
		keys := hashes(1000, 3000) // a third of them are in the page
		want, got := make([]bool, len(keys)), make([]bool, len(keys))
		for i, key := range keys {
			want[i] = page.Contains(key)
		}
		want[2999], got[2999] = true, true // set before the call
		sequence, ok, err := b.Store.Probe(t.Context(), id, page.Header(), keys, got)
		if err != nil || !ok || sequence != page.Header().Sequence {
			t.Fatalf("probed: sequence %d, %v, %v; the page stands at %d", sequence, ok, err, page.Header().Sequence)
		}
		if !slices.Equal(got, want) {
			t.Errorf("page of %+v: found is not what the page contains", h.Shape)
		}
		later := apply(t, b.Store, favfilter.Batch{ID: id, Add: hashes(5000, 1)})
		one := make([]bool, 1)
		sequence, ok, err = b.Store.Probe(t.Context(), id, page.Header(), hashes(5000, 1), one)
		if err != nil || !ok || !one[0] || sequence != later.Header.Sequence {
			t.Errorf("after a change: found %v, sequence %d, %v, %v", one, sequence, ok, err)
		}
		if sequence, ok, err = b.Store.Probe(t.Context(), id, page.Header(), nil, nil); err != nil || !ok || sequence != later.Header.Sequence {
			t.Errorf("probed for nothing: sequence %d, %v, %v", sequence, ok, err)
		}
	}
}

// oneHash returns the header with a single bit for each key.
func oneHash(h favfilter.Header) favfilter.Header {
	h.Shape.Hashes = 1
	return h
}

// probedOther checks that a probe notices a page that is missing or has another build than the
// known header.
func probedOther(t *testing.T, b Backend) {
	id, h := favfilter.PageID{Number: 40}, header(40, 100)
	probe := func(what string, want bool) {
		t.Helper()
		found := make([]bool, 1)
		_, ok, err := b.Store.Probe(t.Context(), id, h, hashes(0, 1), found)
		if err != nil || ok != want || found[0] != want {
			t.Errorf("%s: %v, found %v, %v", what, ok, found, err)
		}
	}
	probe("missing", false)
	create(t, b.Store, id, h)
	apply(t, b.Store, favfilter.Batch{ID: id, Add: hashes(0, 1)})
	probe("as known", true)
	h.Build++
	probe("another build", false)
	h.Build--
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok, err := b.Store.Probe(ctx, id, h, hashes(0, 1), make([]bool, 1)); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("probed with a cancelled context: %v, %v", ok, err)
	}
}

// probedWhileReplaced probes while a writer replaces the page by others with the same keys and
// different bits. A probe that answers must not miss a key.
func probedWhileReplaced(t *testing.T, b Backend) {
	id, keys := favfilter.PageID{Number: 40}, hashes(0, 600)
	version := favfilter.Version("")
	put := func(n int) {
		h := header(40, 600+n%7*100)
		h.Build, h.Sequence = uint64(n+1), uint64(n+1)
		page := newPage(t, h)
		for _, key := range keys {
			page.Insert(key)
		}
		raw, _ := page.Encode()
		done, err := b.Store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: page, Seen: version})
		if err != nil || !done {
			t.Errorf("replaced: %v, %v", done, err)
		}
		version = favfilter.Version(raw[:favfilter.HeaderBytes])
	}
	put(0)
	rounds, stop := b.rounds(300), make(chan struct{})
	go func() {
		defer close(stop)
		for n := 1; n <= rounds; n++ {
			put(n)
		}
	}()
	answered := 0
	for over := false; !over; {
		select {
		case <-stop:
			over = true
		default:
		}
		st := peek(t, b.Store, id)[0]
		found := make([]bool, len(keys))
		_, ok, err := b.Store.Probe(t.Context(), id, st.Header, keys, found)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			answered++
		}
		if ok && slices.Contains(found, false) {
			t.Fatalf("a key is missed in a page of %+v", st.Header)
		}
	}
	if answered == 0 {
		t.Error("no probe was answered, not even the last")
	}
}
