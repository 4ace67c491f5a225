package redistest_test

import (
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestLongSentinelFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 2, 3)
	first := sentinelPrimary(t, s)
	set(t, first.Client(), "key", "value")
	must(t, first.Replicated(t.Context(), 2))
	must(t, s.Failover(t.Context()))
	second := sentinelPrimary(t, s)
	if second == first {
		t.Fatalf("after a failover the primary is still %s", first.Addr())
	}
	waitSentinels(t, s)
	second.Kill()
	waitSentinels(t, s)
	third := sentinelPrimary(t, s)
	if got := third.Client().Get(t.Context(), "key").Val(); got != "value" || third == second {
		t.Errorf("the primary after the end of %s is %s and has %q, want another, with what was written", second.Addr(), third.Addr(), got)
	}
	// The second server comes back as a primary. The sentinels make it a replica, and it keeps that
	// role.
	second.Restart()
	waitSentinels(t, s)
	second.Kill()
	second.Restart()
	waitSentinels(t, s)
	if got := sentinelPrimary(t, s); got != third {
		t.Errorf("the primary is %s, want it unchanged, %s", got.Addr(), third.Addr())
	}
	if !slices.Contains(s.Servers(), third) {
		t.Error("the primary is not among Servers()")
	}
}

func waitSentinels(t *testing.T, s *redistest.Sentinel) {
	t.Helper()
	must(t, s.WaitOK(t.Context()))
}

func sentinelPrimary(t *testing.T, s *redistest.Sentinel) *redistest.Server {
	t.Helper()
	primary, err := s.Primary(t.Context())
	must(t, err)
	return primary
}
