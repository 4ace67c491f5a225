package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

const (
	maxHealthTimeout = time.Minute
	healthPause      = 200 * time.Millisecond // between two questions of --wait
)

// healthCmd replaces curl where that is missing, as in the service's container.
type healthCmd struct {
	Server  string        `help:"${health_server}"  placeholder:"URL"`
	Addr    string        `default:"127.0.0.1:8080" hidden:""` // of serve
	URL     *string       `hidden:""`                          // of version 0.1: refused
	Timeout time.Duration `default:"3s"             help:"${health_timeout}" placeholder:"DURATION"`
	Wait    time.Duration `default:"0s"             help:"${health_wait}"    placeholder:"DURATION"`
	Result  resultFlags   `embed:""`
	Config  string        `help:"${config}"         placeholder:"FILE"`
}

// Check implements [settings.Checker].
func (c *healthCmd) Check(context.Context) error {
	var all checks
	_, err := directly(c.server(), 0, 1, nil)
	all.wantf(err == nil, "--server: %w", err)
	all.wantf(c.URL == nil, "--url: has another name: --server")
	all.wantf(c.Wait >= 0, "--wait: %v is below 0", c.Wait)
	all.wantf(
		c.Timeout > 0 && c.Timeout <= maxHealthTimeout,
		"--timeout: %v is not above 0 and up to %v", c.Timeout, maxHealthTimeout,
	)
	return all.err()
}

// server returns --server, or else the first address that serve would listen on.
func (c *healthCmd) server() string {
	if c.Server != "" {
		return c.Server
	}
	addr := addresses(c.Addr)[0]
	host, port, err := net.SplitHostPort(addr)
	if err != nil || strings.HasPrefix(addr, unixScheme) {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() && ip.To4() != nil {
		host = "127.0.0.1"
	} else if ip.IsUnspecified() {
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// inWords formats a service's readiness as one line.
func inWords(r *client.Readiness) string {
	parts := make([]string, 1, 1+len(r.Down))
	parts[0] = r.Status
	for _, d := range r.Down {
		parts = append(parts, d.Dependency+": "+d.Reason)
	}
	return strings.Join(parts, "; ")
}

// Run prints the service's readiness. It fails if the service cannot answer feeds.
func (c *healthCmd) Run(ctx context.Context, std stdio) error {
	answer, err := c.ask(ctx)
	for end := time.Now().Add(c.Wait); err != nil && time.Now().Before(end); {
		if err := pause(ctx, healthPause); err != nil {
			return fmt.Errorf("health: %w", err)
		}
		answer, err = c.ask(ctx)
	}
	if answer != nil && c.Result.json() {
		err = errors.Join(err, writeJSON(std.out, answer))
	} else if err == nil {
		_, err = fmt.Fprintln(std.out, inWords(answer))
	}
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	return nil
}

// ask returns the service's readiness, nil without an answer. It returns an error unless the
// service can answer feeds.
func (c *healthCmd) ask(ctx context.Context) (*client.Readiness, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	service, err := directly(c.server(), c.Timeout, 1, nil)
	if err != nil {
		return nil, err
	}
	defer service.Close()
	answer, err := service.Ready(ctx)
	if err != nil {
		return nil, err
	}
	if !answer.Answers() {
		return &answer, fmt.Errorf("%s: %s", c.server(), inWords(&answer))
	}
	return &answer, nil
}
