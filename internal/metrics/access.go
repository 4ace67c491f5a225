package metrics

import (
	"time"

	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// Sampling adds the results of comparing feeds with the ledger.
func (r *Registry) Sampling(sampling func() sampler.Stats) {
	r.add(func(to sink) {
		s := sampling()
		counter(to, "feedfilter_sampled_feeds_total", "Feeds compared with the ledger.", s.Feeds)
		counter(to, "feedfilter_sampled_candidates_total",
			"Candidates compared with the ledger.", s.Candidates)
		counter(to, "feedfilter_sampled_misses_total",
			"Candidates that missed an activity of the ledger; must stay 0.", s.Misses)
		counter(to, "feedfilter_sampled_false_positives_total",
			"Candidates dropped or annotated without an activity in the ledger.", s.FalsePositives)
		counters(to, "feedfilter_sampled_dropped_total",
			"Chosen feeds that were not compared.", "reason", map[string]uint64{
				"skipped": s.Skipped,
				"error":   s.Errors,
			})
		counter(to, "feedfilter_sampled_late_total",
			"Candidates that missed an activity within the allowed delay.", s.Late)
		counter(to, "feedfilter_sampled_undecided_total",
			"Candidates that changed during the comparison.", s.Undecided)
		counter(to, "feedfilter_sampled_repaired_pages_total",
			"Pages rebuilt because of a miss.", s.Repaired)
	})
}

// TokenFile adds the numbers of successful and failed reloads of the token file.
func (r *Registry) TokenFile(reloads func() (loaded, failed uint64)) {
	r.add(func(to sink) {
		loaded, failed := reloads()
		counters(to, "feedfilter_token_file_reloads_total", "Reloads of the token file.", "result",
			map[string]uint64{"ok": loaded, "failed": failed})
	})
}

// LogLines adds the number of dropped log lines.
func (r *Registry) LogLines(dropped func() uint64) {
	r.add(func(to sink) {
		counter(to, "feedfilter_log_dropped_total",
			"Log lines dropped because standard error failed.", dropped())
	})
}

// Audit adds the number of lost lines of the audit log.
func (r *Registry) Audit(failures func() uint64) {
	r.add(func(to sink) {
		counter(to, "feedfilter_audit_failures_total", "Audit log lines that were lost.", failures())
	})
}

// Refused adds requests refused by access control or rate limits, by error code. The set of codes
// is fixed.
func (r *Registry) Refused(refused func() map[string]uint64) {
	r.add(func(to sink) {
		counters(to, "feedfilter_requests_refused_total",
			"Requests refused by access control or rate limits.", "reason", refused())
	})
}

// Unread adds requests whose header was not read in time, by error code. The set of codes is fixed.
func (r *Registry) Unread(unread func() map[string]uint64) {
	r.add(func(to sink) {
		counters(to, "feedfilter_http_requests_unread_total",
			"Requests whose header was not read in time.", "reason", unread())
	})
}

// Certificate adds the expiry of the served certificate. A zero time means that there is none yet.
func (r *Registry) Certificate(ends func() time.Time) {
	r.add(func(to sink) {
		if t := ends(); !t.IsZero() {
			gauge(to, "feedfilter_tls_certificate_expiry_timestamp_seconds",
				"When the served certificate expires, in Unix time.", t.Unix())
		}
	})
}

// Follow adds what the process knows of sources.
func (r *Registry) Follow(sources func() []follow.Status) {
	r.add(func(to sink) {
		for _, s := range sources() {
			label := []string{"source", s.Name}
			gauge(to, "feedfilter_follow_followed",
				"Whether any process follows the source.", truth(s.Followed), label...)
			gauge(to, "feedfilter_follow_position_bytes",
				"How far the ledger has the source's log.", s.Position, label...)
			if s.Age != nil {
				gauge(to, "feedfilter_follow_age_seconds",
					"Time since the ledger lacked nothing of the source, as this process knows.", *s.Age,
					label...)
			}
			if !s.Proved.IsZero() {
				gauge(to, "feedfilter_follow_proved_timestamp_seconds",
					"When source and ledger were last compared whole and made the same, in Unix time.",
					s.Proved.Unix(), label...)
			}
			if s.Stats != nil {
				follower(to, s.Name, s.Stats)
			}
		}
	})
}

// follower adds the figures of this process's follower of a source.
func follower(to sink, source string, s *follow.Stats) {
	label := []string{"source", source}
	gauge(to, "feedfilter_follow_active",
		"Whether this process follows the source.", truth(s.Active), label...)
	gauge(to, "feedfilter_follow_behind_bytes",
		"Bytes of the source's log that the ledger lacks.", s.Behind, label...)
	gauge(to, "feedfilter_follow_behind_seconds",
		"Time since the ledger lacked nothing of the source.", s.Lag, label...)
	counter(to, "feedfilter_follow_snapshots_total",
		"Times that the tables were read whole.", s.Snapshots, label...)
	gauge(to, "feedfilter_follow_wal_kept_bytes",
		"Log that the source's server keeps for followers.", s.Log.Kept, label...)
	if s.Log.Left != nil {
		gauge(to, "feedfilter_follow_wal_left_bytes",
			"Log until the source's slot is lost.", *s.Log.Left, label...)
	}
	for kind, differences := range s.Differences {
		for how, n := range differences {
			counter(to, "feedfilter_follow_differences_total",
				"Activities in which the ledger differed from the source, and was mended.",
				n, "source", source, "kind", kind, "difference", how)
		}
	}
	for table, changes := range s.Changes {
		for result, n := range changes {
			counter(to, "feedfilter_follow_changes_total", "Rows changed in the source.", n,
				"source", source, "table", table, "result", result)
		}
	}
}
