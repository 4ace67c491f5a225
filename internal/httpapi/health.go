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

// readyTimeout is how long the dependencies have to say that they are there: less
// than the probes of orchestrators wait.
const readyTimeout = 2 * time.Second

// How a service is.
const (
	statusReady       = "ready"
	statusDegraded    = "degraded"
	statusUnavailable = "unavailable"
)

type healthAnswer struct {
	Status string `json:"status"`
	Down   []down `json:"down,omitempty"`
}

// down is a dependency that does not answer.
type down struct {
	Dependency string `json:"dependency"`
	Reason     string `json:"reason"`
}

// health answers that the process serves requests.
func (s *service) health(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	return respond(c, http.StatusOK, healthAnswer{Status: "ok"})
}

// ready answers whether feeds can be answered: also while only the pages or only the
// ledger can be reached, or a Redis that is down would take every instance out of
// service. What is wrong in detail is logged: the answer is for anybody and names no
// addresses.
func (s *service) ready(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	ctx, cancel := s.readyContext(c)
	defer cancel()
	ready, errs := s.recorder.Ready(ctx)
	if len(errs) == 0 {
		return respond(c, http.StatusOK, healthAnswer{Status: statusReady})
	}
	s.logError(c, "ask the dependencies", errors.Join(errs...))
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

// readyContext is that of a request which asks the dependencies whether they are there.
func (s *service) readyContext(c echo.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Request().Context(), min(readyTimeout, s.timeout))
}

func downOf(err error) down {
	d := down{Dependency: "service", Reason: "it does not work (see the log)"}
	if dependency, ok := errors.AsType[*activity.UnavailableError](err); ok {
		d.Dependency = dependency.Dependency
	}
	network, is := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), is && network.Timeout():
		d.Reason = "it does not answer in time"
	case is:
		d.Reason = "it cannot be reached"
	}
	return d
}
