package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/feedfilter/feedfilter/client"
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

// ask has a service do it, and waits until it has.
func (c *reshapeCmd) ask(ctx context.Context, pages uint32, bar *homesBar) error {
	service, err := serviceAt(c.Server, askTimeout, c.Client.token)
	if err != nil {
		return err
	}
	s, err := service.Reshape(ctx, pages)
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
		s, err = service.Pages(ctx)
	}
}

// serviceAt is a client of the service at address, which asks once: it is how things are now that is asked for.
func serviceAt(address string, timeout time.Duration, token func(context.Context) (string, error)) (*client.Client, error) {
	return client.New(address, client.Options{AttemptTimeout: timeout, MaxAttempts: 1, Token: token, HTTPClient: directly()})
}

// directly is a client that goes neither by way of a proxy nor to other addresses: it is this service that is asked.
func directly() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
