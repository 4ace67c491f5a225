package core

import (
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// TestUnsure: a feed with several degraded kinds counts once.
func TestUnsure(t *testing.T) {
	c := NewFeedCounts(activity.BuiltinKinds())
	for range 5 {
		c.count(feed.Answer{Degraded: []activity.Degraded{{Kind: "seen"}, {Kind: "hide"}}})
	}
	if n := c.Unsure.Load(); n != 5 {
		t.Errorf("%d feeds, want 5", n)
	}
}
