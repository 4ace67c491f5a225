package pages

import (
	"math/bits"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

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
	pages int
	keys  uint64
}

// weigh adds a page, unless it is a dedicated one.
func (sc *Scrubber) weigh(l *load, page uint32, st favfilter.Status) {
	switch {
	case !sc.layout.pages().isShared(page):
		return
	case st.Missing && sc.sequences.of(page).known.Load() == 0: // nobody has done anything
	case st.Missing, st.Damage != nil, isClosed(st.Header):
		return // it is about to be rebuilt
	}
	l.pages++
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
