package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi"
)

const (
	maxHeaderBytes = 64 << 10
	// highestLimit is the highest of --max-requests and --max-connections.
	highestLimit = 1_000_000
)

// timeouts are how long a client may keep a connection waiting. Handlers that stream
// move their own deadlines.
type timeouts struct {
	header time.Duration // to the end of a request's header, from its start or that of the connection
	read   time.Duration // the same to the end of its body
	write  time.Duration // from the end of the header to the end of the answer
	idle   time.Duration // between two requests
}

func defaultTimeouts() timeouts {
	return timeouts{header: 5 * time.Second, read: 30 * time.Second, write: time.Minute, idle: 2 * time.Minute}
}

type serveCmd struct {
	Data            dataFlags     `embed:""`
	Access          accessFlags   `embed:""`
	Addr            string        `default:"127.0.0.1:8080" help:"${addr}"            placeholder:"HOST:PORT"`
	MaxRequests     int           `default:"512"            help:"${max_requests}"    placeholder:"N"`
	MaxConnections  int           `default:"10000"          help:"${max_connections}" placeholder:"N"`
	ShutdownTimeout time.Duration `default:"15s"            help:"${shutdown}"        placeholder:"DURATION"`
	Watch           watchFlags    `embed:""`
}

// Validate is called by kong when all flags are set.
func (c *serveCmd) Validate() error {
	var all checks
	all.wantf(c.ShutdownTimeout >= 0, "--shutdown-timeout: %v is negative", c.ShutdownTimeout)
	all.wantf(c.MaxRequests >= 1 && c.MaxRequests <= highestLimit, "--max-requests: %d is not in 1 to %d", c.MaxRequests, highestLimit)
	all.wantf(c.MaxConnections >= 1 && c.MaxConnections <= highestLimit,
		"--max-connections: %d is not in 1 to %d", c.MaxConnections, highestLimit)
	_, _, err := net.SplitHostPort(c.Addr)
	all.wantf(err == nil, "--addr: %w: want <host>:<port>", err)
	return all.err()
}

// Check returns what cannot be told from the flags alone.
func (c *serveCmd) Check(ctx context.Context) error {
	return errors.Join(c.Data.Check(ctx), c.Access.check(ctx, c.Addr))
}

// Run serves until ctx ends, then lets the requests in flight finish.
func (c *serveCmd) Run(ctx context.Context, std stdio, chosen *invocation) (err error) {
	hup := hangups()
	log, level := c.Data.leveledLogger(std)
	guard, err := c.Access.open(ctx, c.Addr, log)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer func() {
		stop(err)
		err = errors.Join(err, guard.close())
	}()
	c.Data.meters = c.Data.newMeters(guard)
	log = c.Watch.logger(log)
	if c.Data.tracer, err = c.Watch.tracer(ctx, log); err != nil {
		return err
	}
	defer closeTracer(context.WithoutCancel(ctx), c.Data.tracer, log)
	d, err := c.Data.open(ctx, log, func(d *data) error { return c.Data.keepPages(ctx, d, log) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := c.Access.openLogs(guard, c.Data.DataDir, std, log); err != nil {
		return err
	}
	sampler, err := c.Watch.sampler(d.recorder, log, guard.access.IDs.Hash) //nolint:contextcheck // it ends when it is closed
	if err != nil {
		return err
	}
	defer sampler.Close()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return err
	}
	logListening(ctx, log, listener.Addr(), d)
	guard.start(ctx, log)
	logDamage(ctx, log, d)
	if d.windows != nil {
		log.InfoContext(ctx, "windows restored", "pages", d.windows.Restored().Pages)
	}
	var beside sync.WaitGroup // requests
	defer beside.Wait()
	besides, end := context.WithCancel(ctx)
	defer end()
	//nolint:contextcheck // handlers have their requests' contexts
	handler := httpapi.New(httpapi.Config{
		Recorder: d.recorder, Logger: log, MaxRequests: c.MaxRequests, Access: guard.access, Metrics: c.Data.meters,
		Sampler: sampler, Trace: c.Data.tracer.Requests(),
		About:      c.Data.about(),
		Background: func(do func(context.Context)) { beside.Go(func() { do(besides) }) },
	})
	server := newServer(handler, log, defaultTimeouts())
	limited := limitConnections(listener, c.MaxConnections)
	served := make(chan error, 1)
	go func() { served <- server.Serve(guard.listener(limited)) }()
	if err := d.pingRedis(ctx); err != nil && ctx.Err() == nil {
		log.WarnContext(ctx, "feeds are answered from the ledger until Redis is up", "error", err)
	}
	reload := &reloader{
		now: chosen, kinds: d.recorder.Kinds(), files: guard.reload, log: log,
		live: []liveSetting{
			{flag: "log-level", apply: func(to *serveCmd) error { level.Set(to.Data.level()); return nil }},
			{flag: "max-requests", apply: func(to *serveCmd) error { handler.SetMaxRequests(to.MaxRequests); return nil }},
			{flag: "max-connections", apply: func(to *serveCmd) error { limited.setLimit(to.MaxConnections); return nil }},
			{flag: "scrub-rate", apply: func(to *serveCmd) error { return d.recorder.SetScrubRate(to.Data.ScrubRate) }},
			{flag: "shutdown-timeout", apply: func(to *serveCmd) error { c.ShutdownTimeout = to.ShutdownTimeout; return nil }},
		},
	}
	for {
		select {
		case <-hup:
			reload.run(ctx)
		case err := <-served:
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		case <-ctx.Done():
			return c.shutdown(ctx, server, log)
		}
	}
}

// shutdown stops accepting requests and waits for those in flight.
func (c *serveCmd) shutdown(ctx context.Context, server *http.Server, log *slog.Logger) error {
	log.InfoContext(ctx, "shutting down", "cause", context.Cause(ctx).Error(), "timeout", c.ShutdownTimeout.String())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("shut down: requests were cut off after %v: %w", c.ShutdownTimeout, err), server.Close())
	}
	log.InfoContext(ctx, "stopped")
	return nil
}

func newServer(handler http.Handler, log *slog.Logger, t timeouts) *http.Server {
	return &http.Server{
		Handler:           handler,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: t.header,
		ReadTimeout:       t.read,
		WriteTimeout:      t.write,
		IdleTimeout:       t.idle,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// logListening logs the address, as the first line and whatever the level is: with
// port 0 there is no other way to learn it.
func logListening(ctx context.Context, log *slog.Logger, addr net.Addr, d *data) {
	pages := "in process"
	if d.redis != nil {
		pages = d.redis.addrs
	}
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "listening", 0)
	line.Add("addr", addr.String(), "ledger_pages", d.recorder.Pages(), "page_store", pages)
	_ = log.Handler().Handle(ctx, line) // there is nowhere to report that the log fails
}
