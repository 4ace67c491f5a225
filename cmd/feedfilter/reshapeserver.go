package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	// askInterval is how often a service is asked how far it is.
	askInterval = 500 * time.Millisecond
	// maxSilence is how many times in a row it may not answer.
	maxSilence = 10
)

// ask has a service do it, and waits until it has.
func (c *reshapeCmd) ask(ctx context.Context, pages uint32, bar *homesBar) error {
	service, err := c.Service.service()
	if err != nil {
		return err
	}
	defer service.Close()
	ask := service.Reshape
	if c.Force {
		ask = service.ForceReshape
	}
	s, err := ask(ctx, pages)
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
