package pages

import (
	"testing"
)

// Failures and successes in turn are one episode. It ends once nothing has failed for a while.
func TestEpisode(t *testing.T) {
	var e episode
	if e.worked(0) {
		t.Error("an episode ends that did not begin")
	}
	now := int64(1)
	for i := range 100 {
		if begins := e.failed(now); begins != (i == 0) {
			t.Fatalf("failure %d begins an episode: %v", i, begins)
		}
		if e.worked(now) || e.worked(now+int64(calm)-1) {
			t.Fatalf("the episode ends soon after failure %d", i)
		}
		now += int64(calm) - 1
	}
	now += int64(calm)
	if !e.worked(now) || e.worked(now) {
		t.Error("the episode does not end exactly once")
	}
	if !e.failed(now) {
		t.Error("no second episode begins")
	}
}
