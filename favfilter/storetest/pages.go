package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

func manyPages(t *testing.T, b Backend) {
	const n = 40
	ids := make([]favfilter.PageID, n)
	batches := make([]favfilter.Batch, n)
	for i := range ids {
		ids[i] = favfilter.PageID{Number: uint32(i)}
		if i%5 != 4 {
			create(t, b.Store, ids[i], header(uint32(i), 100+i*10))
		}
		count := 1 + i%3
		if i == 7 {
			count = 60
		}
		batches[i] = favfilter.Batch{ID: ids[i], Identity: testIdentity(), Sequence: 1, Add: hashes(i*100, count)}
	}
	for i, r := range b.Store.Apply(t.Context(), batches) {
		want := favfilter.Applied
		if i%5 == 4 {
			want = favfilter.Missing
		}
		if r.Err != nil || r.State != want {
			t.Errorf("page %d: %v %v, want %v", i, r.State, r.Err, want)
		}
	}
	loaded, _, err := b.Store.Load(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range loaded {
		if missing := i%5 == 4; (l.Page == nil) != missing {
			t.Errorf("page %d: loaded %v", i, l)
		} else if !missing && (l.Page.Header().Number != uint32(i) || !contains(l.Page, batches[i].Add...)) {
			t.Errorf("page %d does not hold its keys", i)
		}
	}
}

func partsApart(t *testing.T, b Backend) {
	ids := []favfilter.PageID{{Number: 11}, {Number: 11, Part: "seen"}, {Number: 12}, {Number: 12, Part: "seen"}}
	for _, i := range []int{0, 1, 3} {
		h := header(ids[i].Number, 100)
		if ids[i].Part != "" {
			h.Shape.Region = 0
		}
		create(t, b.Store, ids[i], h)
		wantState(t, apply(t, b.Store, favfilter.Batch{ID: ids[i], Add: hashes(i, 1)}), favfilter.Applied)
	}
	loaded, _, err := b.Store.Load(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range loaded {
		switch {
		case i == 2:
			if l.Page != nil {
				t.Error("a page that was never made")
			}
		case !l.Page.Contains(keyHash(i)) || l.Page.Header().Count != 1:
			t.Errorf("part %d does not hold its key", i)
		}
	}
	res := apply(t, b.Store, favfilter.Batch{ID: ids[1], Remove: hashes(1, 1)})
	if res.Outcomes[0] != favfilter.Stuck {
		t.Errorf("removal from a page without regions: %v, want stuck", res.Outcomes[0])
	}
}

// racingGuarded checks that exactly one of several concurrent writers with the same sequence wins.
func racingGuarded(t *testing.T, b Backend) {
	const writers = 8
	rounds := b.rounds(25)
	id := favfilter.PageID{Number: 17}
	create(t, b.Store, id, header(17, 1000))
	won := make([][]int, rounds+1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for seq := uint64(1); seq <= uint64(rounds); {
				key := int(seq)*100 + w
				res := applyContext(t.Context(), t, b.Store, favfilter.Batch{ID: id, Sequence: seq, Add: hashes(key, 1)})
				switch res.State {
				case favfilter.Applied:
					mu.Lock()
					won[seq] = append(won[seq], key)
					mu.Unlock()
					seq++
				case favfilter.Current:
					seq++
				default:
					t.Errorf("state %v at %d", res.State, seq)
					return
				}
			}
		})
	}
	wg.Wait()
	p := load(t, b.Store, id).Page
	for seq := 1; seq <= rounds; seq++ {
		if len(won[seq]) != 1 || !p.Contains(keyHash(won[seq][0])) {
			t.Errorf("sequence %d was won by %v", seq, won[seq])
		}
	}
	if int(p.Header().Count) != rounds || int(p.Header().Sequence) != rounds {
		t.Errorf("header %+v, want %d keys", p.Header(), rounds)
	}
}

