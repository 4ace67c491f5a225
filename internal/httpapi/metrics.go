package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/rest"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// meters count requests. The maps do not change later.
type meters struct {
	routes map[routeName]*metrics.Route
	other  *metrics.Route // of unknown paths and methods
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
	return metrics.Durations(m.routes[routeName{http.MethodPost, rest.FilterPath}],
		m.routes[routeName{http.MethodPost, feedfilterv1connect.FeedServiceFilterProcedure}])
}

// newMeters adds a meter for each route to a registry.
func newMeters(to *metrics.Registry, routes []wire.Route) meters {
	requests := to.Requests()
	const other = "other"
	m := meters{routes: make(map[routeName]*metrics.Route), other: requests.Route(other, other)}
	for _, r := range routes {
		meter := requests.Route(r.Path, r.Method)
		m.routes[routeName{r.Method, r.Path}] = meter
		if r.Method == http.MethodGet {
			m.routes[routeName{http.MethodHead, r.Path}] = meter
		}
	}
	return m
}

// measure adds the metrics of the operations to a registry.
func measure(o *operations.Operations, to *metrics.Registry) {
	to.Load(o.Load)
	to.Activities(o.Recorder != nil, o.Activities.Stats)
	to.Sampling(o.Sampler.Stats)
	if o.Recorder != nil {
		to.Survey(o.Recorder.Survey)
	}
	to.Follow(o.Sources)
	to.Refused(o.Reports.Refused)
	to.Unread(o.Reports.UnreadCounts)
	if tokens := o.Access.Tokens; tokens != nil {
		to.TokenFile(func() (loaded, failed uint64) {
			stats := tokens.Stats()
			return stats.Reloads, stats.Failures
		})
	}
	if audit := o.Access.Audit; audit != nil {
		to.Audit(audit.Failures)
	}
}
