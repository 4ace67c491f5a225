package redisstore_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// The names of a page's strings are part of the format: other versions and other tools find the
// strings by these names.
func TestKeyNames(t *testing.T) {
	server := redistest.Start(t)
	s := openStore(t, server.Client(), "golden.name-1_A")
	create(t, s, 10, favfilter.PageID{Number: 0}, favfilter.PageID{Number: 63}, favfilter.PageID{Number: 63, Part: "seen-7"})
	put(t, s, favfilter.PageID{Number: 5}, newPage(t, 5, favfilter.Shape{Bits: 64, Hashes: 2})) // without regions
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	must(t, err)
	slices.Sort(keys)
	want := []string{
		"fav:{golden.name-1_A/0}:bits",
		"fav:{golden.name-1_A/0}:regions",
		"fav:{golden.name-1_A/5}:bits",
		"fav:{golden.name-1_A/63}:bits",
		"fav:{golden.name-1_A/63}:regions",
		"fav:{golden.name-1_A/63}:seen-7:bits",
		"fav:{golden.name-1_A/63}:seen-7:regions",
	}
	if !slices.Equal(keys, want) {
		t.Errorf("keys\n     %q\nwant %q", keys, want)
	}
}

func TestNewRefusesNames(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("n", 65), "a b", "a/b", "a{b", "a}b", "a:b", "é", "a\x00", "*"} {
		if s, err := redisstore.New(nil, name); s != nil || err == nil || !strings.Contains(err.Error(), "filter name") {
			t.Errorf("name %q: store %v, error %v", name, s, err)
		}
	}
	if _, err := redisstore.New(nil, strings.Repeat("n", 64)); err != nil {
		t.Error(err)
	}
}

