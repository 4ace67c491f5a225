package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	maxHealthTimeout = time.Minute
	maxHealthBytes   = 64 << 10 // of an answer
)

// healthCmd is for where there is a service and no curl, as in its container.
type healthCmd struct {
	URL     string        `default:"http://127.0.0.1:8080" help:"${health_url}"     placeholder:"URL"`
	Timeout time.Duration `default:"3s"                    help:"${health_timeout}" placeholder:"DURATION"`
	Config  string        `help:"${config}"                placeholder:"FILE"`
}

// Validate is called by kong when all flags are set.
func (c *healthCmd) Validate() error {
	var all checks
	_, err := c.probe()
	all.wantf(err == nil, "--url: %w", err)
	all.wantf(c.Timeout > 0 && c.Timeout <= maxHealthTimeout, "--timeout: %v is not above 0 and up to %v", c.Timeout, maxHealthTimeout)
	return all.err()
}

// probe is the address to ask.
func (c *healthCmd) probe() (string, error) {
	u, err := serviceURL(c.URL)
	if err != nil {
		return "", err
	}
	return u.JoinPath("readyz").String(), nil
}

// Run prints what the service says of itself; it fails if feeds cannot be answered.
func (c *healthCmd) Run(ctx context.Context, std stdio) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	status, err := c.ask(ctx)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	_, err = fmt.Fprintln(std.out, status)
	return err
}

// ask returns the status of a service that answers feeds: ready or degraded, and what is down.
func (c *healthCmd) ask(ctx context.Context) (string, error) {
	probe, err := c.probe()
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, probe, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := directly().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthBytes))
	if err != nil {
		return "", fmt.Errorf("%s: %w", probe, err)
	}
	var answer struct {
		Status string `json:"status"`
		Down   []struct {
			Dependency string `json:"dependency"`
			Reason     string `json:"reason"`
		} `json:"down"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status == "" {
		return "", fmt.Errorf("%s: answered %s, and not as feedfilter does", probe, resp.Status)
	}
	parts := []string{answer.Status}
	for _, d := range answer.Down {
		parts = append(parts, d.Dependency+": "+d.Reason)
	}
	status := strings.Join(parts, "; ")
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", probe, status)
	}
	return status, nil
}
