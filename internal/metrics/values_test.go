package metrics_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// wantValues checks the values of series. Each value must be unique, so that none can be mistaken
// for another.
func wantValues(t *testing.T, r *metrics.Registry, want map[string]float64) {
	t.Helper()
	got := values(t, r)
	for series, value := range want {
		if v, ok := got["feedfilter_"+series]; !ok || v != value {
			t.Errorf("feedfilter_%s is %v (exported: %v), want %v", series, v, ok, value)
		}
	}
}

// TestRecorderValues checks that each number of a Recorder has its own name and label, and that
// times are in seconds.
func TestRecorderValues(t *testing.T) {
	r := metrics.New(metrics.Settings{FalsePositiveRate: 0.25, StalenessBound: 1500 * time.Millisecond})
	r.Activities(true, func() activity.Stats {
		return activity.Stats{Stats: pages.Stats{
			Scrubbed: 1, ScrubRounds: 2, ScrubAge: 3 * time.Second, ScrubRate: 4, Found: map[string]uint64{"behind": 5}, Verified: 6, Alarms: 7,
			Polls: 8, PollsFailed: 9, PollAge: 10 * time.Millisecond,
			FromStore: 11, FromLedger: 12, FromHeld: 13, FromReplica: 14, PastReplica: 15, HeldBytes: 16,
			SharedPages: 21, KeysPerPage: 22, ReshapeDue: 23, Reshaping: true, DedicatedPages: 24,
			WithoutPage: 28, Ended: 29, Waiting: 30, Rebuilding: 31,
		}, Recorded: map[string]uint64{"block": 17}, Confirmed: 26, FalsePositives: 27,
			WindowEvicted: map[string]uint64{"seen": 32}, WindowDamaged: map[string]uint64{"seen": 33}}
	})
	wantValues(t, r, map[string]float64{
		"configured_false_positive_ratio": 0.25, "configured_staleness_bound_seconds": 1.5,
		"scrub_pages_total": 1, "scrub_rounds_total": 2, "scrub_age_seconds": 3, "configured_scrub_pages_per_second": 4,
		`scrub_findings_total{reason="behind"}`: 5, `scrub_findings_total{reason="corrupt"}`: 0, "scrub_verified_total": 6, "scrub_alarms_total": 7,
		`polls_total{result="ok"}`: 8, `polls_total{result="failed"}`: 9, "poll_age_seconds": 0.01,
		`views_total{source="store"}`: 11, `views_total{source="ledger"}`: 12, `views_total{source="held"}`: 13, `views_total{source="replica"}`: 14,
		"views_past_replica_total": 15, "held_pages_bytes": 16, `activities_recorded_total{kind="block"}`: 17,
		`pages{use="shared"}`: 21, "shared_page_keys": 22, "reshape_due_pages": 23, "reshaping": 1,
		`pages{use="dedicated"}`: 24, "exact_positives_total": 26, "exact_false_positives_total": 27,
		"writes_without_page_total": 28, "activities_ended_total": 29, "writes_waiting": 30, "page_rebuilds_in_progress": 31,
		`window_evicted_total{kind="seen"}`: 32, `window_damaged_total{kind="seen"}`: 33,
	})
}

// TestUp checks what is reported as up. Either dependency alone can answer feeds. Without a ledger,
// only the pages count.
func TestUp(t *testing.T) {
	for _, c := range []struct {
		hasLedger, pagesDown, ledgerDown bool
		ready                            float64
	}{
		{true, false, false, 1}, {true, true, false, 1}, {true, false, true, 1}, {true, true, true, 0},
		{false, false, false, 1}, {false, true, false, 0},
	} {
		r := metrics.New(metrics.Settings{})
		r.Activities(c.hasLedger, func() activity.Stats {
			return activity.Stats{Stats: pages.Stats{PagesDown: c.pagesDown, LedgerDown: c.ledgerDown}}
		})
		up := map[bool]float64{false: 1, true: 0}
		want := map[string]float64{"ready": c.ready, `dependency_up{dependency="pages"}`: up[c.pagesDown]}
		if c.hasLedger {
			want[`dependency_up{dependency="ledger"}`] = up[c.ledgerDown]
		}
		wantValues(t, r, want)
		if _, told := values(t, r)[`feedfilter_dependency_up{dependency="ledger"}`]; told != c.hasLedger {
			t.Errorf("%+v: the ledger is told of: %v", c, told)
		}
	}
}

