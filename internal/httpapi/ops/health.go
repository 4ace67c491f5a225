package ops

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

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

// alive answers 200 while the process serves requests.
func (o *ops) alive(context.Context, *wire.Call) (any, error) { return healthAnswer{Status: "ok"}, nil }

// ready answers whether the service can answer feeds. It also answers 200 if only the pages or only
// the ledger work: otherwise an outage of Redis would take every instance out of service. Anybody
// may read the answer, so it contains no addresses; details are only logged.
func (o *ops) ready(k *wire.Call) error {
	if _, err := wire.Query(k); err != nil {
		return err
	}
	ready, errs := o.operations.Health.Ask(k.Request().Context())
	if len(errs) > 0 {
		o.operations.Reports.LogPart(k, o.downs, "check the dependencies", errors.Join(errs...))
	}
	answer := healthAnswer{statusOf(ready, errs), downsOf(errs)}
	if ready {
		return wire.Respond(k, answer)
	}
	k.Response().Header().Set(echo.HeaderRetryAfter, "1")
	return wire.RespondAs(k, http.StatusServiceUnavailable, answer)
}

func statusOf(ready bool, down []error) string {
	switch {
	case !ready:
		return statusUnavailable
	case len(down) > 0:
		return statusDegraded
	default:
		return statusReady
	}
}

func downsOf(errs []error) []down {
	all := make([]down, len(errs))
	for i, err := range errs {
		all[i] = downOf(err)
	}
	return all
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
