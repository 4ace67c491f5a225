package lru_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/internal/lru"
)

// A Cache holds the same values as a list of the most recently used ones, up to its bytes.
func TestCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type item struct{ key, value, bytes int }
		const most = 100
		largest := rapid.SampledFrom([]int{most / 2, most + 10}).Draw(t, "largest")
		l := lru.New[int, int](most, largest)
		var model []item // the least recently used item first
		find := func(key int) int { return slices.IndexFunc(model, func(i item) bool { return i.key == key }) }
		drop := func(key int) (item, bool) {
			n := find(key)
			if n < 0 {
				return item{}, false
			}
			found := model[n]
			model = slices.Delete(model, n, n+1)
			return found, true
		}
		for value := range rapid.IntRange(0, 100).Draw(t, "steps") {
			key := rapid.IntRange(0, 9).Draw(t, "key")
			switch rapid.IntRange(1, 20).Draw(t, "step") {
			case 1, 2:
				l.Drop(key)
				drop(key)
			case 3, 4, 5, 6, 7, 8:
				found, ok := l.Get(key)
				want, wantOK := drop(key)
				if wantOK {
					model = append(model, want)
				}
				if ok != wantOK || found != want.value {
					t.Fatalf("%d: %d, %v, want %d, %v", key, found, ok, want.value, wantOK)
				}
			default:
				bytes := rapid.IntRange(0, most+10).Draw(t, "bytes")
				l.Put(key, value, bytes)
				drop(key)
				if bytes <= largest {
					model = append(model, item{key, value, bytes})
				}
			}
			sum := func() (n int) {
				for _, i := range model {
					n += i.bytes
				}
				return n
			}
			for sum() > most && len(model) > 1 {
				model = model[1:]
			}
			if values, bytes := l.Size(); bytes != sum() || values != len(model) {
				t.Fatalf("%d bytes of %d values, want %d of %d", bytes, values, sum(), len(model))
			}
		}
	})
}
