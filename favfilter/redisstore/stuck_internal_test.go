package redisstore

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

const (
	errTryAgain  = serverError("TRYAGAIN Multiple keys request during rehashing of slot")
	errNotServed = serverError("CLUSTERDOWN Hash slot not served")
)

// wantAsk checks whether a command for the page is sent, and whether it is expected to work.
func wantAsk(t *testing.T, s *stuck, kind string, page uint32, works, sent bool) {
	t.Helper()
	gotWorks, err := s.ask(kind, page)
	if gotWorks != works || (err == nil) != sent || err != nil && !errors.Is(err, ErrUnavailable) {
		t.Errorf("%s of page %d: works %v, error %v; want works %v, sent %v", kind, page, gotWorks, err, works, sent)
	}
}

// Commands of one kind for one page stop for a pause. Then one caller per pause retries, until a
// command is answered.
func TestStuck(t *testing.T) {
	for _, answer := range []error{errTryAgain, errNotServed} {
		synctest.Test(t, func(t *testing.T) {
			var s stuck
			wantAsk(t, &s, "load", 1, true, true)
			s.note("load", 1, answer)
			for range 3 {
				wantAsk(t, &s, "load", 1, false, false)
			}
			wantAsk(t, &s, "apply", 1, true, true)
			wantAsk(t, &s, "load", 2, true, true)
			for range 3 {
				time.Sleep(guardPause)
				wantAsk(t, &s, "load", 1, false, true)
				wantAsk(t, &s, "load", 1, false, false) // one caller tries
				s.note("load", 1, answer)
				wantAsk(t, &s, "load", 1, false, false)
			}
			time.Sleep(guardPause)
			wantAsk(t, &s, "load", 1, false, true)
			s.note("load", 1, nil)
			wantAsk(t, &s, "load", 1, true, true)
			if n := s.noted.Load(); n != 0 {
				t.Errorf("%d pages are noted", n)
			}
		})
	}
}

// A slot is served again when it answers, even with another error. A failed connection does not
// count.
func TestStuckEnds(t *testing.T) {
	for answer, ends := range map[error]bool{
		nil: true, serverError("OOM command not allowed"): true,
		io.EOF: false, context.Canceled: false, ErrUnavailable: false,
	} {
		var s stuck
		s.note("load", 1, errTryAgain)
		s.note("load", 2, errTryAgain)
		s.note("load", 1, answer)
		wantAsk(t, &s, "load", 1, ends, ends)
		wantAsk(t, &s, "load", 2, false, false)
	}
	var s stuck
	s.note("load", 1, io.EOF)
	wantAsk(t, &s, "load", 1, true, true)
}

// The number of noted pages is bounded. Commands for further pages are sent as usual, and noted
// pages stay noted.
func TestStuckIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stuck
		for page := range uint32(maxStuck + 2) {
			s.note("load", page, errTryAgain)
		}
		if n := s.noted.Load(); n != maxStuck {
			t.Errorf("%d pages are noted, want %d", n, maxStuck)
		}
		wantAsk(t, &s, "load", maxStuck, true, true)
		time.Sleep(guardPause)
		s.note("load", 7, errTryAgain)
		wantAsk(t, &s, "load", 7, false, false)
		wantAsk(t, &s, "load", 8, false, true)
	})
}
