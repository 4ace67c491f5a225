package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/internal/doctor"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/ops"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// running holds the parts of a running service, in the order in which they are opened.
type running struct {
	*serveCmd

	dropped func() uint64 // returns the number of dropped log lines
	lines   *heldLines    // of the log
	log     *slog.Logger
	level   *slog.LevelVar
	control *accessControl
	data    *data
	sampler *sampler.Sampler
	handler *httpapi.Handler
	limit   *connectionLimit

	follower *follow.Follower // nil: this process reads the stream of no source

	listeners []net.Listener

	beside  sync.WaitGroup // background work
	closers []func() error
}

// onClose adds a function that close calls, before it closes what was opened earlier.
func (r *running) onClose(do func() error) { r.closers = append(r.closers, do) }

// onEnd is onClose for a function that cannot fail.
func (r *running) onEnd(do func()) {
	r.onClose(func() error { do(); return nil })
}

// close closes what is open, last opened first.
func (r *running) close() error {
	var errs []error
	for _, do := range slices.Backward(r.closers) {
		errs = append(errs, do())
	}
	return errors.Join(errs...)
}

// closeWithin calls close, and gives up after limit, for example when a disk hangs. The process
// ends in any case; acknowledged writes are safe.
func (r *running) closeWithin(limit time.Duration) error {
	closed := make(chan error, 1)
	go func() { closed <- r.close() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		r.lines.release()
		return fmt.Errorf("close: timed out after %v", limit)
	}
}

// open opens the data, the access control and the listeners. After an error, close closes what is
// open.
func (r *running) open(ctx context.Context, std stdio) (err error) {
	r.onEnd(r.lines.release)
	r.log, r.level = r.Data.leveledLogger(r.lines)
	if r.control, err = r.Access.open(ctx, r.Addr, r.log); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	r.onClose(func() error {
		end()
		return r.control.close()
	})
	r.Data.meters = r.Data.newMeters(r.control)
	r.Data.meters.LogLines(r.dropped)
	if err := r.trace(ctx); err != nil {
		return err
	}
	slog.SetDefault(r.log) // dependencies that use package log write to it
	r.Data.afterTimeout = r.AfterTimeout
	r.Data.followedWithin = cmp.Or(r.FollowedWithin, -1) // 0: never
	keep := func(d *data) error { return r.Data.keepPages(ctx, d, r.log) }
	if r.data, err = r.Data.open(ctx, r.log, keep); err != nil {
		return err
	}
	r.onClose(r.data.close)
	if err := r.Access.openLogs(r.control, r.Data.DataDir, std, r.log); err != nil {
		return err
	}
	if err := r.listen(ctx); err != nil {
		return err
	}
	first, _ := r.Data.leveledLogger(r.lines.to)
	for _, l := range r.listeners {
		logListening(ctx, first, l.Addr(), r.data)
	}
	r.lines.release()
	return nil
}

// listen creates the handlers and listens.
func (r *running) listen(ctx context.Context) (err error) {
	//nolint:contextcheck // Close ends it
	r.sampler, err = sampler.New(r.data.recorder, sampler.Config{
		Rate:   r.Watch.SampleRate,
		Logger: r.log,
		HashID: r.control.access.IDs.Hash,
	})
	if err != nil {
		return err
	}
	r.onEnd(r.sampler.Close)
	mode, err := socketMode(r.SocketMode)
	if err != nil {
		return err
	}
	if r.listeners, err = listenAll(ctx, addrFlag, r.Addr, mode); err != nil {
		return err
	}
	r.onClose(func() error { return closeAll(r.listeners) })
	r.control.start(ctx, r.log)
	logDamage(ctx, r.log, r.data)
	if r.data.windows != nil {
		r.log.InfoContext(ctx, "windows restored", "pages", r.data.windows.Restored().Pages)
	}
	besides, end := context.WithCancel(ctx)
	r.onEnd(func() {
		end()
		r.beside.Wait()
	})
	events, sources, err := r.makeFollower()
	if err != nil {
		return err
	}
	//nolint:contextcheck // handlers use their requests' contexts
	r.handler = httpapi.New(httpapi.Config{
		Activities:  r.data.activities,
		Logger:      r.log,
		MaxRequests: r.MaxRequests,
		Access:      r.control.access,
		Metrics:     r.Data.meters,
		Events:      events,
		Sampler:     r.sampler,
		Trace:       r.Data.tracer.Requests(r.control.access.Trusts),
		About:       r.Data.about(),
		Sources:     sources,
		Background:  func(do func(context.Context)) { r.beside.Go(func() { do(besides) }) },
	})
	r.limit = newConnectionLimit(r.connections(r.MaxConnections), r.handler.Unread)
	r.follow(ctx)
	return nil
}

