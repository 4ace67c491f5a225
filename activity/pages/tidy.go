package pages

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// enoughCleared is the number of bits that a removal must clear. If it clears fewer, the page
	// is rebuilt. A removed key is reported again if later keys set its cleared bits. With four
	// bits, that happens to fewer than one in 1,000 keys, even if a quarter of the page's keys come
	// later.
	enoughCleared = 4
	// idleShare is the length of the pause after work, in multiples of the work's duration.
	idleShare = 4
	// tidyPause is the pause after work that failed.
	tidyPause = time.Second
)

// tidying lists the pages to rebuild because removals left too many bits of keys in them, each
// once, in the order found.
type tidying struct {
	mu     sync.Mutex
	listed map[uint32]bool
	order  []uint32
	more   chan struct{} // has an element while there may be pages
}

func newTidying() tidying {
	return tidying{listed: make(map[uint32]bool), more: make(chan struct{}, 1)}
}

func (d *tidying) add(page uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listed[page] {
		return
	}
	d.listed[page] = true
	d.order = append(d.order, page)
	select {
	case d.more <- struct{}{}:
	default:
	}
}

func (d *tidying) next() (page uint32, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.order) == 0 {
		return 0, false
	}
	page, d.order = d.order[0], d.order[1:]
	delete(d.listed, page)
	return page, true
}

// tidyLoop rebuilds these pages, one at a time, with pauses. Until then, removed keys are reported
// a little more often.
func (sc *Scrubber) tidyLoop() {
	for {
		select {
		case <-sc.applier.tidying.more:
		case <-sc.life.closed:
			return
		}
		for sc.tidyNext() {
		}
	}
}

// tidyNext tidies one page. It reports whether to continue.
func (sc *Scrubber) tidyNext() bool {
	page, ok := sc.applier.tidying.next()
	if !ok {
		return false
	}
	start := time.Now()
	pause := tidyPause
	if sc.tidy(page) {
		pause = idleShare * time.Since(start)
	}
	rest := time.NewTimer(pause)
	defer rest.Stop()
	select {
	case <-rest.C:
		return true
	case <-sc.life.closed:
		return false
	}
}

// tidy rebuilds a page. It returns false if ledger or store is down, or if another large page is in
// progress.
func (sc *Scrubber) tidy(page uint32) bool {
	if sc.rebuilder.inParts(page) { // other pages would have to wait for it
		begun := sc.largeWork(func(ctx context.Context) { sc.tidyWithin(ctx, page) })
		if !begun {
			sc.applier.tidying.add(page)
		}
		return begun
	}
	ctx, cancel := context.WithTimeout(sc.life.base, pageTimeout)
	defer cancel()
	return sc.tidyWithin(ctx, page)
}

func (sc *Scrubber) tidyWithin(ctx context.Context, page uint32) bool {
	f, err := sc.rebuilder.rebuild(ctx, page, 0, "residue", math.MaxInt)
	if errors.Is(err, ledger.ErrGone) || err == nil && f.storeErr == nil && f.placed {
		return true
	}
	sc.applier.tidying.add(page) // the page was written to during the rebuild, or ledger or store is down
	return err == nil && f.storeErr == nil
}
