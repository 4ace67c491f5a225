package metrics_test

import (
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// everything returns a registry with every source, each of which has every kind of value.
func everything(t *testing.T) *metrics.Registry {
	t.Helper()
	r := metrics.New(metrics.Settings{Version: "v1", Commit: "c", FalsePositiveRate: 0.001, StalenessBound: time.Second})
	r.Requests().Route("/v1/kinds", "GET").Done(200, time.Millisecond)
	r.Load(func() metrics.Load { return metrics.Load{} })
	some := map[string]uint64{"block": 1}
	r.Feeds(func() metrics.Feeds { return metrics.Feeds{Kept: 1, Dropped: some, Degraded: some} }).Looked(2)
	r.Activities(true, func() activity.Stats { return activity.Stats{Recorded: some, WindowEvicted: some, WindowDamaged: some} })
	r.Rebuilds()("missing", time.Second, nil)
	r.Survey(func() *pages.Survey { return &pages.Survey{} })
	r.Ledger()
	r.Pools(func() []ledger.Pool { return []ledger.Pool{{Name: "calls"}} })
	r.Sampling(func() sampler.Stats { return sampler.Stats{} })
	r.TokenFile(func() (uint64, uint64) { return 0, 0 })
	r.Refused(func() map[string]uint64 { return map[string]uint64{"forbidden": 1} })
	r.Unread(func() map[string]uint64 { return map[string]uint64{"overloaded": 1} })
	r.Audit(func() uint64 { return 0 })
	r.LogLines(func() uint64 { return 0 })
	r.Follow(func() []follow.Status {
		return []follow.Status{{Name: "app", Age: new(0.5), Proved: time.Unix(1, 0), Stats: &follow.Stats{
			Log: follow.KeptLog{Left: new(int64)}, Changes: map[string]map[string]uint64{"blocks": {"recorded": 1}},
			Differences: map[string]map[string]uint64{"block": {"missing": 1}},
		}}}
	})
	r.Certificate(func() time.Time { return time.Unix(1, 0) })
	client := redis.NewClient(&redis.Options{Addr: closedPort(t), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	d := r.Redis()
	d.Watch("pages", client)
	d.Breakers("pages", redisstore.Guard(client, nil))
	client.Ping(t.Context()) // fails, and is counted
	return r
}

// closedPort returns an address on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestLint checks names, units and help with Prometheus' own linter.
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything(t).Gatherer())
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestCatalogue checks that docs/METRICS.md and the exported metrics have the same names, labels,
// types and meanings.
func TestCatalogue(t *testing.T) {
	text, err := os.ReadFile("../../docs/METRICS.md")
	must(t, err)
	meanings := make(map[string]string) // by what the first cell has: name, labels, type
	row := regexp.MustCompile("(?m)^\\| (`feedfilter_[^|]*) \\| (.*) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if _, twice := meanings[m[1]]; twice {
			t.Errorf("docs/METRICS.md lists %s twice", m[1])
		}
		meanings[m[1]] = m[2]
	}
	families, err := everything(t).Gatherer().Gather()
	must(t, err)
	reference := regexp.MustCompile(`^Those |of (them|these)|such a|that one`)
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "feedfilter_") {
			continue
		}
		cell := catalogueCell(f)
		if meaning, listed := meanings[cell]; !listed {
			t.Errorf("docs/METRICS.md lacks this row, or has other labels or another type:\n| %s | %s |", cell, f.GetHelp())
		} else if meaning != f.GetHelp() {
			t.Errorf("docs/METRICS.md explains %s as %q, its help as %q", name, meaning, f.GetHelp())
		}
		// Readers see the help of one metric at a time, so it must not refer to another metric.
		if reference.MatchString(f.GetHelp()) {
			t.Errorf("%s cannot be understood on its own: %q", name, f.GetHelp())
		}
		delete(meanings, cell)
	}
	for cell := range meanings {
		t.Errorf("docs/METRICS.md lists %s, which is not exported", cell)
	}
}

// catalogueCell returns the first cell of a metric's row: its name and labels, and whether it is a
// histogram. Counters need no such note, because only their names end in _total: see TestLint.
func catalogueCell(f *dto.MetricFamily) string {
	var labels []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, l.GetName())
	}
	cell := f.GetName()
	if len(labels) > 0 {
		cell += "{" + strings.Join(labels, ",") + "}"
	}
	cell = "`" + cell + "`"
	if f.GetType() == dto.MetricType_HISTOGRAM {
		cell += " (histogram)"
	}
	return cell
}
