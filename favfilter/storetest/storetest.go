// Package storetest is the test suite that every favfilter.Store must pass. It is the executable
// form of what a store guarantees.
package storetest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Backend is a store under test, with access to what it has stored.
type Backend struct {
	Store favfilter.Store

	// Strings returns the two strings of a page as stored, nil for a missing one.
	Strings func(t testing.TB, id favfilter.PageID) (bits, regions []byte)

	// Overwrite replaces the named string ("bits" or "regions") of a page by value, or deletes the
	// string if value is nil. Overwrite is nil for a store whose pages cannot be damaged.
	Overwrite func(t testing.TB, id favfilter.PageID, which string, value []byte)

	// Other is a store with the same pages, as another process would open it. It is nil for a store
	// of a single process.
	Other favfilter.Store

	// Slow reports that round trips take long. The longest cases then make fewer of them.
	Slow bool

	// Advance advances the clock of the store by at least [Expire]. It is nil for a store whose
	// clock the test cannot set.
	Advance func(t testing.TB)
}

// rounds returns the number of repetitions of a case that repeats n times for a fast backend.
func (b Backend) rounds(n int) int {
	if b.Slow {
		return max(1, n/10)
	}
	return n
}

// one returns a store for the n-th writer: every other one is of another process.
func (b Backend) one(n int) favfilter.Store {
	if n%2 == 1 && b.Other != nil {
		return b.Other
	}
	return b.Store
}

// Expire is the time to live that the suite gives to pages before it calls Backend.Advance. Advance
// must advance the clock by at least that much.
const Expire = 1000 * 1000 * 1000 // a second, in nanoseconds

// Run runs the suite. Each call of open returns an empty store, separated from other stores by its
// name, never by flushing a server.
func Run(t *testing.T, open func(t testing.TB) Backend) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(t *testing.T, b Backend)
	}{
		{"a missing page loads as nothing", loadMissing},
		{"replace follows its conditions", replaceConditions},
		{"changes of a loaded or replacing page stay local", isolated},
		{"a guarded batch of another identity changes nothing", foreignBatch},
		{"a jammed batch changes nothing", jammedBatch},
		{"a batch that would fill a page changes nothing", overfullBatch},
		{"the last key finds a page exactly full", exactlyFull},
		{"a page that has grown is replaced and loaded", grownReplaced},
		{"racing writers make a page grow", racingGrowth},
		{"a replacement by nothing removes", removes},
		{"pages are loaded whole", loadedWhole},
		{"many pages in one call", manyPages},
		{"parts of a page are separate", partsApart},
		{"a wrong count does not fall below 0", wrongCount},
		{"load and compare", loadAndCompare},
		{"peek reports stored pages", peeked},
		{"a replacement may be replayed", replayedReplacement},
		{"an empty page expires, one with keys does not", expiry},
		{"a replacement sets the time to live", expiryOfReplacements},
		{"a value is stored beside pages", valueStored},
		{"a value is no page", valueIsNoPage},
		{"a value expires", valueExpires},
		{"a cancelled context", cancelled},
		{"a page that another process changes", changedByAnother},
		{"racing guarded writers", racingGuarded},
		{"random batches leave the same bytes as Page.Apply", sameBytes},
		{"random batches to pages of unusual shapes leave them, too", sameBytesOfShapes},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
	for name, run := range map[string]func(t *testing.T, b Backend){
		"every call reports damage":    damagedPage,
		"and of a page that has grown": damagedLayers,
		"a lost string of a page":      halfLost,
		"a damaged page gives way":     damageGivesWay,
		"a value has any bytes":        valueOfAnyBytes,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			if b.Overwrite == nil {
				t.Skip("a page of this store cannot be damaged")
			}
			run(t, b)
		})
	}
}

func testIdentity() favfilter.Identity {
	return favfilter.Identity{Seed: 42, Pages: 64, Incarnation: 7}
}

func header(number uint32, capacity int) favfilter.Header {
	shape, err := favfilter.ShapeFor(capacity, 0.001)
	if err != nil {
		panic(err)
	}
	return favfilter.Header{Identity: testIdentity(), Shape: shape, Number: number, Build: 1000 + uint64(number)}
}

