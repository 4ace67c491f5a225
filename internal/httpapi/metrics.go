package httpapi

import (
	"bytes"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// meters count requests. The maps do not change later.
type meters struct {
	routes     map[routeName]*metrics.Route
	other      *metrics.Route // of unknown paths and methods
	candidates metrics.Candidates
}

type routeName struct{ method, path string }

// of returns the meter of a request. All requests with unknown paths or methods share one.
func (m *meters) of(c echo.Context) *metrics.Route {
	if r := m.routes[routeName{c.Request().Method, c.Path()}]; r != nil {
		return r
	}
	return m.other
}

// feedDurations returns the histogram of all calls that ask for a feed, in seconds.
func (m *meters) feedDurations() metrics.Histogram {
	return metrics.Durations(m.routes[routeName{http.MethodPost, filterPath}],
		m.routes[routeName{http.MethodPost, feedfilterv1connect.FeedServiceFilterProcedure}])
}

// measure adds the metrics of the service to a registry, or to a new one if to is nil.
func (s *service) measure(to *metrics.Registry) {
	if to == nil {
		to = metrics.New(metrics.Settings{})
	}
	s.metrics = to
	requests := to.Requests()
	const other = "other"
	s.meters = meters{routes: make(map[routeName]*metrics.Route), other: requests.Route(other, other), candidates: to.Feeds(s.feeds.metrics)}
	for _, r := range append(s.routes(), s.procedures.routes...) {
		s.meters.routes[routeName{r.method, r.path}] = requests.Route(r.path, r.method)
		if r.method == http.MethodGet {
			s.meters.routes[routeName{http.MethodHead, r.path}] = s.meters.routes[routeName{r.method, r.path}]
		}
	}
	to.Load(s.limits.metrics)
	to.Activities(s.recorder != nil, s.activities.Stats)
	to.Sampling(func() metrics.Sampling {
		n := s.sampler.Stats()
		return metrics.Sampling{
			Feeds: n.Feeds, Candidates: n.Candidates, Misses: n.Misses, FalsePositives: n.FalsePositives, Late: n.Late,
			Undecided: n.Undecided, Repaired: n.Repaired, Dropped: map[string]uint64{"skipped": n.Skipped, "error": n.Errors},
		}
	})
	if s.recorder != nil {
		to.Survey(s.recorder.Survey)
	}
	to.Refused(func() map[string]uint64 { return s.accessStats().Refused })
	if tokens := s.access.Tokens; tokens != nil {
		to.TokenFile(func() (loaded, failed uint64) {
			stats := tokens.Stats()
			return stats.Reloads, stats.Failures
		})
	}
	if audit := s.access.Audit; audit != nil {
		to.Audit(audit.Failures)
	}
}

// maxScrapes is the number of scrapes that gather the metrics at the same time; others wait.
const maxScrapes = 4

// scrape answers with all metrics, in the format that Prometheus asks for.
func (s *service) scrape(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
	select {
	case s.scrapes <- struct{}{}:
	case <-c.Request().Context().Done():
		return c.Request().Context().Err()
	}
	answer := gathered{ResponseWriter: c.Response(), status: http.StatusOK}
	func() {
		defer func() { <-s.scrapes }()
		s.metrics.Handler().ServeHTTP(&answer, c.Request())
	}()
	// The client may take its time, and delays no other scrape.
	place := s.scraped.enter(c.Response().Writer)
	defer s.scraped.leave(place)
	return sendAs(c, answer.status, c.Response().Header().Get(echo.HeaderContentType), answer.text.Bytes())
}

// gathered is an answer that is held until it is complete.
type gathered struct {
	http.ResponseWriter

	status int
	text   bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter].
func (g *gathered) WriteHeader(status int) { g.status = status }

// Write implements [io.Writer].
func (g *gathered) Write(p []byte) (int, error) { return g.text.Write(p) }

func (c *feedCounts) metrics() metrics.Feeds {
	s := c.stats()
	return metrics.Feeds{Kept: s.Kept, Dropped: s.Dropped, Degraded: s.Degraded}
}

func (l *limits) metrics() metrics.Load {
	load := metrics.Load{Shed: l.shed.Load()}
	load.Requests, load.RequestsLimit = l.requests.taken()
	load.Streams, load.StreamsLimit = l.streams.taken()
	load.Bodies, load.BodiesLimit = l.bodies.taken()
	return load
}
