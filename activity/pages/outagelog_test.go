package pages

import (
	"testing"
)

// Failures and successes in turn are one outage. It ends once nothing has failed for a while.
func TestOutage(t *testing.T) {
	var e outage
	if e.worked(0) {
		t.Error("an outage ends that did not begin")
	}
	now := int64(1)
	for i := range 100 {
		if begins := e.failed(now); begins != (i == 0) {
			t.Fatalf("failure %d begins an outage: %v", i, begins)
		}
		if e.worked(now) || e.worked(now+int64(outageQuiet)-1) {
			t.Fatalf("the outage ends soon after failure %d", i)
		}
		now += int64(outageQuiet) - 1
	}
	now += int64(outageQuiet)
	if !e.worked(now) || e.worked(now) {
		t.Error("the outage does not end exactly once")
	}
	if !e.failed(now) {
		t.Error("no second outage begins")
	}
}
