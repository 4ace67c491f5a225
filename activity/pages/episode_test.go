package pages

import (
	"testing"
)

// What fails and works in turn is one episode, which ends when nothing has failed for a while.
func TestEpisode(t *testing.T) {
	var e episode
	if e.worked(0) {
		t.Error("an episode ends that never began")
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
		t.Error("the episode does not end once")
	}
	if !e.failed(now) {
		t.Error("another does not begin")
	}
}
