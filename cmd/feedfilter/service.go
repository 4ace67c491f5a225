package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/migrate"
)

// serviceFlags name a running service that a command works through.
type serviceFlags struct {
	Server string      `help:"${server}" placeholder:"URL"`
	Client clientFlags `embed:""`
}

// Validate is called by kong when all flags are set.
func (f *serviceFlags) Validate() error {
	if f.Server == "" {
		return nil
	}
	if _, err := serviceURL(f.Server); err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	return nil
}

// serviceURL checks the address of a service.
func serviceURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("not a URL") // which may have a password in it
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.RawQuery != "", u.Fragment != "", u.User != nil:
		return nil, errors.New("not of the form http://<host>:<port>")
	}
	return u, nil
}

// service is the service that --server names.
func (f *serviceFlags) service(ctx context.Context) (*migrate.Service, error) {
	u, err := serviceURL(f.Server)
	if err != nil {
		return nil, err
	}
	s := &migrate.Service{URL: u, Client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	s.Token, err = f.Client.token(ctx)
	return s, err
}

// reach returns the service that --server names, or one over the data that lives in this process until stop is called.
func (f *serviceFlags) reach(ctx context.Context, data *dataFlags, std stdio) (s *migrate.Service, d *data, stop func() error, err error) {
	if f.Server != "" {
		s, err := f.service(ctx)
		return s, nil, func() error { return nil }, err
	}
	log := data.logger(std)
	d, err = data.open(ctx, log, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	if d.ledger == nil {
		err = errors.New("--ledger: there has to be one, which knows exactly what there is")
	} else {
		err = d.pingRedis(ctx)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, d.close())
	}
	s, halt := inProcess(httpapi.New(httpapi.Config{Recorder: d.recorder, Logger: log}), log) //nolint:contextcheck // requests have theirs
	return s, d, func() error { return errors.Join(halt(), d.close()) }, nil
}

// inProcess serves h to this process alone, without a port, until halt is called.
func inProcess(h http.Handler, log *slog.Logger) (s *migrate.Service, halt func() error) {
	pipes := &pipeListener{pipes: make(chan net.Conn), closed: make(chan struct{})}
	server := newServer(h, log, defaultTimeouts())
	go func() { _ = server.Serve(pipes) }() // until halt
	transport := &http.Transport{DialContext: pipes.dial, MaxIdleConnsPerHost: 16}
	s = &migrate.Service{URL: &url.URL{Scheme: "http", Host: "127.0.0.1"}, Client: &http.Client{Transport: transport}}
	return s, func() error {
		transport.CloseIdleConnections()
		return server.Close()
	}
}

// pipeListener accepts what is dialled in this process.
type pipeListener struct {
	pipes  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.pipes <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case there := <-l.pipes:
		return there, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]; the server calls it once.
func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

// Addr implements [net.Listener].
func (*pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "in process", Net: "pipe"} }
