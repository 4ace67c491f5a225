package favfilter_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// ledgered is a page in guarded use, with the keys that a ledger would have for it. Keys are
// numbers.
type ledgered struct {
	page  *favfilter.Page
	live  map[int]bool
	marks map[int]bool // since the last rebuild
}

func keyHash(key int) favfilter.Hash {
	h := randomHash(rand.New(rand.NewPCG(99, uint64(key))))
	h.Extra = uint8(key % 3 * 7)
	return h
}

func keyHashes(keys ...int) []favfilter.Hash {
	hs := make([]favfilter.Hash, len(keys))
	for i, k := range keys {
		hs[i] = keyHash(k)
	}
	return hs
}

// change removes keys and adds others, as one guarded batch with a rate, or none if that is 0. It
// rebuilds a jammed or overfull page.
func (l *ledgered) change(t *rapid.T, rate float64, remove, add, marks []int) {
	h := l.page.Header()
	before := encoded(l.page)
	res := l.page.Apply(favfilter.Batch{
		ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Sequence: h.Sequence + 1, Rate: rate,
		Remove: keyHashes(remove...), Add: keyHashes(add...), Marks: keyHashes(marks...),
	})
	for _, k := range remove {
		delete(l.live, k)
	}
	for _, k := range add {
		l.live[k] = true
	}
	switch {
	case res.State == favfilter.Applied:
		for _, k := range marks {
			l.marks[k] = l.marks[k] || len(add) > 0
		}
		if res.Header != l.page.Header() || res.Header.Sequence != h.Sequence+1 {
			t.Fatalf("applied at %+v, page at %+v", res.Header, l.page.Header())
		}
		if limit := h.Shape.Limit(rate); rate > 0 && len(add) > 0 && (res.Header.Set > limit || h.Grown > 0) {
			t.Fatalf("%d bits of %d layers are set, the rate allows %d of one", res.Header.Set, h.Grown+1, limit)
		}
	case res.State == favfilter.Jammed && len(remove) > 0, res.State == favfilter.Overfull && len(add) > 0:
		if !bytes.Equal(encoded(l.page), before) {
			t.Fatalf("a batch changed the page that is %v", res.State)
		}
		l.rebuild(t)
	default:
		t.Fatalf("state %v", res.State)
	}
}

func (l *ledgered) rebuild(t *rapid.T) {
	h := l.page.Header()
	h.Sequence++
	l.page = newPage(t, h)
	for k := range l.live {
		l.page.Insert(keyHash(k))
	}
	clear(l.marks)
}

func (l *ledgered) check(t *rapid.T) {
	h := l.page.Header()
	for k := range l.live {
		if !l.page.Contains(keyHash(k)) {
			t.Fatalf("key %d was lost", k)
		}
	}
	for k, set := range l.marks {
		if set && !l.page.Contains(keyHash(k)) {
			t.Fatalf("mark %d was lost", k)
		}
	}
	if int(h.Count) != len(l.live) {
		t.Fatalf("count %d of %d keys", h.Count, len(l.live))
	}
	raw, collisions := l.page.Encode()
	if again := decodePage(t, raw, collisions); again.Header() != h { // decoding counts the set bits
		t.Fatalf("decoded %+v, want %+v", again.Header(), h)
	}
}

// grow appends a small layer of any kind, if the page may have another one.
func grow(t *rapid.T, page *favfilter.Page) {
	shape := drawShape(t)
	shape.Region = page.Header().Shape.Region
	if len(page.Layers()) < favfilter.MaxLayers {
		page.Grow(shape)
	}
}

func (l *ledgered) draw(t *rapid.T, label string, live bool) []int {
	keys := rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 0, 5, rapid.ID[int]).Draw(t, label)
	return slices.DeleteFunc(keys, func(k int) bool { return l.live[k] != live })
}

func encoded(p *favfilter.Page) []byte {
	raw, collisions := p.Encode()
	return slices.Concat(raw, collisions)
}

// In guarded use, a page of any shape loses no key, however full it is, and its header has the
// right counts.
func TestPageInGuardedUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &ledgered{page: emptyPage(t, drawShape(t)), live: map[int]bool{}, marks: map[int]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"batch": func(t *rapid.T) {
				rate := rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "rate")
				marks := rapid.SliceOfNDistinct(rapid.IntRange(100, 105), 0, 3, rapid.ID[int]).Draw(t, "marks")
				l.change(t, rate, l.draw(t, "remove", true), l.draw(t, "add", false), marks)
			},
			"mark": func(t *rapid.T) {
				k := rapid.IntRange(100, 105).Draw(t, "mark")
				l.marks[k] = true
				l.page.Mark(keyHash(k))
			},
			"insert": func(t *rapid.T) {
				for _, k := range l.draw(t, "insert", false) {
					l.live[k] = true
					l.page.Insert(keyHash(k))
				}
			},
			"grow": func(t *rapid.T) { grow(t, l.page) },
			"remove": func(t *rapid.T) {
				if l.page.Header().Grown > 0 {
					return // Remove is not for keys that may have been inserted as false positives
				}
				for _, k := range l.draw(t, "remove", true) {
					delete(l.live, k)
					switch o := l.page.Remove(keyHash(k)); o {
					case favfilter.Removed:
						if l.page.Contains(keyHash(k)) {
							t.Fatalf("key %d was removed and is still reported", k)
						}
					case favfilter.Stuck:
						l.rebuild(t)
					default:
						t.Fatalf("removal of a key of the page: %v", o)
					}
				}
			},
			"": l.check,
		})
	})
}

// Without a ledger, a key that was added and was not a false positive stays, as long as only such
// keys are removed.
func TestPageAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := emptyPage(t, drawShape(t))
		added := map[int]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k := rapid.IntRange(0, 60).Draw(t, "key")
				looksPresent := page.Contains(keyHash(k))
				switch o := addAbsent(page, keyHash(k)); {
				case looksPresent && o == favfilter.Present:
				case !looksPresent && o == favfilter.Added:
					added[k] = true
				default:
					t.Fatalf("key %d, looks present %v: %v", k, looksPresent, o)
				}
			},
			"grow": func(t *rapid.T) { grow(t, page) },
			"remove": func(t *rapid.T) {
				k := rapid.IntRange(0, 60).Draw(t, "key")
				if !added[k] {
					return
				}
				switch o := page.Remove(keyHash(k)); o {
				case favfilter.Removed:
					delete(added, k)
				case favfilter.Stuck:
				default:
					t.Fatalf("removal of key %d: %v", k, o)
				}
			},
			"": func(t *rapid.T) {
				for k := range added {
					if !page.Contains(keyHash(k)) {
						t.Fatalf("key %d of %v was lost", k, slices.Sorted(maps.Keys(added)))
					}
				}
			},
		})
	})
}
