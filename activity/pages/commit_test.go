package pages

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// A group takes waiting writes up to its limit. A write whose caller has canceled is left out, and
// gets the caller's error.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		of := func(ctx context.Context, changes int) *write {
			return newWrite(ctx, make([]ledger.Change, changes))
		}
		first, abandoned := of(t.Context(), maxGroup/2), of(gone, maxGroup)
		last, beyond := of(t.Context(), maxGroup/2), of(t.Context(), 1)
		c := &committer{queue: make(chan *write)}
		for _, w := range []*write{abandoned, last, beyond} {
			go func() { c.queue <- w }()
			synctest.Wait() // the write is in the queue, behind the earlier ones
		}
		if group := c.gather(first); !slices.Equal(group, []*write{first, last}) {
			t.Errorf("a group of %d writes", len(group))
		}
		if w := <-c.queue; w != beyond {
			t.Error("the group took more than its limit")
		}
		<-abandoned.done
		if !errors.Is(abandoned.err, context.Canceled) {
			t.Errorf("error %v of a canceled write", abandoned.err)
		}
	})
}
