package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests counts and measures HTTP requests by route, method and status.
type Requests struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// Route is one method of one route.
type Route struct {
	answered prometheus.Counter // status 200, the most frequent
	others   *prometheus.CounterVec
	seconds  prometheus.Histogram
}

// Requests adds HTTP requests.
func (r *Registry) Requests() *Requests {
	q := &Requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedfilter_http_requests_total",
			Help: "Requests answered; gRPC errors have the equivalent HTTP status.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(
			durations("feedfilter_http_request_seconds", "Time from request header to end of answer."),
			[]string{"route", "method"}),
	}
	r.registry.MustRegister(q.total, q.seconds)
	return q
}

// Route returns the counter of a method of a route. Every name adds series, so name must not come
// from the client.
func (q *Requests) Route(name, method string) *Route {
	labels := prometheus.Labels{"route": name, "method": method}
	others := q.total.MustCurryWith(labels)
	seconds, _ := q.seconds.With(labels).(prometheus.Histogram) // always is one
	return &Route{answered: others.WithLabelValues("200"), others: others, seconds: seconds}
}

// Durations returns the histogram of all requests of some routes, in seconds.
func Durations(of ...*Route) (h Histogram) {
	for _, r := range of {
		h.add(r.seconds)
	}
	return h
}

// Done counts a request answered with status. It is safe for concurrent use.
func (t *Route) Done(status int, took time.Duration) {
	if status == http.StatusOK {
		t.answered.Inc()
	} else {
		t.others.WithLabelValues(strconv.Itoa(status)).Inc()
	}
	t.seconds.Observe(took.Seconds())
}

// Load is the work in progress, with its limits.
type Load struct {
	Requests, RequestsLimit int64 // in progress, without probes
	Streams, StreamsLimit   int64 // NDJSON streams among them
	Bodies, BodiesLimit     int64 // bytes of request bodies
	Shed                    uint64
	NotYet                  uint64 // refused because a position was not reached in time
}

// Load adds the work in progress.
func (r *Registry) Load(load func() Load) {
	r.add(func(to sink) {
		l := load()
		gauge(to, "feedfilter_http_requests_in_progress", "Requests in progress.", l.Requests)
		gauge(to, "feedfilter_http_requests_limit", "Limit of requests in progress.", l.RequestsLimit)
		gauge(to, "feedfilter_http_streams_in_progress", "NDJSON streams in progress.", l.Streams)
		gauge(to, "feedfilter_http_streams_limit",
			"Limit of NDJSON streams in progress.", l.StreamsLimit)
		gauge(to, "feedfilter_http_bodies_held_bytes", "Memory held by request bodies.", l.Bodies)
		gauge(to, "feedfilter_http_bodies_limit_bytes",
			"Limit of memory for request bodies.", l.BodiesLimit)
		counter(to, "feedfilter_http_requests_not_yet_total",
			"Requests whose position (after) was not reached in time.", l.NotYet)
		counter(to, "feedfilter_http_requests_shed_total", "Requests refused for overload.", l.Shed)
	})
}

// Feeds holds the outcomes of feeds and their candidates.
type Feeds struct {
	Answered uint64            `json:"answered"`
	Kept     uint64            `json:"kept"`     // posts
	Dropped  map[string]uint64 `json:"dropped"`  // posts, by the kind that dropped them
	Degraded map[string]uint64 `json:"degraded"` // feeds, by the kind that could not be checked
}

// Candidates counts the candidates of each feed. It is safe for concurrent use.
type Candidates struct{ of prometheus.Histogram }

// Looked counts an answered feed with n candidates.
func (c Candidates) Looked(n int) { c.of.Observe(float64(n)) }

// Read returns the histogram of all feeds.
func (c Candidates) Read() (h Histogram) {
	h.add(c.of)
	return h
}

// Feeds adds the outcomes of feeds, and their candidates.
func (r *Registry) Feeds(feeds func() Feeds) Candidates {
	r.add(func(to sink) {
		f := feeds()
		counter(to, "feedfilter_feed_kept_total", "Candidates kept.", f.Kept)
		counters(to, "feedfilter_feed_dropped_total", "Candidates dropped.", "kind", f.Dropped)
		counters(to, "feedfilter_feed_degraded_total",
			"Feeds that could not check or record a kind.", "kind", f.Degraded)
	})
	candidates := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "feedfilter_feed_candidates",
		Help:    "Candidates per feed.",
		Buckets: []float64{0, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000},
	})
	r.registry.MustRegister(candidates)
	return Candidates{candidates}
}
