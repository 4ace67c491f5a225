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
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustAdd(t testing.TB, f *favfilter.Filter, keys ...string) []favfilter.Outcome {
	t.Helper()
	outcomes, err := f.Add(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

func mustRemove(t testing.TB, f *favfilter.Filter, keys ...string) []favfilter.Outcome {
	t.Helper()
	outcomes, err := f.Remove(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

func mustContain(t testing.TB, f *favfilter.Filter, keys ...string) []bool {
	t.Helper()
	found, err := f.Contains(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return found
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

// A page of other settings is found also where page 0 tells nothing.
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
		l, err := store.Load(t.Context(), []favfilter.PageID{{Number: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Replace(t.Context(), favfilter.Replacement{ID: favfilter.PageID{Number: 1}, Page: newPage(t, h), Seen: l[0].Version}); err != nil {
			t.Fatal(err)
		}
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

// keyOfPage returns a key that lies on the page, under seed 0.
func keyOfPage(number, pages uint32) string {
	for i := 0; ; i++ {
		user := fmt.Sprintf("U%d", i)
		if favfilter.PageNumber(favfilter.HashKey(0, user).H1, pages) == number {
			return user + "_P1"
		}
	}
}

// Outcomes and answers are in the order of the keys, whatever their pages, and a
// key given twice has two.
func TestFilterKeepsTheOrderOfKeys(t *testing.T) {
	f := openFilter(t, &favfilter.Memory{}, favfilter.Config{Capacity: 10_000, Pages: 64, Seed: 77})
	keys := userKeys("U1", 300)
	var some []string
	for i, k := range keys {
		if i%3 == 0 {
			some = append(some, k)
		}
	}
	mustAdd(t, f, some...)
	for i, found := range mustContain(t, f, keys...) {
		if found != (i%3 == 0) {
			t.Errorf("key %d is contained: %v", i, found)
		}
	}
	for i, o := range mustAdd(t, f, keys...) {
		if want := map[bool]favfilter.Outcome{true: favfilter.Present, false: favfilter.Added}[i%3 == 0]; o != want {
			t.Errorf("key %d is %v, want %v", i, o, want)
		}
	}
	for i, o := range mustRemove(t, f, append(slices.Clone(keys[:100]), keys[:100]...)...) {
		if want := map[bool]favfilter.Outcome{true: favfilter.Removed, false: favfilter.Absent}[i < 100]; o != want {
			t.Errorf("removal %d is %v, want %v", i, o, want)
		}
	}
	if got := mustAdd(t, f, "twice", "twice"); !slices.Equal(got, []favfilter.Outcome{favfilter.Added, favfilter.Present}) {
		t.Errorf("the same key twice: %v", got)
	}
}

func TestFilterOfNoKeys(t *testing.T) {
	f := openFilter(t, &favfilter.Memory{}, favfilter.Config{Capacity: 10})
	if got := mustAdd(t, f); len(got) != 0 {
		t.Errorf("added nothing: %v", got)
	}
	if got := mustRemove(t, f); len(got) != 0 {
		t.Errorf("removed nothing: %v", got)
	}
	if got := mustContain(t, f); len(got) != 0 {
		t.Errorf("looked up nothing: %v", got)
	}
}

// Keys are any strings: also empty ones, and such as hold zeros or no UTF-8.
func TestFilterTakesAnyKey(t *testing.T) {
	f := openFilter(t, &favfilter.Memory{}, favfilter.Config{Capacity: 1000})
	keys := []string{"", "\x00", "\x00\x00", "\xff\xfe", strings.Repeat("long", 10_000), "a", "A", "a "}
	for i, k := range keys {
		if got := mustContain(t, f, k); got[0] {
			t.Errorf("key %d is there before it was added", i)
		}
		if got := mustAdd(t, f, k); got[0] != favfilter.Added {
			t.Errorf("key %d is %v, want added", i, got[0])
		}
	}
	if found := mustContain(t, f, keys...); slices.Contains(found, false) {
		t.Errorf("contained: %v", found)
	}
}

func TestFilterFull(t *testing.T) {
	f := openFilter(t, &favfilter.Memory{}, favfilter.Config{Capacity: 100, Pages: 1})
	keys := userKeys("U1", 400)
	outcomes, err := f.Add(t.Context(), keys...)
	full := 0
	var in []string
	for i, o := range outcomes {
		switch o {
		case favfilter.Full:
			full++
		case favfilter.Added:
			in = append(in, keys[i])
		case favfilter.Present: // by chance
		default:
			t.Errorf("key %d is %v", i, o)
		}
	}
	if !errors.Is(err, favfilter.ErrFull) || !strings.Contains(err.Error(), fmt.Sprintf("add 400 keys: %d do not fit", full)) {
		t.Errorf("error %v of %d keys that do not fit", err, full)
	}
	if len(in) < 100 || len(in) > 150 {
		t.Errorf("%d keys went into a page for 100, which its size class raises to 133", len(in))
	}
	if found := mustContain(t, f, in...); slices.Contains(found, false) {
		t.Error("a key that was added to a full page is missing")
	}
	if got := mustAdd(t, f, in...); slices.ContainsFunc(got, func(o favfilter.Outcome) bool { return o != favfilter.Present }) {
		t.Error("a key of a full page is not present")
	}
}

// With pages of some thousand keys, the room that they leave for uneven spread takes
// every key up to Capacity.
func TestFilterHoldsItsCapacity(t *testing.T) {
	for _, c := range []favfilter.Config{{Capacity: 50_000}, {Capacity: 20_000, Pages: 64}, {Capacity: 3000, Pages: 256, FalsePositiveRate: 0.01}} {
		f := openFilter(t, &favfilter.Memory{}, c)
		if _, err := f.Add(t.Context(), userKeys("U", c.Capacity)...); err != nil {
			t.Errorf("capacity %d on %d pages: %v", c.Capacity, c.Pages, err)
		}
	}
}

func TestOpenDefaults(t *testing.T) {
	store := &favfilter.Memory{}
	openFilter(t, store, favfilter.Config{Capacity: 50_000})
	l, err := store.Load(t.Context(), []favfilter.PageID{{Number: 0}, {Number: 1}})
	if err != nil {
		t.Fatal(err)
	}
	h := l[0].Page.Header()
	// 16 pages of 3,125 keys and five standard deviations.
	want := favfilter.Header{Identity: favfilter.Identity{Pages: 16}, Shape: shapeFor(t, 3125+280, 0.001), Build: h.Build}
	if h != want || h.Build == 0 {
		t.Errorf("page 0 is %+v, want %+v and a random build", h, want)
	}
	if l[1].Page != nil {
		t.Error("page 1 was made before it was needed")
	}
}

// A filter of one page takes all keys of its capacity, also where that is all that a size
// class has room for.
func TestOnePageHoldsItsCapacity(t *testing.T) {
	const capacity = 4329 // the largest of its size class
	short := 0
	for seed := range uint64(20) {
		f := openFilter(t, &favfilter.Memory{}, favfilter.Config{Capacity: capacity, Pages: 1, Seed: seed})
		if _, err := f.Add(t.Context(), userKeys("U", capacity)...); err != nil {
			short++
		}
	}
	if short > 0 {
		t.Errorf("%d of 20 filters were full before their capacity", short)
	}
}
