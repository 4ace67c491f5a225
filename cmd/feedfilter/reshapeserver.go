package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// askInterval is how often a service is asked how far it is.
	askInterval = 500 * time.Millisecond
	// askTimeout is how long it may take to answer.
	askTimeout = 15 * time.Second
	// maxSilence is how many times in a row it may not answer.
	maxSilence = 10
)

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

// shape is what a service says of its pages.
type shape struct {
	Pages     uint32 `json:"pages"`
	Homes     int    `json:"homes"`
	Reshaped  int    `json:"reshaped"`
	Reshaping bool   `json:"reshaping"`
	Trouble   string `json:"trouble"`
}

// ask has a service do it, and waits until it has.
func (c *reshapeCmd) ask(ctx context.Context, pages uint32, bar *homesBar) error {
	s, err := c.call(ctx, http.MethodPut, fmt.Sprintf(`{"pages":%d}`, pages))
	silent, troubled := 0, ""
	for {
		switch {
		case err == nil && s.Pages != pages:
			return fmt.Errorf("the service was asked for %d pages meanwhile", s.Pages)
		case err == nil:
			silent = 0
			bar.show(s.Reshaped, s.Homes)
			if s.Reshaped == s.Homes {
				return nil
			}
			if !s.Reshaping {
				return fmt.Errorf("the service has stopped: %s", cmp.Or(s.Trouble, "it was started anew"))
			}
			if s.Trouble != troubled && s.Trouble != "" {
				bar.note("the service waits: " + s.Trouble)
			}
			troubled = s.Trouble
		case bar.homes == 0 || ctx.Err() != nil:
			return err // it has not begun
		default:
			silent++
			if silent == maxSilence {
				return err
			}
		}
		select {
		case <-time.After(askInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
		s, err = c.call(ctx, http.MethodGet, "")
	}
}

// call asks for /v1/pages of the service.
func (c *reshapeCmd) call(ctx context.Context, method, body string) (s shape, err error) {
	if err := (remote{c.Server, c.Client}).ask(ctx, method, "v1/pages", body, &s); err != nil {
		return shape{}, err
	}
	if s.Homes == 0 {
		return shape{}, fmt.Errorf("%s: answered, and not as feedfilter does", c.Server)
	}
	return s, nil
}

// directly is a client that goes neither by way of a proxy nor to other addresses: it is this service that is asked.
func directly() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
