package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/inspect"
)

type scrubCmd struct {
	insideFlags
}

// Check implements [settings.Checker].
func (c *scrubCmd) Check(ctx context.Context) error {
	if c.Service.Server == "" && c.Data.Ledger == noLedger {
		return errors.New("--ledger: required to compare pages with")
	}
	return c.insideFlags.Check(ctx)
}

// Run compares every page with the ledger.
func (c *scrubCmd) Run(ctx context.Context, std stdio) error {
	var done inspect.Scrub
	far := newProgress(std, "pages")
	err := c.with(ctx, std, func(s *client.Client) (err error) {
		done, err = c.ask(ctx, s, far)
		return err
	})
	if err := causeOr(ctx, err); err != nil {
		continues := ""
		if c.Service.Server != "" && done.Running {
			continues = "; the service continues"
		}
		return fmt.Errorf(
			"scrub: %w; %d of %d pages were checked%s", err, done.Done, done.All, continues,
		)
	}
	text := func(w io.Writer) error { return scrubText(w, done) }
	if err := c.Result.write(std, done, text); err != nil {
		return err
	}
	return scrubVerdict(done)
}

// ask tells a service to scrub, and waits until it has finished.
func (c *scrubCmd) ask(
	ctx context.Context, s *client.Client, far *progress,
) (done inspect.Scrub, err error) {
	var now inspect.Scrub
	begin := func() error {
		return post(ctx, s, map[string]int{"rate": c.Data.ScrubRate}, &now, "v1", "ops", "scrub")
	}
	ask := func() error {
		now = inspect.Scrub{}
		return get(ctx, s, &now, "v1", "ops", "scrub")
	}
	err = await(ctx, begin, ask, func() (ended bool, err error) {
		if now.Started.Before(done.Started) {
			return false, errors.New("the service was restarted")
		}
		done = now
		far.show(done.Done, done.All)
		return !done.Running, nil
	})
	return done, err
}

// scrubText prints what the scrub found.
func scrubText(w io.Writer, s inspect.Scrub) error {
	found := make([]string, 0, len(s.Found))
	for _, reason := range slices.Sorted(maps.Keys(s.Found)) {
		found = append(found, fmt.Sprintf("%d %s", s.Found[reason], reason))
	}
	took := s.Ended.Sub(s.Started).Round(time.Millisecond)
	_, err := fmt.Fprintf(w, "%d of %d pages compared with the ledger in %v: %s\n",
		s.Done-s.Unasked, s.All, took, cmp.Or(strings.Join(found, ", "), "no differences"))
	return err
}

// scrubVerdict returns an error if a page could not be checked or rebuilt.
func scrubVerdict(s inspect.Scrub) error {
	var left []string
	if s.Failed > 0 {
		left = append(left, fmt.Sprintf("%d pages could not be rebuilt", s.Failed))
	}
	if s.Unasked > 0 {
		left = append(left, fmt.Sprintf("%d could not be checked", s.Unasked))
	}
	if s.Done < s.All || s.All == 0 {
		left = append(left, "it ended early: "+cmp.Or(s.Trouble, "reason unknown"))
	}
	if len(left) > 0 {
		return errors.New("scrub: " + strings.Join(left, ", "))
	}
	return nil
}
