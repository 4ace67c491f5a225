package main

import (
	"context"
	"errors"
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
	Result  resultFlags   `embed:""`
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

// healthAnswer is what a service says of itself.
type healthAnswer struct {
	Status string       `json:"status"` // ready, or what it is instead
	Down   []dependency `json:"down"`
}

type dependency struct {
	Dependency string `json:"dependency"`
	Reason     string `json:"reason"`
}

// String is all of it in a line.
func (h *healthAnswer) String() string {
	parts := []string{h.Status}
	for _, d := range h.Down {
		parts = append(parts, d.Dependency+": "+d.Reason)
	}
	return strings.Join(parts, "; ")
}

// Run prints what the service says of itself; it fails if feeds cannot be answered.
func (c *healthCmd) Run(ctx context.Context, std stdio) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	answer, err := c.ask(ctx)
	if answer != nil && c.Result.json() {
		err = errors.Join(err, writeJSON(std.out, answer))
	} else if err == nil {
		_, err = fmt.Fprintln(std.out, answer)
	}
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	return nil
}

// ask returns what the service says, nil if it says nothing, and an error unless it answers feeds.
func (c *healthCmd) ask(ctx context.Context) (*healthAnswer, error) {
	probe, err := c.probe()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, probe, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := directly().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", probe, err)
	}
	answer := &healthAnswer{Down: []dependency{}}
	if err := json.Unmarshal(text, answer); err != nil || answer.Status == "" {
		return nil, fmt.Errorf("%s: answered %s, and not as feedfilter does", probe, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s: %s", probe, answer)
	}
	return answer, nil
}
