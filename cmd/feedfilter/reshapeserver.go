package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	// askInterval is the time between two questions about progress.
	askInterval = 500 * time.Millisecond
	// maxSilence is the number of times in a row that the service may fail to answer.
	maxSilence = 10
)

// ask tells a service to reshape, and waits until all users are on the new pages and the old ones
// are removed. A service completes a reshape in progress first.
func (c *reshapeCmd) ask(ctx context.Context, pages uint32, bar *pagesBar) error {
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
		case err == nil && s.Pages > pages:
			return fmt.Errorf("another request has asked the service for %d pages meanwhile", s.Pages)
		case err == nil:
			silent = 0
			bar.show(int(int64(s.Reshaped)*int64(s.Pages)/int64(s.Homes)), int(s.Pages))
			if !s.Reshaping {
				if s.SharedPages == int(pages) {
					return nil
				}
				return fmt.Errorf("the service stopped the reshape: %s", cmp.Or(s.Trouble, "it was restarted"))
			}
			if s.Trouble != troubled && s.Trouble != "" {
				bar.note("the service waits: " + s.Trouble)
			}
			troubled = s.Trouble
		case bar.pages == 0 || ctx.Err() != nil:
			return err // the reshape has not begun
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
