package metrics

import "time"

// Sampling is what comparing a share of feeds with the ledger has found.
type Sampling struct {
	Feeds, Candidates uint64            // compared
	Misses            uint64            // candidates kept that the ledger has a reason to drop
	FalsePositives    uint64            // candidates dropped that it has none to
	Late              uint64            // candidates kept for an activity recorded within the staleness bound before
	Undecided         uint64            // candidates of which nobody can tell
	Repaired          uint64            // pages made anew for a miss
	Dropped           map[string]uint64 // samples that were not compared, by why: "skipped", "error"
}

// Sampling adds what comparing feeds with the ledger has found.
func (r *Registry) Sampling(sampling func() Sampling) {
	c := &source{}
	feeds := c.counter("feedfilter_sampled_feeds_total", "Feeds that were compared with the ledger after they were answered.")
	candidates := c.counter("feedfilter_sampled_candidates_total", "Candidates that were compared with the ledger.")
	misses := c.counter("feedfilter_sampled_misses_total",
		"Compared candidates that were kept, or not marked, although the ledger has the activity: there must be none.")
	falses := c.counter("feedfilter_sampled_false_positives_total",
		"Compared candidates that were dropped, or marked, although the ledger does not have the activity.")
	dropped := c.counter("feedfilter_sampled_dropped_total", "Samples that were not compared, by why.", "reason")
	late := c.counter("feedfilter_sampled_late_total",
		"Compared candidates that missed an activity within the staleness bound, or before it was acknowledged, as they may.")
	undecided := c.counter("feedfilter_sampled_undecided_total",
		"Compared candidates of which nobody can tell, since they changed meanwhile.")
	repaired := c.counter("feedfilter_sampled_repaired_pages_total", "Pages made anew because of a miss.")
	c.collect = func(to sink) {
		s := sampling()
		to.send(feeds, float64(s.Feeds))
		to.send(candidates, float64(s.Candidates))
		to.send(misses, float64(s.Misses))
		to.send(falses, float64(s.FalsePositives))
		sendEach(to, dropped, withZeros(s.Dropped, "skipped", "error"))
		to.send(late, float64(s.Late))
		to.send(undecided, float64(s.Undecided))
		to.send(repaired, float64(s.Repaired))
	}
	r.registry.MustRegister(c)
}

// TokenFile adds how often the file of tokens was read again: loaded, and failed, with the tokens of before left in force.
func (r *Registry) TokenFile(reloads func() (loaded, failed uint64)) {
	c := &source{}
	reloaded := c.counter("feedfilter_token_file_reloads_total",
		"Times that the file of tokens had changed and was read, by result; where that failed, those of before are in force.", "result")
	c.collect = func(to sink) {
		loaded, failed := reloads()
		to.send(reloaded, float64(loaded), "ok")
		to.send(reloaded, float64(failed), "failed")
	}
	r.registry.MustRegister(c)
}

// LogLines adds how many lines of the service's log were dropped.
func (r *Registry) LogLines(dropped func() uint64) {
	c := &source{}
	total := c.counter("feedfilter_log_dropped_total",
		"Lines of the log that were dropped, because its reader stands still or it cannot be written.")
	c.collect = func(to sink) { to.send(total, float64(dropped())) }
	r.registry.MustRegister(c)
}

// Audit adds how many lines of the audit log were lost.
func (r *Registry) Audit(failures func() uint64) {
	c := &source{}
	failed := c.counter("feedfilter_audit_failures_total", "Lines of the audit log that were lost.")
	c.collect = func(to sink) { to.send(failed, float64(failures())) }
	r.registry.MustRegister(c)
}

// Refused adds requests that were refused for who sent them, or how many did, by the code of the error: a fixed set of them.
func (r *Registry) Refused(refused func() map[string]uint64) {
	c := &source{}
	total := c.counter("feedfilter_requests_refused_total",
		"Requests refused for who sent them, or how many did, by the code of the error.", "reason")
	c.collect = func(to sink) {
		sendEach(to, total, refused())
	}
	r.registry.MustRegister(c)
}

// Certificate adds when the certificate that is served with ends. The zero time: there is none yet.
func (r *Registry) Certificate(ends func() time.Time) {
	c := &source{}
	expiry := c.gauge("feedfilter_tls_certificate_expiry_timestamp_seconds",
		"When the certificate ends that the service presents, in Unix time.")
	c.collect = func(to sink) {
		if t := ends(); !t.IsZero() {
			to.send(expiry, float64(t.Unix()))
		}
	}
	r.registry.MustRegister(c)
}
