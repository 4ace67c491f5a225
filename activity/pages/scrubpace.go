package pages

import (
	"time"

	"github.com/feedfilter/feedfilter/activity/pages/known"
)

const (
	// A scrub goes on lossSpeed times as fast after a step in which one page in lossShare was at
	// fault: the store has lost many. Whether pages are lost, or have lost changes, it knows only
	// when it looks at them again. If so many have, it goes on so until it has looked again at the
	// pages of the next step, and for lossMemory longer.
	lossSpeed  = 20
	lossShare  = 8
	lossMemory = 250 * time.Millisecond
)

// scrub is the state of the goroutine that scrubs.
type scrub struct {
	pages  *known.PageSet // of this round; nil: the round has not begun
	next   int            // index of the next page
	looked int            // headers since the last page to verify
	// missed is the number of pages of this round that were not compared. In the first round it
	// starts at 1, for the pages before the random first one.
	missed int
	survey *Survey // of this round

	stepped   int   // pages of the last step
	lost      bool  // of which many were at fault
	lostUntil int64 // many were found to be lost when looked at again; until when that counts
}

// pause returns the time from the last step to the next one, at a rate in pages a second.
func (s *scrub) pause(rate, now int64) time.Duration {
	if s.lost || now < s.lostUntil {
		return s.fastPause(rate)
	}
	return time.Duration(s.stepped) * time.Second / time.Duration(rate)
}

// fastPause is pause while many pages are lost. Passive Pages have no rate.
func (s *scrub) fastPause(rate int64) time.Duration {
	return time.Duration(s.stepped) * time.Second / time.Duration(max(1, rate)*lossSpeed)
}

// alarm counts a loss of many pages, unless the last one goes on.
func (sc *Scrubber) alarm(s *scrub) {
	if !s.lost && sc.life.Elapsed() >= s.lostUntil {
		sc.storage.stats.alarms.Add(1)
	}
}

// noteLoss notes that many pages have lost changes, or are lost.
func (sc *Scrubber) noteLoss(s *scrub) {
	sc.alarm(s)
	s.lostUntil = sc.arrivalTime() + int64(s.fastPause(sc.rate.Load())+lossMemory)
}
