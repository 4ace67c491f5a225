package metrics

import "time"

// Sampling holds the results of comparing a share of feeds with the ledger.
type Sampling struct {
	Feeds, Candidates uint64            // compared
	Misses            uint64            // candidates that missed an activity of the ledger
	FalsePositives    uint64            // candidates dropped or annotated without an activity
	Late              uint64            // candidates that missed one within the allowed delay
	Undecided         uint64            // candidates that changed during the comparison
	Repaired          uint64            // pages rebuilt because of a miss
	Dropped           map[string]uint64 // feeds not compared, by reason: "skipped", "error"
}

// Sampling adds the results of comparing feeds with the ledger.
func (r *Registry) Sampling(sampling func() Sampling) {
	c := &source{}
	feeds := c.counter("feedfilter_sampled_feeds_total", "Feeds compared with the ledger.")
	candidates := c.counter("feedfilter_sampled_candidates_total", "Candidates compared with the ledger.")
	misses := c.counter("feedfilter_sampled_misses_total",
		"Candidates that missed an activity of the ledger; must stay 0.")
	falses := c.counter("feedfilter_sampled_false_positives_total",
		"Candidates dropped or annotated without an activity in the ledger.")
	dropped := c.counter("feedfilter_sampled_dropped_total", "Chosen feeds that were not compared.", "reason")
	late := c.counter("feedfilter_sampled_late_total",
		"Candidates that missed an activity within the allowed delay.")
	undecided := c.counter("feedfilter_sampled_undecided_total",
		"Candidates that changed during the comparison.")
	repaired := c.counter("feedfilter_sampled_repaired_pages_total", "Pages rebuilt because of a miss.")
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

// TokenFile adds the numbers of successful and failed reloads of the token file.
func (r *Registry) TokenFile(reloads func() (loaded, failed uint64)) {
	c := &source{}
	reloaded := c.counter("feedfilter_token_file_reloads_total",
		"Reloads of the token file.", "result")
	c.collect = func(to sink) {
		loaded, failed := reloads()
		to.send(reloaded, float64(loaded), "ok")
		to.send(reloaded, float64(failed), "failed")
	}
	r.registry.MustRegister(c)
}

// LogLines adds the number of dropped log lines.
func (r *Registry) LogLines(dropped func() uint64) {
	c := &source{}
	total := c.counter("feedfilter_log_dropped_total",
		"Log lines dropped because standard error failed.")
	c.collect = func(to sink) { to.send(total, float64(dropped())) }
	r.registry.MustRegister(c)
}

// Audit adds the number of lost lines of the audit log.
func (r *Registry) Audit(failures func() uint64) {
	c := &source{}
	failed := c.counter("feedfilter_audit_failures_total", "Audit log lines that were lost.")
	c.collect = func(to sink) { to.send(failed, float64(failures())) }
	r.registry.MustRegister(c)
}

// Refused adds requests refused by access control or rate limits, by error code. The set of codes
// is fixed.
func (r *Registry) Refused(refused func() map[string]uint64) {
	c := &source{}
	total := c.counter("feedfilter_requests_refused_total",
		"Requests refused by access control or rate limits.", "reason")
	c.collect = func(to sink) {
		sendEach(to, total, refused())
	}
	r.registry.MustRegister(c)
}

// Certificate adds the expiry of the served certificate. A zero time means that there is none yet.
func (r *Registry) Certificate(ends func() time.Time) {
	c := &source{}
	expiry := c.gauge("feedfilter_tls_certificate_expiry_timestamp_seconds",
		"When the served certificate expires, in Unix time.")
	c.collect = func(to sink) {
		if t := ends(); !t.IsZero() {
			to.send(expiry, float64(t.Unix()))
		}
	}
	r.registry.MustRegister(c)
}