// changedByAnother checks a store that has met a page which another process then replaces by one of
// another identity or shape. What the store remembers must not cause an error.
func changedByAnother(t *testing.T, b Backend) {
	if b.Other == nil {
		t.Skip("the store is of one process")
	}
	number := uint32(30)
	for name, c := range map[string]struct {
		change func(*favfilter.Header)
		want   favfilter.State
	}{
		"another build":       {func(h *favfilter.Header) { h.Build++ }, favfilter.Applied},
		"another incarnation": {func(h *favfilter.Header) { h.Incarnation++ }, favfilter.Foreign},
		"another seed":        {func(h *favfilter.Header) { h.Seed++ }, favfilter.Foreign},
		"twice the pages":     {func(h *favfilter.Header) { h.Pages *= 2 }, favfilter.Foreign},
		"more bits":           {func(h *favfilter.Header) { h.Shape.Bits += 8 }, favfilter.Applied},
		"fewer bits":          {func(h *favfilter.Header) { h.Shape.Bits -= 512 }, favfilter.Applied},
		"another hash":        {func(h *favfilter.Header) { h.Shape.Hashes++ }, favfilter.Applied},
		"without weights":     {func(h *favfilter.Header) { h.Shape.Uniform = true }, favfilter.Applied},
		"larger regions":      {func(h *favfilter.Header) { h.Shape.Region *= 2 }, favfilter.Applied},
		"no regions":          {func(h *favfilter.Header) { h.Shape.Region = 0 }, favfilter.Applied},
		"a higher sequence":   {func(h *favfilter.Header) { h.Sequence = 1 }, favfilter.Current},
	} {
		for _, keys := range []int{3, 60} { // by script, and by compare-and-swap
			number++
			id := favfilter.PageID{Number: number}
			create(t, b.Store, id, header(number, 200))
			h := header(number, 200)
			c.change(&h)
			page := newPage(t, h)
			page.Insert(keyHash(1000))
			r := favfilter.Replacement{ID: id, Page: page, Seen: load(t, b.Other, id).Version}
			replace(t, b.Other, r, true)
			batch := favfilter.Batch{ID: id, Identity: testIdentity(), Sequence: 1, Add: hashes(0, keys)}
			if res := apply(t, b.Store, batch); res.State != c.want {
				t.Errorf("%s: %d keys are %v, want %v", name, keys, res.State, c.want)
			}
			page.Apply(batch)
			if c.want == favfilter.Foreign { // a writer that knows of the change succeeds
				batch.Identity = h.Identity
				wantState(t, apply(t, b.Store, batch), favfilter.Applied)
				page.Apply(batch)
			}
			wantBytes(t, b, id, page)
		}
	}
}

// sameBytes applies the same random batches to the store and with Page.Apply.
func sameBytes(t *testing.T, b Backend) {
	met := make(tally)
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			id := favfilter.PageID{Number: 20 + uint32(seed)}
			h := header(id.Number, 30+rng.IntN(200))
			h.Shape.Hashes = uint8(1 + rng.IntN(14))
			h.Shape.Region = uint16([]int{0, 1, 3, 8, 13}[rng.IntN(5)])
			h.Shape.Uniform = rng.IntN(3) == 0
			model := newPage(t, h)
			if seed%2 == 1 {
				growRandomly(rng, model)
			}
			put(t, b.Store, id, model)
			met.wantSameBytes(t, b, rng, id, model)
		})
	}
	for _, what := range []string{"applied", "current", "behind", "jammed", "grown", "few bits cleared", "more bits cleared"} {
		if met[what] == 0 && !b.Slow {
			t.Errorf("no batch was %s: %v", what, met)
		}
	}
}

// tally counts what random batches met.
type tally map[string]int

