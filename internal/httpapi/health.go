package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

// readyTimeout is how long the dependencies have to answer. It is shorter than the probe timeouts
// of orchestrators.
const readyTimeout = 2 * time.Second

// Statuses of a service.
const (
	statusReady       = "ready"
	statusDegraded    = "degraded"
	statusUnavailable = "unavailable"
)

type healthAnswer struct {
	Status string `json:"status"`
	Down   []down `json:"down,omitempty"`
}

// down is a dependency that does not work.
type down struct {
	Dependency string `json:"dependency"`
	Reason     string `json:"reason"`
}

// health answers 200 while the process serves requests.
func (s *service) health(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	return respond(c, http.StatusOK, healthAnswer{Status: "ok"})
}

// ready answers whether the service can answer feeds. It also answers 200 if only the pages or only
// the ledger work: otherwise an outage of Redis would take every instance out of service. Anybody
// may read the answer, so it contains no addresses; details are only logged.
func (s *service) ready(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	ready, errs := s.dependencies(c.Request().Context())
	if len(errs) == 0 {
		return respond(c, http.StatusOK, healthAnswer{Status: statusReady})
	}
	s.logError(c, s.downs, "check the dependencies", errors.Join(errs...))
	answer := healthAnswer{Status: statusDegraded, Down: make([]down, len(errs))}
	for i, err := range errs {
		answer.Down[i] = downOf(err)
	}
	if ready {
		return respond(c, http.StatusOK, answer)
	}
	answer.Status = statusUnavailable
	c.Response().Header().Set(echo.HeaderRetryAfter, "1")
	return respond(c, http.StatusServiceUnavailable, answer)
}

// dependencies returns the result of [activity.Recorder.Ready]. Concurrent callers share one check:
// anybody may call it at any rate, and must not use up the connections of feeds and writes.
func (s *service) dependencies(ctx context.Context) (ready bool, down []error) {
	type answer struct {
		ready bool
		down  []error
	}
	shared, _, _ := s.asking.Do("", func() (any, error) {
		ctx, cancel := s.readyContext(context.WithoutCancel(ctx)) // the first caller may leave
		defer cancel()
		ready, down := s.activities.Ready(ctx)
		return answer{ready, down}, nil
	})
	a, _ := shared.(answer)
	return a.ready, a.down
}

// readyContext returns a context that ends after readyTimeout.
func (s *service) readyContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(readyTimeout, s.timeout))
}

func downOf(err error) down {
	d := down{Dependency: "service", Reason: "it failed; see the log"}
	if dependency, ok := errors.AsType[*activity.UnavailableError](err); ok {
		d.Dependency = dependency.Dependency
	}
	network, is := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), is && network.Timeout():
		d.Reason = "it does not answer in time"
	case is:
		d.Reason = "it cannot be reached"
	case errors.Is(err, activity.ErrBehind):
		d.Reason = "its changes arrive too late; each feed reads its page's state from it"
	}
	return d
}
