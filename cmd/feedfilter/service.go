package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

const (
	// askTimeout is how long a service may take to answer.
	askTimeout = 15 * time.Second
	// inProcessTimeout is how long a service in this process may take: to rebuild a large page, for
	// example.
	inProcessTimeout = 10 * time.Minute
	// maxIdle is the maximum number of idle connections, for concurrent calls.
	maxIdle = 16
)

// serviceFlags name a running service that a command works through.
type serviceFlags struct {
	Server string      `help:"${server}" placeholder:"URL"`
	Client clientFlags `embed:""`
}

// Check implements [settings.Checker].
func (f *serviceFlags) Check(context.Context) error {
	if f.Server == "" {
		return nil
	}
	if _, err := f.service(1); err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	return nil
}

// service returns a client of the service that --server names, which makes up to that many attempts
// of a call.
func (f *serviceFlags) service(attempts int) (*client.Client, error) {
	return directly(f.Server, askTimeout, attempts, f.Client.token)
}

// directly returns a client of the service at address. The client uses no proxy and follows no
// redirect.
func directly(
	address string, timeout time.Duration, attempts int, token func(context.Context) (string, error),
) (*client.Client, error) {
	return client.New(address, client.Options{
		AttemptTimeout: timeout,
		MaxAttempts:    attempts,
		Token:          token,
		HTTPClient: &http.Client{
			Transport: &http.Transport{MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute},
		},
	})
}

// inProcess serves h to this process only, without a port, until halt is called.
func inProcess(h http.Handler, log *slog.Logger) (c *client.Client, halt func() error, err error) {
	pipes := &pipeListener{pipes: make(chan net.Conn), closed: make(chan struct{})}
	server := newServer(h, log, timeouts{})
	go func() { _ = server.Serve(pipes) }() // until halt
	c, err = client.New("http://127.0.0.1", client.Options{
		MaxAttempts: 1, AttemptTimeout: inProcessTimeout,
		HTTPClient: &http.Client{
			Transport: &http.Transport{DialContext: pipes.dial, MaxIdleConnsPerHost: maxIdle},
		},
	})
	return c, func() error {
		c.Close()
		return server.Close()
	}, err
}

// pipeListener accepts connections that this process dials.
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