// sameBytesOfShapes runs sameBytes on pages of unusual shapes. They have regions of one bit, a
// shorter last region that begins a new byte, all regions in one byte, or keys of one or two bits.
func sameBytesOfShapes(t *testing.T, b Backend) {
	for i, shape := range []favfilter.Shape{
		{Bits: 2088, Hashes: 5, Region: 1},
		{Bits: 2088, Hashes: 5, Region: 13},
		{Bits: 64, Hashes: 2, Region: 8},
		{Bits: 1 << 16, Hashes: 1, Region: 4},
		{Bits: 1 << 16, Hashes: 2, Region: 4},
		{Bits: 1 << 16, Hashes: favfilter.MaxHashes, Region: 4},
	} {
		t.Run(fmt.Sprintf("%+v", shape), func(t *testing.T) {
			id := favfilter.PageID{Number: 50 + uint32(i)}
			h := header(id.Number, 0)
			h.Shape = shape
			model := newPage(t, h)
			for _, key := range hashes(0, 5) {
				model.Insert(key)
			}
			put(t, b.Store, id, model)
			got, want := peek(t, b.Store, id)[0], model.Status()
			if got != want || shape.Bits == 64 && got.Collided == 0 {
				t.Errorf("peeked at\n     %+v\nwant %+v", got, want)
			}
			tally{}.wantSameBytes(t, b, rand.New(rand.NewPCG(1, 3)), id, model)
			if b.Overwrite != nil {
				b.Overwrite(t, id, "regions", nil)
				wantTorn(t, b, id)
			}
		})
	}
}

// wantSameBytes applies random batches to model and to the page in the store. It checks that both
// have the same bytes, and the same status, after each batch.
func (met tally) wantSameBytes(t *testing.T, b Backend, rng *rand.Rand, id favfilter.PageID, model *favfilter.Page) {
	t.Helper()
	for step := range b.rounds(150) {
		batch := randomBatch(rng, model)
		batch.ID, batch.Identity = id, testIdentity()
		trial := model.Clone()
		want := trial.Apply(batch)
		met.note(want, model.Header(), batch)
		if want.State == favfilter.Applied {
			model = trial
		}
		got := apply(t, b.Store, batch)
		if got.State != want.State || got.Version != want.Version || got.Header != want.Header || got.Cleared != want.Cleared ||
			!slices.Equal(got.Outcomes, want.Outcomes) {
			t.Fatalf("step %d:\n     %+v\nwant %+v", step, got, want)
		}
		wantBytes(t, b, id, model)
		if status := peek(t, b.Store, id)[0]; status != model.Status() {
			t.Errorf("step %d: peeked at\n     %+v\nwant %+v", step, status, model.Status())
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func (met tally) note(r favfilter.Result, before favfilter.Header, b favfilter.Batch) {
	met[r.State.String()]++
	if r.Header.Grown > before.Grown {
		met["grown"]++
	}
	if r.State == favfilter.Applied && b.Sequence > 0 && len(b.Remove) > 0 {
		if r.Cleared <= 4 {
			met["few bits cleared"]++
		} else {
			met["more bits cleared"]++
		}
	}
}

func randomBatch(rng *rand.Rand, p *favfilter.Page) favfilter.Batch {
	pick := func() []favfilter.Hash {
		n := rng.IntN(5)
		if rng.IntN(12) == 0 {
			n = 15 + rng.IntN(10)
		}
		from := rng.IntN(150)
		return hashes(from, n)
	}
	b := favfilter.Batch{Add: pick()}
	if rng.IntN(3) == 0 {
		b.Marks = hashes(-1-rng.IntN(20), rng.IntN(3)) // some of them again and again
	}
	switch rng.IntN(4) {
	case 0:
		b.Sequence = max(2, p.Header().Sequence) - 2 + uint64(rng.IntN(5))
		for _, h := range hashes(rng.IntN(150), 3) {
			if p.Contains(h) {
				b.Remove = append(b.Remove, h)
			}
		}
	case 1:
		b.Remove = pick()
	case 2:
		b.Remove = pick()
		b.Rate = 0.02
	case 3:
		b.Rate = growsSoon
	}
	return b
}

// growsSoon is a rate at which a page of any shape grows within some keys.
const growsSoon = 1e-9

// growRandomly adds keys to a page until it has 2 to 4 layers, or has all of the keys.
func growRandomly(rng *rand.Rand, page *favfilter.Page) {
	h := page.Header()
	batch := favfilter.Batch{ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Rate: growsSoon}
	layers := uint8(1 + rng.IntN(3))
	for i := 0; page.Header().Grown < layers && i < 150; i++ {
		batch.Add = hashes(i, 1)
		page.Apply(batch)
	}
}