// Each call sends the expected number of commands. The server knows the scripts, except in the
// first case.
func TestCommands(t *testing.T) {
	server := redistest.Start(t)
	parts := []favfilter.PageID{{Number: 1}, {Number: 1, Part: "w1"}, {Number: 1, Part: "w2"}, {Number: 1, Part: "absent"}}
	pages, grown := pageIDs(5), favfilter.PageID{Number: 10}
	s := openStore(t, server.Client(), "commands")
	first := commandsOf(server, func() { create(t, s, 100, pages[0]) })
	if first["evalsha"] != 1 || first["eval"] != 1 {
		t.Errorf("the first script of all: %v, want it sent by name and then in full", first)
	}
	create(t, s, 100, slices.Concat(parts[:3], pages[2:])...)
	if got := s.Apply(t.Context(), addOne(pages[:1], 1)); got[0].Err != nil {
		t.Fatal(got[0].Err)
	}
	window, err := seen.Open(s, seen.Config{Length: time.Hour})
	must(t, err)
	for _, c := range []struct {
		name string
		want map[string]int64 // without commands in scripts
		do   func()
	}{
		{"load of four parts of a page", map[string]int64{"mget": 1}, func() {
			if _, _, err := s.Load(t.Context(), parts); err != nil {
				t.Error(err)
			}
		}},
		{"load of five pages", map[string]int64{"mget": 5}, func() {
			if _, _, err := s.Load(t.Context(), pages); err != nil {
				t.Error(err)
			}
		}},
		{"load of nothing", map[string]int64{}, func() {
			if l, _, err := s.Load(t.Context(), nil); err != nil || len(l) != 0 {
				t.Error(l, err)
			}
		}},
		{"apply to four pages", map[string]int64{"evalsha": 4}, func() {
			wantAll(t, s.Apply(t.Context(), addOne(pages[1:], 1)), favfilter.Applied)
		}},
		{"apply to four pages not met before", map[string]int64{"mget": 4, "evalsha": 4}, func() {
			fresh := openStore(t, server.Client(), "commands")
			wantAll(t, fresh.Apply(t.Context(), addOne(pages[1:], 2)), favfilter.Applied)
		}},
		{"apply to pages once loaded", map[string]int64{"mget": 4, "evalsha": 4}, func() {
			fresh := openStore(t, server.Client(), "commands")
			if _, _, err := fresh.Load(t.Context(), pages[1:]); err != nil {
				t.Error(err)
			}
			wantAll(t, fresh.Apply(t.Context(), addOne(pages[1:], 3)), favfilter.Applied)
		}},
		{"apply to a page once replaced", map[string]int64{"evalsha": 2}, func() {
			fresh := openStore(t, server.Client(), "commands")
			create(t, fresh, 100, favfilter.PageID{Number: 8})
			wantAll(t, fresh.Apply(t.Context(), addOne([]favfilter.PageID{{Number: 8}}, 1)), favfilter.Applied)
		}},
		{"a replay on a page not met before", map[string]int64{"mget": 1}, func() {
			fresh := openStore(t, server.Client(), "commands")
			wantAll(t, fresh.Apply(t.Context(), addOne(pages[1:2], 2)), favfilter.Current)
		}},
		{"apply of 8 keys", map[string]int64{"evalsha": 1}, func() {
			wantAll(t, s.Apply(t.Context(), []favfilter.Batch{{ID: pages[0], Identity: identity(), Add: hashes(1, 0, 5), Remove: hashes(1, 50, 3)}}), favfilter.Applied)
		}},
		{"apply to a part with collision bits, which is remembered", map[string]int64{"evalsha": 1}, func() {
			wantAll(t, s.Apply(t.Context(), []favfilter.Batch{{ID: parts[1], Identity: identity(), Add: hashes(1, 0, 5)}}), favfilter.Applied)
		}},
		{"50 keys of a window", map[string]int64{"mget": 1, "evalsha": 1}, func() {
			recordIn(t, window, hashes(1, 0, 50))
		}},
		{"keys that a window has", map[string]int64{"mget": 1}, func() {
			recordIn(t, window, hashes(1, 10, 20))
		}},
		{"keys of a window that was just loaded with its page", map[string]int64{"mget": 1, "evalsha": 1}, func() {
			loaded, _, err := s.Load(t.Context(), []favfilter.PageID{{Number: 512}, window.ID(1 << 63)})
			must(t, err)
			w := window.Decode(t.Context(), window.ID(1<<63), loaded[1], time.Now())
			if err := w.Add(t.Context(), hashes(2, 0, 50)); err != nil {
				t.Error(err)
			}
		}},
		{"apply of 9 keys", map[string]int64{"mget": 1, "evalsha": 1}, func() {
			wantAll(t, s.Apply(t.Context(), []favfilter.Batch{{ID: parts[1], Identity: identity(), Add: hashes(1, 5, 5), Remove: hashes(1, 50, 4)}}), favfilter.Applied)
		}},
		{"apply of 9 keys that changes nothing", map[string]int64{"mget": 1}, func() {
			wantAll(t, s.Apply(t.Context(), []favfilter.Batch{{ID: parts[1], Identity: identity(), Add: hashes(1, 0, 9)}}), favfilter.Applied)
		}},
		{"replace", map[string]int64{"evalsha": 1}, func() {
			create(t, s, 100, favfilter.PageID{Number: 9})
		}},
		{"a page put in place, and an apply that makes it grow", map[string]int64{"evalsha": 3, "mget": 1}, func() {
			full := newPage(t, 10, favfilter.Shape{Bits: 64, Hashes: 2, Region: 8})
			full.Insert(favfilter.Hash{H1: 1 << 62, H2: 1 << 59})
			put(t, s, grown, full)
			growOne(t, s, grown, 1)
		}},
		{"apply to a page that has grown", map[string]int64{"evalsha": 1, "mget": 1}, func() {
			growOne(t, s, grown, 2)
		}},
		{"apply to a page that has grown, not met before", map[string]int64{"evalsha": 1, "mget": 1}, func() {
			growOne(t, openStore(t, server.Client(), "commands"), grown, 3)
		}},
	} {
		got := commandsOf(server, c.do)
		for _, inner := range []string{"getrange", "setrange", "bitcount", "bitfield", "persist", "set", "del", "strlen"} {
			delete(got, inner)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: commands %v, want %v", c.name, got, c.want)
		}
	}
}

