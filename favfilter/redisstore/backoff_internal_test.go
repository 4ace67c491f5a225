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
func wantAsk(t *testing.T, b *backoff, kind string, page uint32, works, sent bool) {
	t.Helper()
	gotWorks, err := b.ask(kind, page)
	if gotWorks != works || (err == nil) != sent || err != nil && !errors.Is(err, ErrUnavailable) {
		t.Errorf("%s of page %d: works %v, error %v; want works %v, sent %v", kind, page, gotWorks, err, works, sent)
	}
}

// Commands of one kind for one page stop for a pause. Then one caller per pause retries, until a
// command is answered.
func TestBackoff(t *testing.T) {
	for _, answer := range []error{errTryAgain, errNotServed} {
		synctest.Test(t, func(t *testing.T) {
			var b backoff
			wantAsk(t, &b, "load", 1, true, true)
			b.note("load", 1, answer)
			for range 3 {
				wantAsk(t, &b, "load", 1, false, false)
			}
			wantAsk(t, &b, "apply", 1, true, true)
			wantAsk(t, &b, "load", 2, true, true)
			for range 3 {
				time.Sleep(guardPause)
				wantAsk(t, &b, "load", 1, false, true)
				wantAsk(t, &b, "load", 1, false, false) // one caller tries
				b.note("load", 1, answer)
				wantAsk(t, &b, "load", 1, false, false)
			}
			time.Sleep(guardPause)
			wantAsk(t, &b, "load", 1, false, true)
			b.note("load", 1, nil)
			wantAsk(t, &b, "load", 1, true, true)
			if n := b.noted.Load(); n != 0 {
				t.Errorf("%d pages are noted", n)
			}
		})
	}
}

// A slot is served again when it answers, even with another error. A failed connection does not
// count.
func TestBackoffEnds(t *testing.T) {
	for answer, ends := range map[error]bool{
		nil: true, serverError("OOM command not allowed"): true,
		io.EOF: false, context.Canceled: false, ErrUnavailable: false,
	} {
		var b backoff
		b.note("load", 1, errTryAgain)
		b.note("load", 2, errTryAgain)
		b.note("load", 1, answer)
		wantAsk(t, &b, "load", 1, ends, ends)
		wantAsk(t, &b, "load", 2, false, false)
	}
	var b backoff
	b.note("load", 1, io.EOF)
	wantAsk(t, &b, "load", 1, true, true)
}

// The number of noted pages is bounded. Commands for further pages are sent as usual, and noted
// pages stay noted.
func TestBackoffIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff
		for page := range uint32(maxBackoff + 2) {
			b.note("load", page, errTryAgain)
		}
		if n := b.noted.Load(); n != maxBackoff {
			t.Errorf("%d pages are noted, want %d", n, maxBackoff)
		}
		wantAsk(t, &b, "load", maxBackoff, true, true)
		time.Sleep(guardPause)
		b.note("load", 7, errTryAgain)
		wantAsk(t, &b, "load", 7, false, false)
		wantAsk(t, &b, "load", 8, false, true)
	})
}