// TestServiceValues checks the other numbers of the service in the same way.
func TestServiceValues(t *testing.T) {
	r := metrics.New(metrics.Settings{})
	route := r.Requests().Route("/v1/kinds", "GET")
	route.Done(200, 2*time.Second)
	route.Done(200, time.Second)
	route.Done(429, time.Second)
	r.Load(func() metrics.Load {
		return metrics.Load{Requests: 1, RequestsLimit: 2, Streams: 3, StreamsLimit: 4, Bodies: 5, BodiesLimit: 6, Shed: 7}
	})
	candidates := r.Feeds(func() metrics.Feeds {
		return metrics.Feeds{Kept: 8, Dropped: map[string]uint64{"block": 9}, Degraded: map[string]uint64{"block": 10}}
	})
	candidates.Looked(11)
	r.Pools(func() []ledger.Pool {
		return []ledger.Pool{{Name: "calls", Most: 20, Open: 15, InUse: 12, Acquired: 13, Waited: 14, GivenUp: 16, Waiting: 17 * time.Second}}
	})
	r.Sampling(func() sampler.Stats {
		return sampler.Stats{Feeds: 18, Candidates: 19, Misses: 21, FalsePositives: 22, Late: 23, Undecided: 24, Repaired: 25, Skipped: 26}
	})
	r.TokenFile(func() (uint64, uint64) { return 27, 28 })
	r.Refused(func() map[string]uint64 { return map[string]uint64{"forbidden": 29} })
	r.Unread(func() map[string]uint64 { return map[string]uint64{"overloaded": 32} })
	r.Audit(func() uint64 { return 30 })
	r.Certificate(func() time.Time { return time.Unix(31, 0) })
	const of = `route="/v1/kinds"`
	wantValues(t, r, map[string]float64{
		`http_requests_total{code="200",method="GET",` + of + `}`: 2, `http_requests_total{code="429",method="GET",` + of + `}`: 1,
		`http_request_seconds_count{method="GET",` + of + `}`: 3, `http_request_seconds_sum{method="GET",` + of + `}`: 4,
		"http_requests_in_progress": 1, "http_requests_limit": 2, "http_streams_in_progress": 3, "http_streams_limit": 4,
		"http_bodies_held_bytes": 5, "http_bodies_limit_bytes": 6, "http_requests_shed_total": 7,
		"feed_kept_total": 8, `feed_dropped_total{kind="block"}`: 9, `feed_degraded_total{kind="block"}`: 10,
		"feed_candidates_count": 1, "feed_candidates_sum": 11,
		`ledger_pool_connections{pool="calls",state="used"}`: 12, `ledger_pool_connections{pool="calls",state="idle"}`: 3,
		`ledger_pool_connections_limit{pool="calls"}`: 20, `ledger_pool_acquired_total{pool="calls"}`: 13, `ledger_pool_waited_total{pool="calls"}`: 14,
		`ledger_pool_given_up_total{pool="calls"}`: 16, `ledger_pool_wait_seconds_total{pool="calls"}`: 17,
		"sampled_feeds_total": 18, "sampled_candidates_total": 19, "sampled_misses_total": 21, "sampled_false_positives_total": 22,
		"sampled_late_total": 23, "sampled_undecided_total": 24, "sampled_repaired_pages_total": 25,
		`sampled_dropped_total{reason="skipped"}`: 26, `sampled_dropped_total{reason="error"}`: 0,
		`token_file_reloads_total{result="ok"}`: 27, `token_file_reloads_total{result="failed"}`: 28,
		`http_requests_unread_total{reason="overloaded"}`: 32,
		`requests_refused_total{reason="forbidden"}`:      29, "audit_failures_total": 30, "tls_certificate_expiry_timestamp_seconds": 31,
	})
}

// TestRebuildsByReason checks that rebuilt pages are counted by reason, and failed rebuilds
// separately.
func TestRebuildsByReason(t *testing.T) {
	r := metrics.New(metrics.Settings{})
	rebuilt := r.Rebuilds()
	rebuilt("missing", 2*time.Second, nil)
	rebuilt("behind", time.Second, activity.ErrClosed)
	wantValues(t, r, map[string]float64{
		`page_rebuild_seconds_count{reason="missing"}`: 1, `page_rebuild_seconds_sum{reason="missing"}`: 2, `page_rebuild_failures_total{reason="missing"}`: 0,
		`page_rebuild_seconds_count{reason="behind"}`: 0, `page_rebuild_failures_total{reason="behind"}`: 1, `page_rebuild_seconds_count{reason="torn"}`: 0,
	})
}

// TestRedisPools distinguishes connections in use from idle ones, and those for pipelines from
// others.
func TestRedisPools(t *testing.T) {
	server := redistest.Start(t)
	r, client := watched(t, &redis.Options{Addr: server.Addr(), PipelinePoolSize: 2})
	for range 3 {
		must(t, client.Ping(t.Context()).Err())
	}
	conn := client.Conn() // uses a connection from its first command
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.Ping(t.Context()).Err())
	if err := client.Ping(t.Context()).Err(); err != nil { // needs another connection
		t.Fatal(err)
	}
	of := func(pool string, more ...string) string {
		return label(server, append([]string{fmt.Sprintf("pool=%q", pool)}, more...)...)
	}
	wantValues(t, r, map[string]float64{
		"redis_pool_connections" + of("commands", `state="used"`): 1, "redis_pool_connections" + of("commands", `state="idle"`): 1,
		"redis_pool_connections" + of("pipelines", `state="used"`): 0,
		"redis_pool_hits_total" + of("commands"):                   3, "redis_pool_misses_total" + of("commands"): 2, "redis_pool_timeouts_total" + of("commands"): 0,
	})
}