// A call for many pages reads and replaces those that are small for their keys, and changes the
// others by a script.
func TestApplyToManyPages(t *testing.T) {
	server := redistest.Start(t)
	first := openStore(t, server.Client(), "first") // sends the script in full
	create(t, first, 100, pageIDs(1)...)
	wantAll(t, first.Apply(t.Context(), addOne(pageIDs(1), 1)), favfilter.Applied)
	for _, c := range []struct {
		pages          uint32
		capacity, keys int
		want           map[string]int64
	}{
		{63, 100, 1, map[string]int64{"evalsha": 63}},
		{64, 100, 1, map[string]int64{"evalsha": 64, "mget": 64}},
		{64, 400, 1, map[string]int64{"evalsha": 64}}, // 826 bytes
		{64, 400, 2, map[string]int64{"evalsha": 64, "mget": 64}},
	} {
		s := openStore(t, server.Client(), fmt.Sprintf("many-%d-%d-%d", c.pages, c.capacity, c.keys))
		ids := pageIDs(c.pages)
		create(t, s, c.capacity, ids...)
		batches := addOne(ids, 1)
		for i := range batches {
			batches[i].Add = hashes(uint32(i), 10, c.keys)
		}
		got := commandsOf(server, func() { wantAll(t, s.Apply(t.Context(), batches), favfilter.Applied) })
		for _, inner := range []string{"getrange", "setrange", "bitfield", "persist", "set", "del", "strlen"} {
			delete(got, inner)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%d keys each for %d pages of %d: commands %v, want %v", c.keys, c.pages, c.capacity, got, c.want)
		}
		removals := addOne(ids, 2)
		for i := range removals {
			removals[i].Add, removals[i].Remove = nil, batches[i].Add
		}
		wantAll(t, s.Apply(t.Context(), removals), favfilter.Applied)
		wantAll(t, s.Apply(t.Context(), removals), favfilter.Current)
		loaded, _, err := s.Load(t.Context(), ids)
		must(t, err)
		for i, l := range loaded {
			if h := l.Page.Header(); h.Count != 0 || h.Set != 0 || h.Sequence != 2 {
				t.Errorf("page %d at the end: %+v", i, h)
			}
		}
	}
}

// A write finds a page whose header another process has changed: from then on, its own writes take
// one command again.
func TestApplyAfterKeysLeft(t *testing.T) {
	server := redistest.Start(t)
	s, other := openStore(t, server.Client(), "left"), openStore(t, server.Client(), "left")
	ids := pageIDs(1)
	create(t, s, 100, ids...)
	h := newPage(t, 0, shapeFor(t, 100)).Header()
	h.Left, h.Sequence = 5, 5
	page, err := favfilter.NewPage(h)
	must(t, err)
	if done, err := other.Replace(t.Context(), favfilter.Replacement{ID: ids[0], Page: page, Newer: true}); err != nil || !done {
		t.Fatal(done, err)
	}
	for sequence, want := range []int64{6: 2, 7: 1} {
		if want == 0 {
			continue
		}
		got := commandsOf(server, func() { wantAll(t, s.Apply(t.Context(), addOne(ids, uint64(sequence))), favfilter.Applied) })
		if got["evalsha"] != want {
			t.Errorf("sequence %d: commands %v, want %d scripts", sequence, got, want)
		}
	}
}

// recordIn adds keys to the window of an owner.
func recordIn(t *testing.T, windows *seen.Windows, keys []favfilter.Hash) {
	t.Helper()
	var b seen.Batch
	for i, key := range keys {
		b.Add(windows, 1<<63, key, time.Time{}, i)
	}
	_, err := b.Write(t.Context(), time.Now())
	must(t, err)
}

// growOne adds the n-th key of a page that may grow, to more than one layer.
func growOne(t *testing.T, s favfilter.Store, id favfilter.PageID, n int) {
	t.Helper()
	batch := favfilter.Batch{ID: id, Identity: identity(), Rate: 0.001, Add: hashes(id.Number, n, 1)}
	res := s.Apply(t.Context(), []favfilter.Batch{batch})
	wantAll(t, res, favfilter.Applied)
	if res[0].Header.Grown == 0 || res[0].Outcomes[0] != favfilter.Added {
		t.Errorf("%+v %v, want another layer", res[0].Header, res[0].Outcomes)
	}
}

