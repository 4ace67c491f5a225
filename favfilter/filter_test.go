package favfilter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

func openFilter(t testing.TB, store favfilter.Store, c favfilter.Config) *favfilter.Filter {
	t.Helper()
	f, err := favfilter.Open(t.Context(), store, c)
	must(t, err)
	return f
}

func mustAdd(t testing.TB, f *favfilter.Filter, keys ...string) []favfilter.Outcome {
	t.Helper()
	outcomes, err := f.Add(t.Context(), keys...)
	must(t, err)
	return outcomes
}

func mustRemove(t testing.TB, f *favfilter.Filter, keys ...string) []favfilter.Outcome {
	t.Helper()
	outcomes, err := f.Remove(t.Context(), keys...)
	must(t, err)
	return outcomes
}

func mustContain(t testing.TB, f *favfilter.Filter, keys ...string) []bool {
	t.Helper()
	found, err := f.Contains(t.Context(), keys...)
	must(t, err)
	return found
}

// replace puts a page in place of another.
func replace(t testing.TB, store favfilter.Store, r favfilter.Replacement) {
	t.Helper()
	if done, err := store.Replace(t.Context(), r); err != nil || !done {
		t.Fatalf("replace %v: %v, %v", r.ID, done, err)
	}
}

// userKeys returns n keys U<user>_P<post> of one user.
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

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		config favfilter.Config
		want   string
	}{
		{favfilter.Config{}, "capacity 0 is not positive"},
		{favfilter.Config{Capacity: -1}, "capacity -1 is not positive"},
		{favfilter.Config{Capacity: 10, FalsePositiveRate: -0.1}, "rate -0.1 is not in"},
		{favfilter.Config{Capacity: 10, FalsePositiveRate: 0.6}, "rate 0.6 is not in"},
		{favfilter.Config{Capacity: 10, FalsePositiveRate: math.NaN()}, "rate NaN is not in"},
		{favfilter.Config{Capacity: 10, Pages: 3}, "3 pages: not a power of two"},
		{favfilter.Config{Capacity: 10, Pages: 2 * favfilter.MaxPages}, "33554432 pages"},
		{favfilter.Config{Capacity: 1 << 40, Pages: 1}, "1099512676352 keys"},
	} {
		f, err := favfilter.Open(t.Context(), &favfilter.Memory{}, c.config)
		if f != nil || err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "open filter: ") {
			t.Errorf("%+v: filter %v, error %v, want %q", c.config, f, err, c.want)
		}
	}
}

// A filter that is opened again has its keys, and refuses other settings.
func TestReopen(t *testing.T) {
	store := &favfilter.Memory{}
	config := favfilter.Config{Capacity: 10_000, FalsePositiveRate: 0.001, Pages: 8, Seed: 5}
	mustAdd(t, openFilter(t, store, config), "a", "b")
	if found := mustContain(t, openFilter(t, store, config), "a", "b", "c"); !slices.Equal(found, []bool{true, true, false}) {
		t.Errorf("opened again the filter holds a, b, c: %v", found)
	}
	for name, change := range map[string]func(*favfilter.Config){
		"Capacity": func(c *favfilter.Config) { c.Capacity *= 2 },
		"Rate":     func(c *favfilter.Config) { c.FalsePositiveRate = 0.01 },
		"Pages":    func(c *favfilter.Config) { c.Pages = 16 },
		"Seed":     func(c *favfilter.Config) { c.Seed++ },
	} {
		other := config
		change(&other)
		f, err := favfilter.Open(t.Context(), store, other)
		if f != nil || !errors.Is(err, favfilter.ErrMismatch) || !strings.Contains(err.Error(), "page 0") {
			t.Errorf("another %s: filter %v, error %v, want a mismatch on page 0", name, f, err)
		}
	}
}

