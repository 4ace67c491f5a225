package pages

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Survey describes the pages as the last whole round of the scrub read them. A page that the round
// rebuilt counts as it was before.
type Survey struct {
	Whole  bool      // a round has ended; until then, these are the pages read so far
	Ended  time.Time // when the round ended; zero before
	Looked int       // pages read
	Faulty int       // of these, pages that had to be rebuilt and could not be

	Shared, Dedicated Figures

	load load
}

// Figures counts pages of the store that can be read, by their properties.
type Figures struct {
	Keys     Histogram
	Bytes    Histogram // of bits and collision bitmap
	Fill     Histogram // share of set bits, 0 to 1
	Collided Histogram // share of regions with a collision bit, 0 to 1
	Rate     Histogram // false-positive rate of one key, 0 to 1
}

// Histogram counts values.
type Histogram struct {
	Bounds []float64 // of the buckets, ascending; read-only
	Counts []uint64  // values up to each bound, and above the one before it
	Count  uint64    // all values
	Sum    float64
}

func newSurvey() *Survey { return &Survey{Shared: newFigures(), Dedicated: newFigures()} }

func newFigures() Figures {
	of := func(bounds ...float64) Histogram {
		return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds))}
	}
	return Figures{
		Keys:     of(0, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 65536, 1<<20),
		Bytes:    of(512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 1<<18, 1<<20),
		Fill:     of(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6),
		Collided: of(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
		Rate:     of(1e-7, 1e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2),
	}
}

func (h *Histogram) add(value float64) {
	h.Count++
	h.Sum += value
	if i, _ := slices.BinarySearch(h.Bounds, value); i < len(h.Counts) {
		h.Counts[i]++
	}
}

// Keys returns the number of keys of all pages.
func (s *Survey) Keys() uint64 { return uint64(s.Shared.Keys.Sum + s.Dedicated.Keys.Sum) }

// Bytes returns the size of all pages.
func (s *Survey) Bytes() uint64 { return uint64(s.Shared.Bytes.Sum + s.Dedicated.Bytes.Sum) }

// add adds a page that was read.
func (s *Survey) add(page uint32, st favfilter.Status) {
	s.Looked++
	if st.Missing || st.Damage != nil {
		return
	}
	f := &s.Shared
	if page >= ledger.DedicatedPages {
		f = &s.Dedicated
	}
	f.Keys.add(float64(st.Header.Count))
	f.Bytes.add(float64(st.Size.Bytes))
	if st.Size.Bits > 0 {
		fill := float64(st.Header.Set) / float64(st.Size.Bits)
		f.Fill.add(fill)
		f.Collided.add(float64(st.Collided) / float64(st.Size.Regions))
		f.Rate.add(math.Pow(fill, float64(st.Header.Shape.Hashes)))
	}
}

// clone returns a copy that later calls of add do not change.
func (s *Survey) clone() *Survey {
	c := *s
	for _, f := range []*Figures{&c.Shared, &c.Dedicated} {
		for _, h := range []*Histogram{&f.Keys, &f.Bytes, &f.Fill, &f.Collided, &f.Rate} {
			h.Counts = slices.Clone(h.Counts)
		}
	}
	return &c
}

// Survey returns the survey of the last round. It is read-only.
func (p *Pages) Survey() *Survey { return p.storage.stats.survey.Load() }

// publish makes a survey that of the last round, unless it is of a part of the pages and there is
// one of more. It logs once that there are too few pages.
func (sc *Scrubber) publish(s *Survey) {
	before := sc.storage.stats.survey.Load()
	if !s.Whole && (before.Whole || before.Looked > s.Looked) {
		return
	}
	if s.Whole {
		s.Ended = time.Now()
	}
	sc.storage.stats.survey.Store(s.clone())
	if due := s.load.due(); s.Whole && due > 0 && before.load.due() == 0 {
		mean := s.load.keys / uint64(s.load.pages)
		sc.storage.log.Warn(
			"pages have too many keys, and feeds read more than they need: a reshape is due",
			"pages", s.load.pages, "keys_per_page", mean, "reshape_to", due,
		)
	}
}

const (
	// DuePage is the mean number of keys on a shared page above which there are too few pages: every
	// feed reads the keys of others on its page. aimPage is the mean number with enough pages.
	DuePage = 4096
	aimPage = 2048
	// MaxPages is the largest number of pages that users share.
	MaxPages = ledger.MaxPages
	// DefaultPages is the number of pages of new data.
	DefaultPages = ledger.DefaultPages
)

// NumberFor returns the number of pages for so many keys, a power of two from [DefaultPages] to
// [MaxPages].
func NumberFor(keys uint64) uint32 { return max(DefaultPages, pagesOf(keys)) }

// pagesOf returns the smallest power of two of pages with at most aimPage keys on average.
func pagesOf(keys uint64) uint32 {
	if keys == 0 {
		return 1
	}
	return uint32(min(uint64(1)<<bits.Len64((keys-1)/aimPage), MaxPages))
}

// load is what a round of the scrub finds on the pages that users share.
type load struct {
	pages  int // pages that count
	shared int // all shared pages of the round
	keys   uint64
}

// weigh adds a page, unless it is a dedicated one.
func (sc *Scrubber) weigh(l *load, page uint32, st favfilter.Status) {
	all := sc.layout.Pages()
	switch {
	case !all.IsShared(page):
		return
	case st.Missing && sc.sequences.Of(page).Known.Load() == 0: // nobody has done anything
	case st.Missing, st.Damage != nil, isClosed(st.Header):
		return // it is about to be rebuilt
	}
	l.pages, l.shared = l.pages+1, all.Shared
	l.keys += uint64(st.Header.Count)
}

// due returns how many pages there should be, a power of two; 0 if there are enough.
func (l load) due() uint32 {
	if l.pages == 0 || l.keys <= uint64(l.pages)*DuePage {
		return 0
	}
	right := pagesOf(l.keys)
	if int(right) <= l.pages {
		return 0
	}
	return right
}
