package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
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
}

// Help is shown by kong below the summary.
func (*rebuildCmd) Help() string {
	return "Give one of --page, --user and --all. A rebuilt page replaces the old one once it is complete; feeds and writes continue " +
		"meanwhile. This is rarely needed: the scrub, and every read of a bad page, rebuild pages by themselves."
}

// Check implements [settings.Checker].
func (c *rebuildCmd) Check(ctx context.Context) error {
	given := slices.DeleteFunc([]bool{c.Page != nil, c.User != "", c.All}, func(given bool) bool { return !given })
	if len(given) != 1 {
		return fmt.Errorf("--page, --user or --all: %d given, want one", len(given))
	}
	return c.insideFlags.Check(ctx)
}

// rebuilder rebuilds pages, in this process or through a service.
type rebuilder struct {
	numbers func(ctx context.Context) (client.Pages, error) // of all pages
	user    func(ctx context.Context, id string) (page uint32, err error)
	one     func(ctx context.Context, page uint32) (inspect.Rebuilt, error)
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
	work := func(r rebuilder) (err error) {
		answer, first, err = c.rebuild(ctx, std, r)
		return err
	}
	var err error
	if c.Service.Server != "" {
		err = work(c.remote())
	} else {
		err = c.look(ctx, std, func(d *data) error { return work(local(d)) })
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w; %d pages rebuilt so far", context.Cause(ctx), answer.Rebuilt)
	}
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	if err := c.print(std, answer, answer.text); err != nil {
		return err
	}
	if answer.Failed > 0 {
		return fmt.Errorf("rebuild: %d of %d pages failed: %w", answer.Failed, answer.Failed+answer.Rebuilt, first)
	}
	return nil
}

func (a rebuiltAnswer) text(w io.Writer) error {
	took := time.Duration(a.Seconds * float64(time.Second)).Round(time.Millisecond)
	_, err := fmt.Fprintf(w, "rebuilt %d pages with %d keys (%d bytes) in %v\n", a.Rebuilt, a.Keys, a.Bytes, took)
	return err
}

// rebuild rebuilds the pages that the flags name. first is the error of the first page that failed.
func (c *rebuildCmd) rebuild(ctx context.Context, std stdio, r rebuilder) (answer rebuiltAnswer, first, err error) {
	start := time.Now()
	pages, n, err := c.which(ctx, r)
	if err != nil {
		return answer, nil, err
	}
	bar := &pagesBar{std: std}
	defer bar.end()
	var mu sync.Mutex
	left := 0      // pages that nobody has any more
	var gone error // why one of these was not rebuilt
	more := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return ctx.Err() == nil && answer.Rebuilt+answer.Failed < n && left < maxLeft
	}
	var group errgroup.Group
	group.SetLimit(rebuiltAtOnce)
	for page := range pages {
		if !more() {
			break
		}
		group.Go(func() error {
			rebuilt, err := r.one(ctx, page)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case c.All && page >= ledger.DedicatedPages && noPage(err):
				left, gone = left+1, err
			case err != nil:
				answer.Failed++
				first = cmp.Or(first, err)
			default:
				answer.Rebuilt++
				answer.Keys += rebuilt.Keys
				answer.Bytes += rebuilt.Bytes
			}
			bar.show(answer.Rebuilt+answer.Failed, n)
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
func (c *rebuildCmd) which(ctx context.Context, r rebuilder) (iter.Seq[uint32], int, error) {
	switch {
	case c.Page != nil:
		return slices.Values([]uint32{*c.Page}), 1, nil
	case c.User != "":
		page, err := r.user(ctx, c.User)
		return slices.Values([]uint32{page}), 1, err
	}
	has, err := r.numbers(ctx)
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

// noPage reports whether there is no page of that number.
func noPage(err error) bool {
	return errors.Is(err, pages.ErrNoPage) || refusal(err) == "not_found"
}

// local returns a rebuilder in this process.
func local(d *data) rebuilder {
	return rebuilder{
		numbers: func(ctx context.Context) (has client.Pages, err error) {
			r, err := d.withLedger("a rebuild")
			if err != nil {
				return has, err
			}
			layout, err := r.Grower().Layout(ctx)
			has.Homes, has.SharedPages, has.DedicatedPages = int(r.Inside().Identity().Pages), int(layout.Current), layout.Dedicated
			return has, err
		},
		user: func(ctx context.Context, id string) (uint32, error) {
			u, err := inspect.ReadUser(ctx, d.activities, id)
			if err != nil {
				return 0, err
			}
			return u.Page, nil
		},
		one: func(ctx context.Context, page uint32) (inspect.Rebuilt, error) {
			r, err := d.withLedger("a rebuild")
			if err != nil {
				return inspect.Rebuilt{}, err
			}
			rebuilt, err := r.RebuildPage(ctx, page)
			return inspect.RebuiltOf(rebuilt), err
		},
	}
}

// remote returns a rebuilder through a service.
func (c *rebuildCmd) remote() rebuilder {
	s := &c.Service
	return rebuilder{
		numbers: func(ctx context.Context) (client.Pages, error) {
			service, err := s.service()
			if err != nil {
				return client.Pages{}, err
			}
			defer service.Close()
			return service.Pages(ctx)
		},
		user: func(ctx context.Context, id string) (uint32, error) {
			var u inspect.User
			err := s.get(ctx, &u, "v1", "ops", "users", id)
			return u.Page, err
		},
		one: func(ctx context.Context, page uint32) (rebuilt inspect.Rebuilt, err error) {
			err = s.post(ctx, nil, &rebuilt, "v1", "ops", "pages", strconv.FormatUint(uint64(page), 10), "rebuild")
			return rebuilt, err
		},
	}
}