// If page 0 matches, calls still detect a mismatch of another page.
func TestMismatchOfOnePage(t *testing.T) {
	store := &favfilter.Memory{}
	config := favfilter.Config{Capacity: 1000, Pages: 2, PageBy: byUser}
	f := openFilter(t, store, config)
	key := keyOfPage(1, 2)
	identity := favfilter.Identity{Pages: 2}
	for name, h := range map[string]favfilter.Header{
		"another shape": {Identity: identity, Shape: shapeFor(t, 10_000, 0.001), Number: 1},
		"another seed":  {Identity: favfilter.Identity{Pages: 2, Seed: 1}, Shape: shapeFor(t, 500, 0.001), Number: 1},
	} {
		l, _, err := store.Load(t.Context(), []favfilter.PageID{{Number: 1}})
		must(t, err)
		replace(t, store, favfilter.Replacement{ID: favfilter.PageID{Number: 1}, Page: newPage(t, h), Seen: l[0].Version})
		for call, err := range everyCall(t.Context(), f, key) {
			if !errors.Is(err, favfilter.ErrMismatch) || !strings.Contains(err.Error(), "page 1") {
				t.Errorf("%s, %s: error %v, want a mismatch on page 1", name, call, err)
			}
		}
	}
}

// everyCall makes every call of f and returns the errors by name.
func everyCall(ctx context.Context, f *favfilter.Filter, keys ...string) map[string]error {
	_, add := f.Add(ctx, keys...)
	_, remove := f.Remove(ctx, keys...)
	_, contains := f.Contains(ctx, keys...)
	return map[string]error{"Add": add, "Remove": remove, "Contains": contains}
}

// keyOfPage returns a key that belongs to the page, under seed 0.
func keyOfPage(number, pages uint32) string {
	for i := 0; ; i++ {
		user := fmt.Sprintf("U%d", i)
		if favfilter.PageNumber(favfilter.HashKey(0, user).H1, pages) == number {
			return user + "_P1"
		}
	}
}

// A key may be any string: empty, with zero bytes, or not UTF-8. A key given twice gets two
// outcomes.
func TestFilterTakesAnyKey(t *testing.T) {
	f := openFilter(t, &favfilter.Memory{}, favfilter.Config{Capacity: 1000})
	keys := []string{"", "\x00", "\x00\x00", "\xff\xfe", strings.Repeat("long", 10_000), "a", "A", "a "}
	for i, k := range keys {
		if got := mustContain(t, f, k); got[0] {
			t.Errorf("key %d is present before it was added", i)
		}
		if got := mustAdd(t, f, k); got[0] != favfilter.Added {
			t.Errorf("key %d is %v, want added", i, got[0])
		}
	}
	if found := mustContain(t, f, keys...); slices.Contains(found, false) {
		t.Errorf("contained: %v", found)
	}
	for call, err := range everyCall(t.Context(), f) {
		if err != nil {
			t.Errorf("%s of no keys: %v", call, err)
		}
	}
	if got := mustAdd(t, f, "twice", "twice"); !slices.Equal(got, []favfilter.Outcome{favfilter.Added, favfilter.Present}) {
		t.Errorf("the same key twice: %v", got)
	}
}

// A filter takes many times its capacity. It holds all keys, and its rate stays below the
// configured one.
func TestFilterGrows(t *testing.T) {
	store := &favfilter.Memory{}
	f := openFilter(t, store, favfilter.Config{Capacity: 100, Pages: 2})
	keys := userKeys("U1", 5000)
	var added []string // keys that were not added depend on bits of these
	for chunk := range slices.Chunk(keys, 37) {
		for i, o := range mustAdd(t, f, chunk...) {
			if o == favfilter.Added {
				added = append(added, chunk[i])
			}
		}
	}
	if found := mustContain(t, f, keys...); slices.Contains(found, false) || len(added) < 4980 {
		t.Errorf("of %d keys %d were added, and some are missing: %v", len(keys), len(added), slices.Contains(found, false))
	}
	keys = added
	for i := range uint32(2) {
		if p := pageOf(t, store, i); p.Header().Grown < 3 || p.FalsePositiveRate() > 0.001 {
			t.Errorf("page %d: %d layers, rate %g", i, len(p.Layers()), p.FalsePositiveRate())
		}
	}
	stuck := 0
	for i, o := range mustRemove(t, f, keys[:1000]...) {
		switch o {
		case favfilter.Removed:
		case favfilter.Stuck:
			stuck++
		default:
			t.Errorf("removal of key %d: %v", i, o)
		}
	}
	if found := mustContain(t, f, keys[1000:]...); stuck > 50 || slices.Contains(found, false) {
		t.Errorf("%d keys of 1,000 were stuck, another was lost: %v", stuck, slices.Contains(found, false))
	}
	again := openFilter(t, store, favfilter.Config{Capacity: 100, Pages: 2})
	if found := mustContain(t, again, keys[1000:]...); slices.Contains(found, false) {
		t.Error("opened again, a key is missing")
	}
}

