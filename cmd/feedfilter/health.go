package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

const maxHealthTimeout = time.Minute

// healthCmd replaces curl where that is missing, as in the service's container.
type healthCmd struct {
	URL     string        `default:"http://127.0.0.1:8080" help:"${health_url}"     placeholder:"URL"`
	Timeout time.Duration `default:"3s"                    help:"${health_timeout}" placeholder:"DURATION"`
	Result  resultFlags   `embed:""`
	Config  string        `help:"${config}"                placeholder:"FILE"`
}

// Check implements [settings.Checker].
func (c *healthCmd) Check(context.Context) error {
	var all checks
	_, err := directly(c.URL, 0, nil)
	all.wantf(err == nil, "--url: %w", err)
	all.wantf(c.Timeout > 0 && c.Timeout <= maxHealthTimeout, "--timeout: %v is not above 0 and up to %v", c.Timeout, maxHealthTimeout)
	return all.err()
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
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	answer, err := c.ask(ctx)
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
	service, err := directly(c.URL, c.Timeout, nil)
	if err != nil {
		return nil, err
	}
	defer service.Close()
	answer, err := service.Ready(ctx)
	if err != nil {
		return nil, err
	}
	if !answer.Answers() {
		return &answer, fmt.Errorf("%s: %s", c.URL, inWords(&answer))
	}
	return &answer, nil
}
