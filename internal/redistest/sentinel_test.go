package redistest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestSentinelStarts(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	servers := s.Servers()
	if len(servers) != 2 || len(s.Sentinels()) != 3 || s.Sentinels()[0].Addr() == servers[0].Addr() {
		t.Fatalf("%d servers and %d sentinels, want 2 and 3", len(servers), len(s.Sentinels()))
	}
	var watchers []*redistest.Server
	watchers = append(watchers, s.Sentinels()...)
	parsed, err := url.Parse(s.URL())
	if err != nil || parsed.Scheme != "redis+sentinel" || parsed.Path != "/primary" {
		t.Errorf("URL() = %q, %v; want redis+sentinel://.../primary", s.URL(), err)
	}
	var hosts []string
	for _, w := range watchers {
		hosts = append(hosts, w.Addr())
	}
	if parsed.Host != strings.Join(hosts, ",") {
		t.Errorf("URL() = %q, want the sentinels %v in it", s.URL(), hosts)
	}
	client := failoverClient(t, hosts)
	set(t, client, "key", "value")
	if got := servers[0].Client().Get(t.Context(), "key").Val(); got != "value" {
		t.Errorf("the primary has %q, want what was written by way of the sentinels", got)
	}
	if err := servers[1].Client().Set(t.Context(), "key", "value", 0).Err(); !redis.IsReadOnlyError(err) {
		t.Errorf("SET on the replica: %v, want READONLY", err)
	}
}

func TestLongSentinelFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 2, 3)
	first := sentinelPrimary(t, s)
	set(t, first.Client(), "key", "value")
	if err := first.Client().Wait(t.Context(), 2, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Failover(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	if err := s.WaitOK(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func sentinelPrimary(t *testing.T, s *redistest.Sentinel) *redistest.Server {
	t.Helper()
	primary, err := s.Primary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return primary
}

func failoverClient(t *testing.T, sentinels []string) *redis.Client {
	t.Helper()
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            "primary",
		SentinelAddrs:         sentinels,
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