func pageOf(t testing.TB, store favfilter.Store, number uint32) *favfilter.Page {
	t.Helper()
	l, _, err := store.Load(t.Context(), []favfilter.PageID{{Number: number}})
	if err != nil || l[0].Page == nil {
		t.Fatalf("page %d: %+v, %v", number, l, err)
	}
	return l[0].Page
}

// A page that cannot grow any further is full, and still reports its keys as present.
func TestFilterFull(t *testing.T) {
	store := &favfilter.Memory{}
	f := openFilter(t, store, favfilter.Config{Capacity: 100, Pages: 1})
	in := userKeys("U1", 100)
	outcomes := mustAdd(t, f, in...)
	in = slices.DeleteFunc(in, func(string) bool { o := outcomes[0]; outcomes = outcomes[1:]; return o != favfilter.Added })
	page := pageOf(t, store, 0)
	seen := favfilter.Version(encoded(page)[:favfilter.HeaderBytes])
	page = page.Clone()
	for page.Header().Grown < favfilter.MaxLayers-1 {
		page.Grow(favfilter.Shape{Bits: 8, Hashes: 8, Region: favfilter.DefaultRegion})
	}
	replace(t, store, favfilter.Replacement{Page: page, Seen: seen})
	outcomes, err := f.Add(t.Context(), append(userKeys("U2", 300), in...)...)
	if !errors.Is(err, favfilter.ErrFull) || !strings.Contains(err.Error(), fmt.Sprintf("add %d keys: 300 do not fit", 300+len(in))) {
		t.Errorf("error %v of 300 keys that do not fit", err)
	}
	for i, o := range outcomes {
		if want := map[bool]favfilter.Outcome{true: favfilter.Full, false: favfilter.Present}[i < 300]; o != want {
			t.Errorf("key %d is %v, want %v", i, o, want)
		}
	}
}

// With pages of a few thousand keys, the room left for uneven distribution is enough for every key
// up to Capacity: no page grows.
func TestFilterHoldsItsCapacity(t *testing.T) {
	for _, c := range []favfilter.Config{{Capacity: 50_000, Pages: 16}, {Capacity: 20_000, Pages: 64}, {Capacity: 3000, Pages: 256, FalsePositiveRate: 0.01}} {
		store := &favfilter.Memory{}
		mustAdd(t, openFilter(t, store, c), userKeys("U", c.Capacity)...)
		for i := range c.Pages {
			if h := pageOf(t, store, i).Header(); h.Grown > 0 {
				t.Errorf("capacity %d on %d pages: page %d has grown with %d keys", c.Capacity, c.Pages, i, h.Count)
			}
		}
	}
}

func TestOpenDefaults(t *testing.T) {
	store := &favfilter.Memory{}
	openFilter(t, store, favfilter.Config{Capacity: 50_000})
	l, _, err := store.Load(t.Context(), []favfilter.PageID{{Number: 0}, {Number: 1}})
	must(t, err)
	h := l[0].Page.Header()
	// 16 pages of 3,125 keys and five standard deviations, with half of the rate.
	want := favfilter.Header{Identity: favfilter.Identity{Pages: 16}, Shape: shapeFor(t, 3125+280, 0.0005), Build: h.Build}
	if h != want || h.Build == 0 {
		t.Errorf("page 0 is %+v, want %+v and a random build", h, want)
	}
	if l[1].Page != nil {
		t.Error("page 1 was created before it was needed")
	}
}

// A filter of one page takes all keys of its capacity, even if its size class has no room for more.
func TestOnePageHoldsItsCapacity(t *testing.T) {
	const capacity, withRoom = 3991, 4055 // the largest number in its size class
	if shapeFor(t, withRoom, 0.0005).Bits == shapeFor(t, withRoom+1, 0.0005).Bits {
		t.Errorf("%d is not the largest", capacity)
	}
	short := 0
	for seed := range uint64(20) {
		store := &favfilter.Memory{}
		mustAdd(t, openFilter(t, store, favfilter.Config{Capacity: capacity, Pages: 1, Seed: seed}), userKeys("U", capacity)...)
		if pageOf(t, store, 0).Header().Grown > 0 {
			short++
		}
	}
	if short > 0 {
		t.Errorf("%d of 20 filters were full before their capacity", short)
	}
}
