package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
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
	u, err := serviceURL(c.Server)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	route := u.JoinPath("v1", "pages").String()
	req, err := http.NewRequestWithContext(ctx, method, route, strings.NewReader(body))
	if err != nil {
		return s, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := c.Client.authorize(req); err != nil {
		return s, err
	}
	resp, err := directly().Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthBytes))
	if err != nil {
		return s, fmt.Errorf("%s: %w", route, err)
	}
	var answer struct {
		shape
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	err = json.Unmarshal(text, &answer)
	switch {
	case err == nil && answer.Error.Message != "":
		return s, fmt.Errorf("%s: %s", route, answer.Error.Message)
	case err != nil || answer.Homes == 0:
		return s, fmt.Errorf("%s: answered %s, and not as feedfilter does", route, resp.Status)
	}
	return answer.shape, nil
}

// directly is a client that goes neither by way of a proxy nor to other addresses: it is this service that is asked.
func directly() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
