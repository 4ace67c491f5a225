package ops

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

const (
	// defaultProfiled and maxProfiled are how long a profile of the processors may take, in seconds.
	defaultProfiled = 30
	maxProfiled     = 60
	// busy is why a profile is refused.
	busy = "one profile at a time, and of many one a second"
	// profileType is the media type of a profile: Protobuf, compressed with gzip.
	profileType = "application/octet-stream"
)

// Profiles answers with profiles of the process, for "go tool pprof". They name functions and count
// samples, and hold no data of a request. One is taken at a time, and of many one a second: a
// profile of the heap or of goroutines stops the process for a moment.
type Profiles struct {
	requestTimeout time.Duration // for writing the answer
	rate           *access.Throttle
	taking         sync.Mutex // held while a profile is taken
	ending         chan struct{}
	end            func()
}

// NewProfiles returns profiles of this process.
func NewProfiles(o *operations.Operations) *Profiles {
	p := &Profiles{requestTimeout: o.Limits.Timeout, rate: access.NewThrottle(), ending: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.ending) })
	return p
}

// End ends a profile that is taken, and answers with what it has. The service shuts down.
func (p *Profiles) End() { p.end() }

// Routes returns the routes of profiles.
func (p *Profiles) Routes() []wire.Route {
	read := []access.Scope{access.OpsRead}
	route := func(name string, handle wire.Handler) wire.Route {
		return wire.Route{
			Method: http.MethodGet, Path: "/v1/ops/profiles/" + name, Handle: handle, Scopes: read, Audit: wire.AuditAlways,
		}
	}
	return []wire.Route{
		route("cpu", p.cpu),
		route("heap", p.snapshot("heap")),
		route("goroutine", p.snapshot("goroutine")),
	}
}

// cpu answers with what the processors do for some seconds. It ends early if the client leaves, and
// then answers nothing.
func (p *Profiles) cpu(k *wire.Call) error {
	params, err := wire.Query(k, "seconds")
	if err != nil {
		return err
	}
	seconds := defaultProfiled
	if params.Has("seconds") {
		text := params.Get("seconds")
		seconds, err = strconv.Atoi(text)
		if err != nil || strconv.Itoa(seconds) != text || seconds < 1 || seconds > maxProfiled {
			return wire.Refuse(activity.CodeOutOfRange, "seconds",
				fmt.Sprintf("%q is not a number from 1 to %d", wire.Clip(text), maxProfiled))
		}
	}
	length := time.Duration(seconds) * time.Second
	return p.answer(k, length, func(ctx context.Context, to *bytes.Buffer) error {
		if err := pprof.StartCPUProfile(to); err != nil {
			return wire.Busy(time.Second, busy) // by another part of the process
		}
		defer pprof.StopCPUProfile()
		timer := time.NewTimer(length)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-p.ending:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// snapshot answers with a profile of this moment.
func (p *Profiles) snapshot(name string) wire.Handler {
	return func(k *wire.Call) error {
		if _, err := wire.Query(k); err != nil {
			return err
		}
		return p.answer(k, 0, func(_ context.Context, to *bytes.Buffer) error {
			return pprof.Lookup(name).WriteTo(to, 0)
		})
	}
}

// answer takes a profile and answers with it. To a HEAD request it answers without one.
func (p *Profiles) answer(k *wire.Call, length time.Duration, take func(ctx context.Context, to *bytes.Buffer) error) error {
	if err := wire.NoBody(k); err != nil {
		return err
	}
	k.Note("profile", "", "", "")
	var profile bytes.Buffer
	if k.Request().Method != http.MethodHead {
		if err := wire.TakeTime(k, length+p.requestTimeout); err != nil {
			return err
		}
		if err := p.alone(func() error { return take(k.Request().Context(), &profile) }); err != nil {
			return err
		}
	}
	k.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="profile.pb.gz"`)
	return wire.Send(k, http.StatusOK, profileType, profile.Bytes())
}

// alone takes a profile, unless another one is taken or too many were.
func (p *Profiles) alone(take func() error) error {
	if !p.taking.TryLock() {
		return wire.Busy(time.Second, busy)
	}
	defer p.taking.Unlock()
	if _, ok := p.rate.Pass(time.Now()); !ok {
		return wire.Busy(time.Second, busy)
	}
	return take()
}