func newPage(t testing.TB, h favfilter.Header) *favfilter.Page {
	t.Helper()
	p, err := favfilter.NewPage(h)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// create stores an empty page with header h where there is none.
func create(t testing.TB, s favfilter.Store, id favfilter.PageID, h favfilter.Header) {
	t.Helper()
	put(t, s, id, newPage(t, h))
}

// put stores a page where there is none.
func put(t testing.TB, s favfilter.Store, id favfilter.PageID, page *favfilter.Page) {
	t.Helper()
	replace(t, s, favfilter.Replacement{ID: id, Page: page}, true)
}

// replace checks whether a replacement is done.
func replace(t testing.TB, s favfilter.Store, r favfilter.Replacement, want bool) {
	t.Helper()
	if done, err := s.Replace(t.Context(), r); err != nil || done != want {
		t.Fatalf("replace %v, seen %.10x, newer %v: done %v, %v, want %v", r.ID, r.Seen, r.Newer, done, err, want)
	}
}

func load(t testing.TB, s favfilter.Store, id favfilter.PageID) favfilter.Loaded {
	t.Helper()
	l, _, err := s.Load(t.Context(), []favfilter.PageID{id})
	if err != nil {
		t.Fatal(err)
	}
	return l[0]
}

func apply(t testing.TB, s favfilter.Store, b favfilter.Batch) favfilter.Result {
	t.Helper()
	return applyContext(t.Context(), t, s, b)
}

func applyContext(ctx context.Context, t testing.TB, s favfilter.Store, b favfilter.Batch) favfilter.Result {
	t.Helper()
	if b.Identity == (favfilter.Identity{}) {
		b.Identity = testIdentity()
	}
	res := s.Apply(ctx, []favfilter.Batch{b})
	if len(res) != 1 {
		t.Fatalf("one batch, %d results", len(res))
	}
	if res[0].Err != nil {
		t.Errorf("apply: %v", res[0].Err)
	}
	return res[0]
}

func wantState(t testing.TB, r favfilter.Result, want favfilter.State) {
	t.Helper()
	if r.State != want {
		t.Fatalf("state %v, want %v (header %+v)", r.State, want, r.Header)
	}
}

// wantBytes checks that the strings of a page are stored.
func wantBytes(t testing.TB, b Backend, id favfilter.PageID, want *favfilter.Page) {
	t.Helper()
	raw, collisions := want.Encode()
	gotRaw, gotCollisions := b.Strings(t, id)
	if !bytes.Equal(raw, gotRaw) || !bytes.Equal(collisions, gotCollisions) {
		t.Errorf("page %v: the stored strings are not the page's", id)
	}
}

// remember returns a function that checks that the strings of a page are as they are now.
func remember(t testing.TB, b Backend, id favfilter.PageID) (unchanged func(what string)) {
	t.Helper()
	bits, regions := b.Strings(t, id)
	return func(what string) {
		t.Helper()
		if nowBits, nowRegions := b.Strings(t, id); !bytes.Equal(bits, nowBits) || !bytes.Equal(regions, nowRegions) {
			t.Errorf("%s: the page changed", what)
		}
	}
}

func hashes(from, n int) []favfilter.Hash {
	hs := make([]favfilter.Hash, n)
	for i := range hs {
		hs[i] = keyHash(from + i)
	}
	return hs
}

// keyHash returns the hash of a key. Up to number 10,000, three keys of four have a weight.
func keyHash(i int) favfilter.Hash {
	r := rand.New(rand.NewPCG(99, uint64(i)))
	h := favfilter.Hash{H1: r.Uint64(), H2: r.Uint64()}
	if i < 10_000 {
		h.Extra = uint8(i % 4 * 5)
	}
	return h
}

func contains(p *favfilter.Page, hs ...favfilter.Hash) bool {
	for _, h := range hs {
		if !p.Contains(h) {
			return false
		}
	}
	return true
}