// connections returns the limit of connections. It warns if that is less than the given one.
func (r *running) connections(limit int) int {
	files := maxOpenFiles()
	most := connectionsWithin(limit, files)
	if most < limit {
		r.log.Warn("connection limit lowered to three quarters of the open-files limit",
			"connections", most, "files", files)
	}
	return most
}

// serve serves until ctx ends, and reloads the settings at each hup.
func (r *running) serve(ctx context.Context, hup <-chan os.Signal, chosen *invocation) error {
	server := newServer(r.handler, r.log, defaultTimeouts())
	server.RegisterOnShutdown(r.handler.EndWatches)
	served := make(chan error, len(r.listeners))
	for _, l := range r.listeners {
		go func() {
			err := server.Serve(r.control.listener(r.limit.listener(l)))
			served <- fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}()
	}
	r.logRedis(ctx)
	for _, variable := range chosen.command.Unused {
		r.log.WarnContext(ctx, "variable has no effect on serve", "variable", variable)
	}
	reload := &reloader{
		now:   chosen,
		kinds: r.data.activities.Kinds(),
		files: r.control.reload,
		log:   r.log,
		live:  r.live(),
	}
	for {
		select {
		case <-hup:
			reload.run(ctx)
		case err := <-served:
			return err
		case <-ctx.Done():
			return r.shutdown(ctx, server, r.log)
		}
	}
}

// logRedis logs the version of Redis, or that Redis does not answer.
func (r *running) logRedis(ctx context.Context) {
	err := r.data.pingRedis(ctx)
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "redis unavailable, feeds are answered from the ledger", "error", err)
	}
	if err != nil || r.data.redis == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if versions, err := doctor.Versions(limited, r.data.redis.pages); err == nil && versions != "" {
		r.log.InfoContext(ctx, "redis answers", "server", versions)
	}
}

// live returns the settings that can change at run time.
func (r *running) live() liveSettings {
	return liveSettings{
		"log-level": func(to *serveCmd) error {
			return r.level.UnmarshalText([]byte(to.Data.LogLevel))
		},
		"max-requests": func(to *serveCmd) error {
			r.handler.SetMaxRequests(to.MaxRequests)
			return nil
		},
		"max-connections": func(to *serveCmd) error {
			r.limit.set(r.connections(to.MaxConnections))
			return nil
		},
		"scrub-rate": func(to *serveCmd) error {
			if r.data.recorder == nil { // nothing scrubs
				return nil
			}
			return r.data.recorder.Scrubber().SetScrubRate(to.Data.ScrubRate)
		},
		"sample-rate": func(to *serveCmd) error { return r.sampler.SetRate(to.Watch.SampleRate) },
		"rate-limit": func(to *serveCmd) error {
			if r.control.access.Tokens != nil { // the limit applies to each token
				r.control.access.Tokens.SetRate(to.Access.RateLimit)
			}
			return nil
		},
		"user-rate-limit": func(to *serveCmd) error {
			r.control.access.Users.SetRate(to.Access.UserRateLimit)
			return nil
		},
		"shutdown-timeout": func(to *serveCmd) error {
			r.ShutdownTimeout = to.ShutdownTimeout
			return nil
		},
	}
}

// about describes the parts of a service with these flags, without addresses.
func (f *dataFlags) about() ops.About {
	a := ops.About{Version: thisVersion().Version, PageStore: "memory"}
	a.Ledger, _, _ = strings.Cut(f.ledgerURL(), ":")
	if a.Ledger == "postgresql" {
		a.Ledger = "postgres"
	}
	if scheme, _, ok := strings.Cut(f.Redis, ":"); ok {
		a.PageStore = strings.NewReplacer("rediss", "redis", "unix", "redis").Replace(scheme)
	}
	return a
}
