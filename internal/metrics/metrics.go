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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry holds the metrics of one process. Each method adds a source, and panics if called twice.
// It is safe for concurrent use.
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
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var c source
	build := c.gauge("feedfilter_build_info", "Always 1; the labels name the build.", "version", "commit", "goversion")
	rate := c.gauge("feedfilter_configured_false_positive_ratio", "Configured false-positive rate.")
	bound := c.gauge("feedfilter_configured_staleness_bound_seconds",
		"Configured staleness bound.")
	c.collect = func(to sink) {
		to.send(build, 1, s.Version, s.Commit, runtime.Version())
		to.send(rate, s.FalsePositiveRate)
		to.send(bound, s.StalenessBound.Seconds())
	}
	r.registry.MustRegister(&c)
	return r
}

// Gatherer returns the current metrics.
func (r *Registry) Gatherer() prometheus.Gatherer { return r.registry } //nolint:ireturn // what tools for metrics take

// Handler serves all metrics as Prometheus text, OpenMetrics, or protocol buffers with native
// histograms.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// source is a collector whose values functions return at the moment of a scrape.
type source struct {
	families []family
	collect  func(sink)
}

// family is one metric with all its label values.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (s *source) counter(name, help string, labels ...string) family {
	return s.family(prometheus.CounterValue, name, help, labels)
}

func (s *source) gauge(name, help string, labels ...string) family {
	return s.family(prometheus.GaugeValue, name, help, labels)
}

// histogram adds a histogram of current values, whose buckets may also go down.
func (s *source) histogram(name, help string, labels ...string) family {
	return s.family(prometheus.UntypedValue, name, help, labels)
}

func (s *source) family(kind prometheus.ValueType, name, help string, labels []string) family {
	f := family{prometheus.NewDesc(name, help, labels, nil), kind}
	s.families = append(s.families, f)
	return f
}

// Describe implements [prometheus.Collector].
func (s *source) Describe(descs chan<- *prometheus.Desc) {
	for _, f := range s.families {
		descs <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (s *source) Collect(metrics chan<- prometheus.Metric) { s.collect(metrics) }

// sink takes the values of a scrape.
type sink chan<- prometheus.Metric

func (to sink) send(f family, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// sendEach sends one value per label value.
func sendEach[N uint64 | float64](to sink, f family, values map[string]N) {
	for label, value := range values {
		to.send(f, float64(value), label)
	}
}

func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// durations is a histogram of seconds: classic, with buckets from 100 us to 10 s, and native, for
// servers that take these. Native buckets are within a tenth of the value; if a series needs more
// than 160, they become wider. A histogram is never reset, so its counts are since the start.
func durations(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets:                        []float64{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 160, // 20 doublings: from 10 us to 10 s
	}
}
