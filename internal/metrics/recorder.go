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
	sources := []*source{health(hasLedger, stats), truths(stats), views(stats), writes(stats), windows(stats), numbers(stats)}
	for _, s := range sources {
		r.registry.MustRegister(s)
	}
}

func health(hasLedger bool, stats func() activity.Stats) *source {
	c := &source{}
	up := c.gauge("feedfilter_dependency_up", "1 if the ledger or page store answered its last call.", "dependency")
	ready := c.gauge("feedfilter_ready", "1 if this instance can answer feeds.")
	c.collect = func(to sink) {
		s := stats()
		if hasLedger {
			to.send(up, truth(!s.LedgerDown), "ledger")
		}
		to.send(up, truth(!s.PagesDown), "pages")
		to.send(ready, truth(!s.PagesDown || hasLedger && !s.LedgerDown))
	}
	return c
}

// truths returns the metrics that show how pages follow the ledger.
func truths(stats func() activity.Stats) *source {
	c := &source{}
	positives := c.counter("feedfilter_exact_positives_total", "Positives of exact feeds.")
	falses := c.counter("feedfilter_exact_false_positives_total", "Positives of exact feeds that the ledger refuted.")
	scrubbed := c.counter("feedfilter_scrub_pages_total", "Page headers compared with the ledger.")
	rounds := c.counter("feedfilter_scrub_rounds_total", "Complete scrub rounds.")
	age := c.gauge("feedfilter_scrub_age_seconds",
		"Time since the last complete scrub round.")
	rate := c.gauge("feedfilter_configured_scrub_pages_per_second", "Configured scrub rate, in pages per second.")
	found := c.counter("feedfilter_scrub_findings_total", "Faulty pages found and rebuilt.", "reason")
	verified := c.counter("feedfilter_scrub_verified_total", "Pages compared key by key.")
	alarms := c.counter("feedfilter_scrub_alarms_total", "Times that the scrub sped up because many pages were lost.")
	polls := c.counter("feedfilter_polls_total", "Polls of the ledger.", "result")
	pollAge := c.gauge("feedfilter_poll_age_seconds", "Age of the view of the ledger.")
	c.collect = func(to sink) {
		s := stats()
		to.send(positives, float64(s.Confirmed))
		to.send(falses, float64(s.FalsePositives))
		to.send(scrubbed, float64(s.Scrubbed))
		to.send(rounds, float64(s.ScrubRounds))
		to.send(age, s.ScrubAge.Seconds())
		to.send(rate, float64(s.ScrubRate))
		sendEach(to, found, withZeros(s.Found, "missing", "damaged", "foreign", "behind", "ahead", "overfull", "corrupt"))
		to.send(verified, float64(s.Verified))
		to.send(alarms, float64(s.Alarms))
		to.send(polls, float64(s.Polls), "ok")
		to.send(polls, float64(s.PollsFailed), "failed")
		to.send(pollAge, s.PollAge.Seconds())
	}
	return c
}

// views returns the metrics that show where feeds read activities from.
func views(stats func() activity.Stats) *source {
	c := &source{}
	read := c.counter("feedfilter_views_total", "Reads of activities for feeds and fan-outs.", "source")
	past := c.counter("feedfilter_views_past_replica_total", "Reads repeated because a replica failed or was stale.")
	held := c.gauge("feedfilter_held_pages_bytes", "Memory of pages held in the process.")
	c.collect = func(to sink) {
		s := stats()
		to.send(read, float64(s.FromStore), "store")
		to.send(read, float64(s.FromReplica), "replica")
		to.send(read, float64(s.FromHeld), "held")
		to.send(read, float64(s.FromLedger), "ledger")
		to.send(past, float64(s.PastReplica))
		to.send(held, float64(s.HeldBytes))
	}
	return c
}

func writes(stats func() activity.Stats) *source {
	c := &source{}
	recorded := c.counter("feedfilter_activities_recorded_total", "Activities recorded or undone, without no-ops.", "kind")
	ended := c.counter("feedfilter_activities_ended_total", "Activities removed at their end time.")
	waiting := c.gauge("feedfilter_writes_waiting", "Writes waiting for the ledger or their pages.")
	without := c.counter("feedfilter_writes_without_page_total",
		"Writes acknowledged late: a page was unreachable.")
	c.collect = func(to sink) {
		s := stats()
		sendEach(to, recorded, s.Recorded)
		to.send(ended, float64(s.Ended))
		to.send(waiting, float64(s.Waiting))
		to.send(without, float64(s.WithoutPage))
	}
	return c
}

// windows returns the metrics of activities that the ledger does not keep.
func windows(stats func() activity.Stats) *source {
	c := &source{}
	evicted := c.counter("feedfilter_window_evicted_total",
		"Activities forgotten because a window was full.", "kind")
	damaged := c.counter("feedfilter_window_damaged_total", "Reads of damaged windows, taken as empty.", "kind")
	c.collect = func(to sink) {
		s := stats()
		sendEach(to, evicted, s.WindowEvicted)
		sendEach(to, damaged, s.WindowDamaged)
	}
	return c
}

func numbers(stats func() activity.Stats) *source {
	c := &source{}
	number := c.gauge("feedfilter_pages", "Number of pages.", "use")
	keys := c.gauge("feedfilter_shared_page_keys", "Average keys per shared page, from the last scrub.")
	due := c.gauge("feedfilter_reshape_due_pages", "Recommended number of shared pages; 0 if not too few.")
	reshaping := c.gauge("feedfilter_reshaping", "1 while this instance changes the number of pages.")
	rebuilding := c.gauge("feedfilter_page_rebuilds_in_progress", "Rebuilds running or waiting.")
	c.collect = func(to sink) {
		s := stats()
		to.send(number, float64(s.SharedPages), "shared")
		to.send(number, float64(s.DedicatedPages), "dedicated")
		to.send(keys, s.KeysPerPage)
		to.send(due, float64(s.ReshapeDue))
		to.send(reshaping, truth(s.Reshaping))
		to.send(rebuilding, float64(s.Rebuilding))
	}
	return c
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
	seconds := prometheus.NewHistogramVec(durations("feedfilter_page_rebuild_seconds",
		"Duration of rebuilds."), []string{"reason"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "feedfilter_page_rebuild_failures_total",
		Help: "Rebuilds that failed.",
	}, []string{"reason"})
	r.registry.MustRegister(seconds, failed)
	for _, reason := range []string{"missing", "damaged", "foreign", "behind", "ahead", "overfull", "corrupt", "jammed", "torn"} {
		seconds.WithLabelValues(reason)
		failed.WithLabelValues(reason)
	}
	return func(reason string, took time.Duration, err error) {
		if err != nil {
			failed.WithLabelValues(reason).Inc()
			return
		}
		seconds.WithLabelValues(reason).Observe(took.Seconds())
	}
}
