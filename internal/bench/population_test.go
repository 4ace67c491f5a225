package bench_test

import (
	"iter"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/bench"
)

func population(t *testing.T, users, entries int) *bench.Population {
	t.Helper()
	p, err := bench.NewPopulation(users, entries, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPopulation checks that the activities per user have the documented distribution.
func TestPopulation(t *testing.T) {
	p := population(t, 20_000, 2_000_000)
	counts := make(map[string]int)
	for a := range p.Activities() {
		counts[a.User]++
	}
	if len(counts) != p.Users() {
		t.Fatalf("%d users have activities, want all %d", len(counts), p.Users())
	}
	sorted := slices.Sorted(maps.Values(counts))
	for i, want := range map[int]float64{10_000: 30, 19_800: 1000, 19_999: 27_273} {
		if got := float64(sorted[i]); math.Abs(got-want) > want/8 {
			t.Errorf("user %d has %g activities, want about %g", i, got, want)
		}
	}
	if math.Abs(float64(p.Entries())-2_000_000) > 20_000 {
		t.Errorf("%d entries, want about 2,000,000", p.Entries())
	}
}

func TestPopulationIsTheSameEachTime(t *testing.T) {
	p := population(t, 200, 20_000)
	first, second := slices.Collect(p.Activities()), slices.Collect(population(t, 200, 20_000).Activities())
	if !slices.Equal(first, second) {
		t.Error("the same seed gave another population")
	}
	entries := len(first)
	for _, a := range first {
		if a.Kind == bench.Block {
			entries++ // of the blocked user
		}
	}
	if entries != p.Entries() {
		t.Errorf("%d entries, but Entries returns %d", entries, p.Entries())
	}
}

func TestSmallPopulations(t *testing.T) {
	for _, n := range []int{3, 4, 10, 7920} {
		p := population(t, n, 20*n)
		distinct := make(map[activity.Activity]bool)
		for a := range p.Activities() {
			if a.User == a.Target || distinct[a] {
				t.Fatalf("%d users: %v, twice or with themselves", n, a)
			}
			distinct[a] = true
		}
	}
	for _, c := range [][2]int{{2, 100}, {100, 50}, {1e8, 1e9}} {
		if _, err := bench.NewPopulation(c[0], c[1], 1); err == nil {
			t.Errorf("%d users with %d entries: no error", c[0], c[1])
		}
	}
}

// TestFeeds checks that feeds expect the same of every candidate as a model of plain maps, and that
// they have enough distinct keys.
func TestFeeds(t *testing.T) {
	p := population(t, 300, 30_000)
	type key struct{ owner, kind, target string }
	held := make(map[key]bool)
	for _, all := range []iter.Seq[activity.Activity]{p.Activities(), p.Seen()} {
		for a := range all {
			held[key{a.User, a.Kind, a.Target}] = true
			if a.Kind == bench.Block {
				held[key{a.Target, bench.BlockedBy, a.User}] = true
			}
		}
	}
	for _, n := range []int{1, 50, 1000} {
		posts, reasons := make(map[string]bool), make(map[string]int)
		for _, f := range p.Feeds(n) {
			if len(f.Posts) != n {
				t.Fatalf("a feed of %d candidates, want %d", len(f.Posts), n)
			}
			for i, post := range f.Posts {
				posts[post.ID] = true
				drop := false
				for _, e := range []key{
					{f.Viewer, bench.Block, post.Author}, {f.Viewer, bench.BlockedBy, post.Author},
					{f.Viewer, bench.Hide, post.ID}, {f.Viewer, bench.Seen, post.ID},
				} {
					if held[e] {
						drop = true
						reasons[e.kind]++
					}
				}
				if drop != f.Drop[i] {
					t.Fatalf("candidate %v of viewer %s must be dropped: %v, but the model says %v", post, f.Viewer, f.Drop[i], drop)
				}
			}
		}
		if n > 1 && (len(posts) < 15_000 || len(reasons) != 4) {
			t.Errorf("feeds of %d: %d posts, dropped for %v", n, len(posts), reasons)
		}
	}
}

// TestSubject checks that a subject drops what it must drop, and almost nothing else.
func TestSubject(t *testing.T) {
	p := population(t, 100, 10_000)
	s, err := bench.OpenSubject(t.Context(), bench.SubjectConfig{
		Store: &favfilter.Memory{}, File: filepath.Join(t.TempDir(), "ledger.db"), Pages: bench.NumberFor(p.Entries()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Record(t.Context(), p.Activities()); err != nil {
		t.Fatal(err)
	}
	if err := s.Record(t.Context(), p.Seen()); err != nil {
		t.Fatal(err)
	}
	clean, wrong := 0, 0
	dropped := make([]bool, 200)
	for _, f := range p.Feeds(200) {
		if err := s.Check(t.Context(), f, dropped); err != nil {
			t.Fatal(err)
		}
		for i, drop := range f.Drop {
			switch {
			case drop && !dropped[i]:
				t.Fatalf("candidate %v was kept, which viewer %s must not see", f.Posts[i], f.Viewer)
			case !drop && dropped[i]:
				wrong++
			}
		}
		clean += len(f.Posts)
	}
	if wrong > clean/500 {
		t.Errorf("%d of %d candidates were dropped wrongly", wrong, clean)
	}
}
