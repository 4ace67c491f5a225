package activity

import (
	"iter"
	"math"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// PageState is how a page stood when it was last looked at.
type PageState uint8

// States of a page.
const (
	PageUnknown  PageState = iota // it was not looked at yet
	PageSound                     // as the ledger has it
	PageUnused                    // there is none, and nobody on it has done anything
	PageMissing                   // there is none
	PageDamaged                   // it cannot be read, or is half of one
	PageBehind                    // it lacks writes that the ledger has
	PageForeign                   // it is of another ledger, or another page
	PageAhead                     // it has writes of a ledger that was set back
	PageOverfull                  // it reports absent keys more often than it may
)

func (s PageState) String() string {
	names := [...]string{unknownName, "sound", "unused", "missing", "damaged", "behind", "foreign", "ahead", "overfull"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// Amiss reports whether a page that stands so has to be made anew.
func (s PageState) Amiss() bool { return s >= PageMissing }

// stateOf is the state that a fault leaves a page in.
func stateOf(fault string) PageState {
	for s := PageMissing; s <= PageOverfull; s++ {
		if s.String() == fault {
			return s
		}
	}
	return PageSound
}

// SurveyedPage is a page as it was last looked at: by the scrub, or when it was made anew.
type SurveyedPage struct {
	Number   uint32
	Own      bool // of one user alone
	State    PageState
	Keys     uint32
	Bytes    uint32        // of both its strings
	Fill     float64       // share of its bits that are set, 0 to 1, to within 1/65,535
	Collided float64       // share of its regions that are marked as shared, the same
	Rate     float64       // false-positive rate of one key; 0 where it has grown, and its header does not tell
	Behind   uint64        // changes of the ledger that it lacked
	Age      time.Duration // since it was looked at, in whole seconds; 0 where it was not
}

// SurveyTotals are sums over all pages.
type SurveyTotals struct {
	Pages  int    // that there are
	Own    int    // of them, those of one user alone
	Looked int    // those that were looked at
	Amiss  int    // those that were found amiss, and are not known to have been made anew
	Keys   uint64 // of those that were looked at
	Bytes  uint64 // the same
}

// glance is what is kept of a look at a page, in 16 bytes.
type glance struct {
	keys     uint32
	size     uint32 // bytes of both strings, and from bit 27 on one less than the bits a key sets
	seen     uint32 // seconds since the Recorder was opened, in 27 bits; then whether the page has grown; from bit 28 on the state
	fill     uint16 // of 65,535
	collided uint16
}

const (
	glanceSizeBits  = 27 // favfilter.MaxBits take less, marks included
	glanceGrown     = 1 << 27
	glanceStateBits = 28
	glanceWhole     = math.MaxUint16
)

func newGlance(state PageState, st favfilter.Standing, seen time.Duration) glance {
	h, size := st.Header, st.Size
	g := glance{
		keys: h.Count,
		size: min(size.Bytes, 1<<glanceSizeBits-1) | uint32(max(1, h.Shape.Hashes)-1)<<glanceSizeBits,
		seen: uint32(min(seen/time.Second, glanceGrown-1)) | uint32(state)<<glanceStateBits,
		fill: shareOf(h.Set, size.Bits), collided: shareOf(st.Collided, size.Regions),
	}
	if h.Grown > 0 {
		g.seen |= glanceGrown
	}
	return g
}

// shareOf is set of all as 0 to 65,535: only nothing is 0.
func shareOf(set, all uint32) uint16 {
	if set == 0 || all == 0 {
		return 0
	}
	return uint16(max(1, min(glanceWhole, (uint64(set)*glanceWhole+uint64(all)/2)/uint64(all))))
}

func (g glance) state() PageState { return PageState(g.seen >> glanceStateBits) }

func (g glance) bytes() uint32 { return g.size & (1<<glanceSizeBits - 1) }

// page is the glance at now, which is since the Recorder was opened.
func (g glance) page(number uint32, own bool, now time.Duration) SurveyedPage {
	p := SurveyedPage{Number: number, Own: own, State: g.state()}
	if p.State == PageUnknown {
		return p
	}
	p.Keys, p.Bytes = g.keys, g.bytes()
	p.Fill, p.Collided = float64(g.fill)/glanceWhole, float64(g.collided)/glanceWhole
	if g.seen&glanceGrown == 0 && p.Bytes > 0 {
		p.Rate = 1
		for range g.size>>glanceSizeBits + 1 {
			p.Rate *= p.Fill
		}
	}
	p.Age = max(0, now.Truncate(time.Second)-time.Duration(g.seen&(glanceGrown-1))*time.Second)
	return p
}

// surveyChunk is how many home pages are kept in one piece.
const surveyChunk = 1024

// survey is what was last seen of every page: 16 bytes for each home page, in pieces of 16 KiB that are made when one of
// theirs is looked at (256 MiB for 2^24 pages), and some 40 for each other page.
type survey struct {
	mu     sync.RWMutex
	homes  []*[surveyChunk]glance
	others map[uint32]glance
	behind map[uint32]uint64 // changes that pages lack which are behind
	totals SurveyTotals      // but for Pages and Own
}

func newSurvey(homes uint32) survey {
	return survey{
		homes:  make([]*[surveyChunk]glance, (homes+surveyChunk-1)/surveyChunk),
		others: make(map[uint32]glance), behind: make(map[uint32]uint64),
	}
}

// put keeps a glance; the zero value forgets the page.
func (s *survey) put(page uint32, g glance, behind uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.swap(page, g)
	delete(s.behind, page)
	if behind > 0 {
		s.behind[page] = behind
	}
	s.count(old, -1)
	s.count(g, 1)
}

// swap puts g in place of the glance that it returns.
func (s *survey) swap(page uint32, g glance) (old glance) {
	if page >= ledger.OwnPages {
		old = s.others[page]
		s.others[page] = g
		if g == (glance{}) {
			delete(s.others, page)
		}
		return old
	}
	chunk := s.homes[page/surveyChunk]
	switch {
	case chunk == nil && g == (glance{}):
		return old
	case chunk == nil:
		chunk = new([surveyChunk]glance)
		s.homes[page/surveyChunk] = chunk
	}
	old, chunk[page%surveyChunk] = chunk[page%surveyChunk], g
	return old
}

// count adds a glance to the totals, or takes it out.
func (s *survey) count(g glance, n int) {
	if g.state() == PageUnknown {
		return
	}
	s.totals.Looked += n
	if g.state().Amiss() {
		s.totals.Amiss += n
	}
	s.totals.Keys += uint64(n) * uint64(g.keys) // the other way round for -1
	s.totals.Bytes += uint64(n) * uint64(g.bytes())
}

// keep forgets pages that are no home pages and that nobody has any more.
func (s *survey) keep(others *census) {
	s.mu.RLock()
	var gone []uint32
	for page := range s.others {
		if !others.has(page) {
			gone = append(gone, page)
		}
	}
	s.mu.RUnlock()
	for _, page := range gone {
		s.put(page, glance{}, 0)
	}
}

// glanced keeps how a page stands.
func (r *Recorder) glanced(page uint32, state PageState, st favfilter.Standing, behind uint64) {
	if page < ledger.OwnPages && !r.placements.of(page).usesHome(page) {
		r.survey.put(page, glance{}, 0) // nobody is on it
		return
	}
	r.survey.put(page, newGlance(state, st, time.Since(r.opened)), behind)
}

// Survey goes through all pages as they were last looked at, those that users share first and those of one user alone
// after them, each in ascending order of number. It asks nobody, takes less than 0.1 us a page, and may go on while pages
// are looked at: each is as it was at some moment, and those that come or go meanwhile may be missing.
func (r *Recorder) Survey() iter.Seq[SurveyedPage] {
	return func(yield func(SurveyedPage) bool) {
		now := time.Since(r.opened)
		used := func(page uint32) bool { return r.placements.of(page).usesHome(page) }
		if !r.survey.eachHome(r.identity.Pages, used, now, yield) {
			return
		}
		others := r.placements.census()
		for i := range others.len() {
			page := others.number(i)
			if !yield(r.survey.page(r.survey.other(page), page, i >= len(others.shared), now)) {
				return
			}
		}
	}
}

// eachHome yields the home pages that are used, in ascending order, and reports whether it got to the end.
func (s *survey) eachHome(pages uint32, used func(page uint32) bool, now time.Duration, yield func(SurveyedPage) bool) bool {
	for first := uint32(0); first < pages; first += surveyChunk {
		chunk := s.chunk(first / surveyChunk)
		for page := first; page < min(pages, first+surveyChunk); page++ {
			if used(page) && !yield(s.page(chunk[page-first], page, false, now)) {
				return false
			}
		}
	}
	return true
}

// chunk is a copy of the glances at the n-th piece of the home pages.
func (s *survey) chunk(n uint32) (glances [surveyChunk]glance) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if chunk := s.homes[n]; chunk != nil {
		glances = *chunk
	}
	return glances
}

// other is the glance at a page that is no home page.
func (s *survey) other(page uint32) glance {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.others[page]
}

// page is a glance in words.
func (s *survey) page(g glance, number uint32, own bool, now time.Duration) SurveyedPage {
	p := g.page(number, own, now)
	if p.State == PageBehind {
		s.mu.RLock()
		defer s.mu.RUnlock()
		p.Behind = s.behind[number]
	}
	return p
}

// SurveyTotals returns sums over all pages as they were last looked at.
func (r *Recorder) SurveyTotals() SurveyTotals {
	t, pages := r.survey.sums(), r.placements.census()
	t.Pages, t.Own = pages.homes+pages.len(), len(pages.own)
	return t
}

// sums are the totals, but for Pages and Own.
func (s *survey) sums() SurveyTotals {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.totals
}

// stateAlone is how a page stands by what it says itself. Without a ledger nobody can tell whether one is missing.
func (r *reader) stateAlone(st favfilter.Standing) PageState {
	switch {
	case st.Damage != nil && damageReason(st.Damage) == reasonForeign:
		return PageForeign
	case st.Damage != nil:
		return PageDamaged
	case st.Missing:
		return PageUnused
	case st.Header.Identity != r.identity:
		return PageForeign
	default:
		return PageSound
	}
}
