// Package metrics exports the counts of the service to Prometheus. A [Registry] reads its sources
// at each scrape; each method adds one. Only durations, and calls of Redis and the ledger, are
// counted here as they happen.
//
// Names and labels are a contract with dashboards and alerts: docs/METRICS.md lists them all. No
// label holds a user, a post or a path.
package metrics

import (
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry holds the metrics of one process. Each method adds a source, and must be called only
// once. It is safe for concurrent use.
type Registry struct {
	registry *prometheus.Registry
}

// Settings are the constant settings of the process.
type Settings struct {
	Version, Commit   string
	FalsePositiveRate float64       // configured share of clean candidates that may be dropped
	StalenessBound    time.Duration // 0: each feed asks the ledger
}

// New returns a Registry with the metrics of the Go runtime, the process, and its settings.
func New(s Settings) *Registry {
	r := &Registry{registry: prometheus.NewRegistry()}
	r.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	r.add(func(to sink) {
		gauge(to, "feedfilter_build_info", "Always 1; the labels name the build.", 1,
			"version", s.Version, "commit", s.Commit, "goversion", runtime.Version())
		gauge(to, "feedfilter_configured_false_positive_ratio",
			"Configured false-positive rate.", s.FalsePositiveRate)
		gauge(to, "feedfilter_configured_staleness_bound_seconds",
			"Configured staleness bound.", s.StalenessBound.Seconds())
	})
	return r
}

// Gatherer returns the current metrics.
//
//nolint:ireturn // what tools for metrics take
func (r *Registry) Gatherer() prometheus.Gatherer { return r.registry }

// Handler serves all metrics as Prometheus text, OpenMetrics, or protocol buffers with native
// histograms.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// add adds a source.
func (r *Registry) add(s source) { r.registry.MustRegister(s) }

// source is a collector whose values functions return at the moment of a scrape. It describes none
// of them in advance: their names and help are where they are sent.
type source func(to sink)

// Describe implements [prometheus.Collector].
func (source) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (s source) Collect(metrics chan<- prometheus.Metric) { s(metrics) }

// sink takes the values of a scrape.
type sink chan<- prometheus.Metric

type number interface {
	int | int64 | uint32 | uint64 | float64
}

// counter sends the value of a counter, and gauge that of a gauge. labels are names, each followed
// by its value.
func counter[N number](to sink, name, help string, value N, labels ...string) {
	to <- prometheus.MustNewConstMetric(
		describe(name, help, labels...), prometheus.CounterValue, float64(value),
	)
}

func gauge[N number](to sink, name, help string, value N, labels ...string) {
	to <- prometheus.MustNewConstMetric(
		describe(name, help, labels...), prometheus.GaugeValue, float64(value),
	)
}

// counters sends a counter for each value of a label.
func counters(to sink, name, help, label string, values map[string]uint64) {
	for of, value := range values {
		counter(to, name, help, value, label, of)
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	pairs := make(prometheus.Labels, len(labels)/2)
	for pair := range slices.Chunk(labels, 2) {
		pairs[pair[0]] = pair[1]
	}
	return prometheus.NewDesc(name, help, nil, pairs)
}

func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// outcomes adds the durations and the failures of something, by a label whose values are there from
// the start.
func (r *Registry) outcomes(
	duration prometheus.HistogramOpts,
	failures prometheus.CounterOpts,
	label string,
	values ...string,
) (seconds *prometheus.HistogramVec, failed *prometheus.CounterVec) {
	seconds = prometheus.NewHistogramVec(duration, []string{label})
	failed = prometheus.NewCounterVec(failures, []string{label})
	r.registry.MustRegister(seconds, failed)
	for _, value := range values {
		seconds.WithLabelValues(value)
		failed.WithLabelValues(value)
	}
	return seconds, failed
}

// durations is a histogram of seconds: classic, with buckets from 100 us to 10 s, and native, for
// servers that take these. Native buckets are within a tenth of the value; if a series needs more
// than 160, they become wider. A histogram is never reset, so its counts are since the start.
func durations(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets: []float64{
			1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
		},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 160, // 20 doublings: from 10 us to 10 s
	}
}
