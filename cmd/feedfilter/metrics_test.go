package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// TestServeMetrics scrapes the service with pages in Redis. Calls of the ledger and of Redis are
// counted, and docs/METRICS.md lists all metrics.
func TestServeMetrics(t *testing.T) {
	server := redistest.Start(t)
	s := serve(t, "--data-dir", t.TempDir(), "--redis", server.URL(), "--pages", "16", "--staleness-bound", "500ms", "--scrub-rate", "700")
	if code, body := s.do("PUT", "/v1/users/1/blocks/2", ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	for range 3 {
		s.do("POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"2"}]}`)
	}
	code, text := s.do("GET", "/metrics", "")
	if code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	node := fmt.Sprintf("{client=%q,node=%q}", meteredPages, server.Addr())
	for _, line := range []string{
		`feedfilter_feed_dropped_total{kind="block"} 3`,
		`feedfilter_views_total{source="store"} 3`,
		`feedfilter_ledger_call_seconds_count{operation="record"} 1`,
		`feedfilter_redis_breaker_open` + node + ` 0`,
		`feedfilter_configured_staleness_bound_seconds ` + fmt.Sprint((500 * time.Millisecond).Seconds()),
		`feedfilter_configured_scrub_pages_per_second 700`,
		`feedfilter_configured_false_positive_ratio 0.001`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %s", line)
		}
	}
	// One or two pages of the two users, and pages that the scrub has read.
	if !regexp.MustCompile(`(?m)^feedfilter_page_rebuild_seconds_count\{reason="missing"\} [1-9]`).MatchString(text) {
		t.Error("no missing page was rebuilt")
	}
	for _, name := range []string{"redis_round_trip_seconds_count" + node, `redis_commands_total{client="pages",command="mget"}`, "redis_pool_hits_total"} {
		if !strings.Contains(text, "\nfeedfilter_"+name) {
			t.Errorf("there is no %s", name)
		}
	}
	docs, err := os.ReadFile("../../docs/METRICS.md")
	must(t, err)
	listed := regexp.MustCompile("(?m)^\\| `(feedfilter_\\w+)[`{]").FindAllStringSubmatch(string(docs), -1)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (feedfilter_\w+) `).FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(listed, func(row []string) bool { return row[1] == m[1] }) {
			t.Errorf("docs/METRICS.md does not list %s", m[1])
		}
	}
}