// All commands of a Load, or of an Apply, travel in one pipeline.
func TestRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	s := openStore(t, client, "trips")
	create(t, s, 100, pageIDs(6)...)
	wantAll(t, s.Apply(t.Context(), addOne(pageIDs(6), 1)), favfilter.Applied)
	var trips []int // commands of each
	h := &hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		trips = append(trips, len(cmds))
		return next(ctx, cmds)
	}}
	h.process = func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		trips = append(trips, 1)
		return next(ctx, cmd)
	}
	client.AddHook(h)
	if _, _, err := s.Load(t.Context(), pageIDs(6)); err != nil {
		t.Error(err)
	}
	wantAll(t, s.Apply(t.Context(), addOne(pageIDs(6), 2)), favfilter.Applied)
	if want := []int{6, 6}; !slices.Equal(trips, want) {
		t.Errorf("commands of each round trip %d, want %d", trips, want)
	}
}

// Serverless caches take at most 3,999 arguments a command. The largest script call
// has 8 keys of 32 positions each.
func TestArgumentsAreBounded(t *testing.T) {
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	most, positions := 0, 0
	observe := func(cmd redis.Cmder) { most = max(most, len(cmd.Args())) }
	client.AddHook(&hook{
		process: func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			observe(cmd)
			return next(ctx, cmd)
		},
		pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			for _, cmd := range cmds {
				observe(cmd)
			}
			return next(ctx, cmds)
		},
	})
	s := openStore(t, client, "arguments")
	shape := favfilter.Shape{Bits: 1 << 16, Hashes: favfilter.MaxHashes, Region: 8}
	ids := pageIDs(2)
	for _, id := range ids {
		put(t, s, id, newPage(t, id.Number, shape))
	}
	for i, n := range []int{8, 500} { // by script, and by compare-and-swap
		keys := hashes(0, i*1000, n)
		batch := favfilter.Batch{ID: ids[i], Identity: identity(), Sequence: 1, Add: keys}
		wantAll(t, s.Apply(t.Context(), []favfilter.Batch{batch}), favfilter.Applied)
		batch.Sequence, batch.Add, batch.Remove = 2, nil, keys
		if got := s.Apply(t.Context(), []favfilter.Batch{batch}); got[0].State != favfilter.Applied && got[0].State != favfilter.Jammed {
			t.Errorf("%d removals: %v, %v", n, got[0].State, got[0].Err)
		}
		if i == 0 {
			for _, k := range keys {
				positions += len(shape.Positions(nil, k))
			}
		}
	}
	// EVALSHA, the script's name, the number of keys, the two keys, seven arguments,
	// and each key's positions after their number.
	if want := 3 + 2 + 7 + 8 + positions; most != want || most > 3999 {
		t.Errorf("at most %d arguments a command, want %d", most, want)
	}
}

// The script compares and counts sequences correctly at the ends of a byte, of 32 bits and of the
// allowed range.
func TestLargestSequences(t *testing.T) {
	s := openStore(t, redistest.Start(t).Client(), "sequences")
	for i, start := range []uint64{1<<8 - 1, 1<<32 - 1, favfilter.MaxSequence - 3} {
		t.Run(fmt.Sprint(start), func(t *testing.T) {
			id := favfilter.PageID{Number: uint32(i)}
			h := newPage(t, id.Number, shapeFor(t, 100)).Header()
			h.Sequence = start
			page, err := favfilter.NewPage(h)
			must(t, err)
			put(t, s, id, page)
			for n, sequence := range []uint64{start + 1, 0} { // guarded, and not
				res := s.Apply(t.Context(), []favfilter.Batch{{ID: id, Identity: identity(), Sequence: sequence, Add: hashes(0, n, 1)}})
				wantAll(t, res, favfilter.Applied)
				if want := start + 1 + uint64(n); res[0].Header.Sequence != want {
					t.Errorf("sequence %d, want %d", res[0].Header.Sequence, want)
				}
			}
		})
	}
}
