package pages

import (
	"iter"
	"math"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// PageState is the state of a page when it was last observed.
type PageState uint8

// States of a page.
const (
	PageUnknown  PageState = iota // not observed yet
	PageSound                     // as the ledger has it
	PageUnused                    // missing, and not needed
	PageMissing                   // missing, although needed
	PageDamaged                   // unreadable or torn
	PageBehind                    // stale: it lacks changes of the ledger
	PageForeign                   // of another ledger, or another page
	PageAhead                     // it has changes that the ledger lost in a restore
	PageOverfull                  // its false-positive rate is too high
)

func (s PageState) String() string {
	names := [...]string{"unknown", "sound", "unused", "missing", "damaged", "behind", "foreign", "ahead", "overfull"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// Faulty reports whether a page in this state has to be rebuilt.
func (s PageState) Faulty() bool { return s >= PageMissing }

// stateOf returns the state of a page with the given fault.
func stateOf(fault string) PageState {
	for s := PageMissing; s <= PageOverfull; s++ {
		if s.String() == fault {
			return s
		}
	}
	return PageSound
}

// SurveyedPage is a page as last observed: by the scrub, or when it was rebuilt.
type SurveyedPage struct {
	Number    uint32
	Dedicated bool // dedicated to one user
	State     PageState
	Keys      uint32
	Bytes     uint32  // of bits and collision bitmap
	Fill      float64 // share of set bits, 0 to 1, to within 1/65,535
	Collided  float64 // share of regions with a collision bit, the same
	// Rate is the false-positive rate of one key; 0 if the page has grown, because its header then
	// does not tell.
	Rate   float64
	Behind uint64        // changes of the ledger that it lacked
	Age    time.Duration // since it was observed, in whole seconds; 0 if never
}

// SurveyTotals holds sums over all pages.
type SurveyTotals struct {
	Pages     int    // number of pages
	Dedicated int    // of these, dedicated pages
	Looked    int    // of all pages, those observed
	Faulty    int    // of these, pages found at fault and not known to be rebuilt
	Keys      uint64 // of the observed pages
	Bytes     uint64 // of the observed pages
}

// observation is the observation of a page, packed into 16 bytes.
type observation struct {
	keys uint32
	// size has the bytes of bits and collision bitmap. From bit 27 on it has the number of bits
	// that a key sets, minus one.
	size uint32
	// seen has the seconds since the pages were opened, in 27 bits. The next bit tells whether the
	// page has grown. The state follows from bit 28 on.
	seen     uint32
	fill     uint16 // in 1/65,535
	collided uint16
}

const (
	observedSizeBits  = 27 // favfilter.MaxBits and their collision bitmap take fewer
	observedGrown     = 1 << 27
	observedStateBits = 28
	observedWhole     = math.MaxUint16
)

func observationOf(state PageState, st favfilter.Status, seen time.Duration) observation {
	h, size := st.Header, st.Size
	g := observation{
		keys: h.Count,
		size: min(size.Bytes, 1<<observedSizeBits-1) | uint32(max(1, h.Shape.Hashes)-1)<<observedSizeBits,
		seen: uint32(min(seen/time.Second, observedGrown-1)) | uint32(state)<<observedStateBits,
		fill: shareOf(h.Set, size.Bits), collided: shareOf(st.Collided, size.Regions),
	}
	if h.Grown > 0 {
		g.seen |= observedGrown
	}
	return g
}

// shareOf returns set/all, scaled to 0 to 65,535. It returns 0 only if set is 0.
func shareOf(set, all uint32) uint16 {
	if set == 0 || all == 0 {
		return 0
	}
	return uint16(max(1, min(observedWhole, (uint64(set)*observedWhole+uint64(all)/2)/uint64(all))))
}

func (g observation) state() PageState { return PageState(g.seen >> observedStateBits) }

func (g observation) bytes() uint32 { return g.size & (1<<observedSizeBits - 1) }

// page unpacks an observation. now is the time since the pages were opened.
func (g observation) page(number uint32, own bool, now time.Duration) SurveyedPage {
	p := SurveyedPage{Number: number, Dedicated: own, State: g.state()}
	if p.State == PageUnknown {
		return p
	}
	p.Keys, p.Bytes = g.keys, g.bytes()
	p.Fill, p.Collided = float64(g.fill)/observedWhole, float64(g.collided)/observedWhole
	if g.seen&observedGrown == 0 && p.Bytes > 0 {
		p.Rate = 1
		for range g.size>>observedSizeBits + 1 {
			p.Rate *= p.Fill
		}
	}
	p.Age = max(0, now.Truncate(time.Second)-time.Duration(g.seen&(observedGrown-1))*time.Second)
	return p
}

// surveyChunk is the number of pages with adjacent numbers in one chunk of memory.
const surveyChunk = 1024

// survey holds the last observation of every page. A page takes 16 bytes, in chunks of 16 KiB that
// are allocated when one of their pages is first observed: 256 MiB for 2^24 pages.
type survey struct {
	mu     sync.RWMutex
	chunks map[uint32]*[surveyChunk]observation // by the number of a page divided by surveyChunk
	behind map[uint32]uint64                    // number of changes that stale pages lack
	totals SurveyTotals                         // without Pages and Dedicated
}

func newSurvey() survey {
	return survey{chunks: make(map[uint32]*[surveyChunk]observation), behind: make(map[uint32]uint64)}
}

// put stores an observation; the zero value forgets the page.
func (s *survey) put(page uint32, g observation, behind uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunk := s.chunks[page/surveyChunk]
	if chunk == nil {
		chunk = new([surveyChunk]observation)
		s.chunks[page/surveyChunk] = chunk
	}
	delete(s.behind, page)
	if behind > 0 {
		s.behind[page] = behind
	}
	s.count(chunk[page%surveyChunk], -1)
	s.count(g, 1)
	chunk[page%surveyChunk] = g
}

// count adds an observation to the totals (n = 1), or subtracts it (n = -1).
func (s *survey) count(g observation, n int) {
	if g.state() == PageUnknown {
		return
	}
	s.totals.Looked += n
	if g.state().Faulty() {
		s.totals.Faulty += n
	}
	s.totals.Keys += uint64(n) * uint64(g.keys) // wraps around for -1
	s.totals.Bytes += uint64(n) * uint64(g.bytes())
}

// keep forgets pages without users.
func (s *survey) keep(pages *pageSet) {
	s.mu.RLock()
	var gone []uint32
	for n, chunk := range s.chunks {
		for i := range chunk {
			if page := n*surveyChunk + uint32(i); chunk[i] != (observation{}) && !pages.has(page) {
				gone = append(gone, page)
			}
		}
	}
	s.mu.RUnlock()
	for _, page := range gone {
		s.put(page, observation{}, 0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, chunk := range s.chunks {
		if *chunk == ([surveyChunk]observation{}) {
			delete(s.chunks, n)
		}
	}
}

// observe stores the observed state of a page.
func (s *storage) observe(page uint32, state PageState, st favfilter.Status, behind uint64) {
	s.survey.put(page, observationOf(state, st, time.Since(s.life.opened)), behind)
}

// Survey yields every page as last observed: first shared pages, then dedicated ones, each in
// ascending order of number. It reads neither the store nor the ledger, and takes less than 0.1 us
// a page. It may run while pages are observed: each page is yielded as of some moment, and pages
// that are added or removed meanwhile may be missing.
func (in *Inspector) Survey() iter.Seq[SurveyedPage] {
	return func(yield func(SurveyedPage) bool) {
		now := time.Since(in.life.opened)
		pages := in.layout.pages()
		if !in.storage.survey.eachShared(pages.first, pages.shared, now, yield) {
			return
		}
		for _, page := range pages.dedicated {
			if !yield(in.storage.survey.page(in.storage.survey.chunk(page / surveyChunk)[page%surveyChunk], page, true, now)) {
				return
			}
		}
	}
}

// eachShared yields shared pages, in ascending order, and reports whether it reached the end.
func (s *survey) eachShared(first uint32, pages int, now time.Duration, yield func(SurveyedPage) bool) bool {
	var observations [surveyChunk]observation
	for i := range uint32(pages) {
		page := first + i
		if i == 0 || page%surveyChunk == 0 {
			observations = s.chunk(page / surveyChunk)
		}
		if !yield(s.page(observations[page%surveyChunk], page, false, now)) {
			return false
		}
	}
	return true
}

// chunk returns a copy of a chunk of observations.
func (s *survey) chunk(n uint32) (observations [surveyChunk]observation) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if chunk := s.chunks[n]; chunk != nil {
		observations = *chunk
	}
	return observations
}

// page unpacks an observation.
func (s *survey) page(g observation, number uint32, own bool, now time.Duration) SurveyedPage {
	p := g.page(number, own, now)
	if p.State == PageBehind {
		s.mu.RLock()
		defer s.mu.RUnlock()
		p.Behind = s.behind[number]
	}
	return p
}

// SurveyTotals returns sums over all pages as last observed.
func (in *Inspector) SurveyTotals() SurveyTotals {
	t, pages := in.storage.survey.sums(), in.layout.pages()
	t.Pages, t.Dedicated = pages.len(), len(pages.dedicated)
	return t
}

// sums returns the totals without Pages and Dedicated.
func (s *survey) sums() SurveyTotals {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.totals
}

// stateAlone returns the state of a page by its content. Without a ledger, a missing page cannot be
// told from an unused one.
func (s *storage) stateAlone(st favfilter.Status) PageState {
	switch {
	case st.Damage != nil && damageReason(st.Damage) == reasonForeign:
		return PageForeign
	case st.Damage != nil:
		return PageDamaged
	case st.Missing:
		return PageUnused
	case st.Header.Identity != s.identity:
		return PageForeign
	default:
		return PageSound
	}
}
