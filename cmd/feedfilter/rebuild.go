package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/inspect"
)

const (
	// rebuiltAtOnce is the number of pages rebuilt at a time.
	rebuiltAtOnce = 4
	// maxLeft is the maximum number of dedicated pages that nobody has any more.
	maxLeft = 1 << 16
)

type rebuildCmd struct {
	insideFlags

	Page *uint32 `help:"${rebuild_page}" placeholder:"N"`
	User string  `help:"${rebuild_user}" placeholder:"ID"`
	All  bool    `help:"${rebuild_all}"`

	maxLeft int // that of a test; 0: the constant
}

// Check implements [settings.Checker].
func (c *rebuildCmd) Check(ctx context.Context) error {
	given := 0
	for _, is := range []bool{c.Page != nil, c.User != "", c.All} {
		if is {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("--page, --user or --all: %d given, want one", given)
	}
	return c.insideFlags.Check(ctx)
}

// rebuiltAnswer is the result of the command.
type rebuiltAnswer struct {
	Rebuilt int     `json:"rebuilt"`
	Failed  int     `json:"failed"`
	Keys    int     `json:"keys"`
	Bytes   int     `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Run rebuilds pages.
func (c *rebuildCmd) Run(ctx context.Context, std stdio) error {
	var answer rebuiltAnswer
	var first error // first error of a page
	err := c.with(ctx, std, func(s *client.Client) (err error) {
		answer, first, err = c.rebuild(ctx, std, s)
		return err
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("%w; %d pages rebuilt so far", context.Cause(ctx), answer.Rebuilt)
	}
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	if err := c.Result.write(std, answer, answer.text); err != nil {
		return err
	}
	if answer.Failed > 0 {
		return fmt.Errorf(
			"rebuild: %d of %d pages failed: %w", answer.Failed, answer.Failed+answer.Rebuilt, first,
		)
	}
	return nil
}

func (a rebuiltAnswer) text(w io.Writer) error {
	took := time.Duration(a.Seconds * float64(time.Second)).Round(time.Millisecond)
	_, err := fmt.Fprintf(w, "rebuilt %d pages with %d keys (%d bytes) in %v\n",
		a.Rebuilt, a.Keys, a.Bytes, took)
	return err
}

// rebuild rebuilds the pages that the flags name. first is the error of the first page that failed.
func (c *rebuildCmd) rebuild(
	ctx context.Context, std stdio, s *client.Client,
) (answer rebuiltAnswer, first, err error) {
	start := time.Now()
	pages, n, err := c.which(ctx, s)
	if err != nil {
		return answer, nil, err
	}
	far := newProgress(std, "pages")
	var mu sync.Mutex
	left := 0      // pages that nobody has any more
	var gone error // why one of these was not rebuilt
	var group errgroup.Group
	group.SetLimit(rebuiltAtOnce)
	mostLeft := cmp.Or(c.maxLeft, maxLeft)
	for page := range pages {
		mu.Lock()
		more := ctx.Err() == nil && answer.Rebuilt+answer.Failed < n && left < mostLeft
		mu.Unlock()
		if !more {
			break
		}
		group.Go(func() error {
			var rebuilt inspect.Rebuilt
			number := strconv.FormatUint(uint64(page), 10)
			err := post(ctx, s, nil, &rebuilt, "v1", "ops", "pages", number, "rebuild")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case c.All && page >= ledger.DedicatedPages && refusal(err) == "not_found":
				left, gone = left+1, err
			case err != nil:
				answer.Failed++
				first = cmp.Or(first, err)
			default:
				answer.Rebuilt++
				answer.Keys += rebuilt.Keys
				answer.Bytes += rebuilt.Bytes
			}
			far.show(answer.Rebuilt+answer.Failed, n)
			return nil // continue with the other pages
		})
	}
	_ = group.Wait() // always nil
	if lost := n - answer.Rebuilt - answer.Failed; lost > 0 && gone != nil {
		answer.Failed += lost
		first = cmp.Or(first, gone)
	}
	answer.Seconds = time.Since(start).Seconds()
	return answer, first, nil
}

// which returns the pages that the flags name, and how many there are. Of all pages, the dedicated
// ones come last, in a sequence without an end: some of their numbers are no longer in use.
func (c *rebuildCmd) which(ctx context.Context, s *client.Client) (iter.Seq[uint32], int, error) {
	switch {
	case c.Page != nil:
		return slices.Values([]uint32{*c.Page}), 1, nil
	case c.User != "":
		var u inspect.User
		err := get(ctx, s, &u, "v1", "ops", "users", c.User)
		return slices.Values([]uint32{u.Page}), 1, err
	}
	has, err := s.Pages(ctx)
	if err != nil {
		return nil, 0, err
	}
	first := ledger.Identity{Pages: uint32(has.Homes)}.PageIn(uint32(has.SharedPages), 0)
	return func(yield func(uint32) bool) {
		for i := range uint32(has.SharedPages) {
			if !yield(first + i) {
				return
			}
		}
		for page := uint32(ledger.DedicatedPages); ; page++ {
			if !yield(page) {
				return
			}
		}
	}, has.SharedPages + has.DedicatedPages, nil
}
