package metrics

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedfilter/feedfilter/activity"
)

// Activities adds the counts of [activity.Activities]. Without a ledger, its counts stay 0, and
// whether it is up is left out.
func (r *Registry) Activities(hasLedger bool, stats func() activity.Stats) {
	r.add(func(to sink) {
		s := stats()
		health(to, hasLedger, s)
		truths(to, s)
		calls(to, s)
		numbers(to, s)
	})
}

func health(to sink, hasLedger bool, s activity.Stats) {
	const up = "feedfilter_dependency_up"
	const help = "1 if the ledger or page store answered its last call."
	if hasLedger {
		gauge(to, up, help, truth(!s.LedgerDown), "dependency", "ledger")
	}
	gauge(to, up, help, truth(!s.PagesDown), "dependency", "pages")
	gauge(to, "feedfilter_ready",
		"1 if this instance can answer feeds.", truth(!s.PagesDown || hasLedger && !s.LedgerDown))
}

// truths sends what shows how pages follow the ledger.
func truths(to sink, s activity.Stats) {
	counter(to, "feedfilter_exact_positives_total", "Positives of exact feeds.", s.Confirmed)
	counter(to, "feedfilter_exact_false_positives_total",
		"Positives of exact feeds that the ledger refuted.", s.FalsePositives)
	counter(to, "feedfilter_scrub_pages_total", "Page headers compared with the ledger.", s.Scrubbed)
	counter(to, "feedfilter_scrub_rounds_total", "Complete scrub rounds.", s.ScrubRounds)
	gauge(to, "feedfilter_scrub_age_seconds",
		"Time since the last complete scrub round.", s.ScrubAge.Seconds())
	gauge(to, "feedfilter_configured_scrub_pages_per_second",
		"Configured scrub rate, in pages per second.", s.ScrubRate)
	counters(to, "feedfilter_scrub_findings_total", "Faulty pages found and rebuilt.", "reason",
		withZeros(s.Found, "missing", "damaged", "foreign", "behind", "ahead", "overfull", "corrupt"))
	counter(to, "feedfilter_scrub_verified_total", "Pages compared key by key.", s.Verified)
	counter(to, "feedfilter_scrub_alarms_total",
		"Times that the scrub sped up because many pages were lost.", s.Alarms)
	counters(to, "feedfilter_polls_total", "Polls of the ledger.", "result",
		map[string]uint64{"ok": s.Polls, "failed": s.PollsFailed})
	gauge(to, "feedfilter_poll_age_seconds", "Age of the view of the ledger.", s.PollAge.Seconds())
}

// calls sends where feeds read activities from, and what writes do.
func calls(to sink, s activity.Stats) {
	counters(to, "feedfilter_views_total", "Reads of activities for feeds and fan-outs.", "source",
		map[string]uint64{
			"store":   s.FromStore,
			"replica": s.FromReplica,
			"held":    s.FromHeld,
			"ledger":  s.FromLedger,
		})
	counter(to, "feedfilter_views_past_replica_total",
		"Reads repeated because a replica failed or was stale.", s.PastReplica)
	gauge(to, "feedfilter_held_pages_bytes", "Memory of pages held in the process.", s.HeldBytes)
	counters(to, "feedfilter_activities_recorded_total",
		"Activities recorded or undone, without no-ops.", "kind", s.Recorded)
	counter(to, "feedfilter_activities_ended_total", "Activities removed at their end time.", s.Ended)
	gauge(to, "feedfilter_writes_waiting", "Writes waiting for the ledger or their pages.", s.Waiting)
	counter(to, "feedfilter_writes_without_page_total",
		"Writes acknowledged late: a page was unreachable.", s.WithoutPage)
	counters(to, "feedfilter_window_evicted_total",
		"Activities forgotten because a window was full.", "kind", s.WindowEvicted)
	counters(to, "feedfilter_window_damaged_total",
		"Reads of damaged windows, taken as empty.", "kind", s.WindowDamaged)
}

func numbers(to sink, s activity.Stats) {
	gauge(to, "feedfilter_pages", "Number of pages.", s.SharedPages, "use", "shared")
	gauge(to, "feedfilter_pages", "Number of pages.", s.DedicatedPages, "use", "dedicated")
	gauge(to, "feedfilter_shared_page_keys",
		"Average keys per shared page, from the last scrub.", s.KeysPerPage)
	gauge(to, "feedfilter_reshape_due_pages",
		"Recommended number of shared pages; 0 if not too few.", s.ReshapeDue)
	gauge(to, "feedfilter_reshaping",
		"1 while this instance changes the number of pages.", truth(s.Reshaping))
	gauge(to, "feedfilter_page_rebuilds_in_progress", "Rebuilds running or waiting.", s.Rebuilding)
}

// withZeros returns counts with a 0 for each missing name, so that the first event is an increase
// from 0 and not a new series.
func withZeros(counts map[string]uint64, names ...string) map[string]uint64 {
	all := make(map[string]uint64, len(counts)+len(names))
	for _, name := range names {
		all[name] = 0
	}
	maps.Copy(all, counts)
	return all
}

// Rebuilds adds the rebuilds of pages. It returns the function to call for each, the OnRebuild of
// an [activity.Config].
func (r *Registry) Rebuilds() func(reason string, took time.Duration, err error) {
	seconds, failed := r.outcomes(
		durations("feedfilter_page_rebuild_seconds", "Duration of rebuilds."),
		prometheus.CounterOpts{
			Name: "feedfilter_page_rebuild_failures_total",
			Help: "Rebuilds that failed.",
		},
		"reason", "missing", "damaged", "foreign", "behind", "ahead", "overfull", "corrupt", "jammed",
		"torn",
	)
	return func(reason string, took time.Duration, err error) {
		if err != nil {
			failed.WithLabelValues(reason).Inc()
			return
		}
		seconds.WithLabelValues(reason).Observe(took.Seconds())
	}
}
