package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/internal/inspect"
)

const (
	// rebuiltAtOnce is the number of pages rebuilt at a time.
	rebuiltAtOnce = 4
	// pagesAtOnce is the number of page numbers that one request to a service lists.
	pagesAtOnce = inspect.MaxCells
)

type rebuildCmd struct {
	insideFlags

	Page *uint32 `help:"${rebuild_page}" placeholder:"N"  xor:"what"`
	User string  `help:"${rebuild_user}" placeholder:"ID" xor:"what"`
	All  bool    `help:"${rebuild_all}"  xor:"what"`
}

// Help is shown by kong below the summary.
func (*rebuildCmd) Help() string {
	return "Give one of --page, --user and --all. A rebuilt page replaces the old one once it is complete; feeds and writes continue " +
		"meanwhile. This is rarely needed: the scrub, and every read of a bad page, rebuild pages by themselves."
}

// Check implements [settings.Checker].
func (c *rebuildCmd) Check(ctx context.Context) error {
	if c.Page == nil && c.User == "" && !c.All {
		return errors.New("--page, --user or --all: one is required")
	}
	return c.insideFlags.Check(ctx)
}

// rebuilder rebuilds pages, in this process or through a service.
type rebuilder struct {
	pages func(ctx context.Context) ([]uint32, error) // returns the numbers of all pages
	user  func(ctx context.Context, id string) (page uint32, err error)
	one   func(ctx context.Context, page uint32) (inspect.Rebuilt, error)
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
	pages, err := c.which(ctx, r)
	if err != nil {
		return answer, nil, err
	}
	bar := &pagesBar{std: std}
	defer bar.end()
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(rebuiltAtOnce)
	for _, page := range pages {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			rebuilt, err := r.one(ctx, page)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				answer.Failed++
				if first == nil {
					first = err
				}
			} else {
				answer.Rebuilt++
				answer.Keys += rebuilt.Keys
				answer.Bytes += rebuilt.Bytes
			}
			bar.show(answer.Rebuilt+answer.Failed, len(pages))
			return nil // continue with the other pages
		})
	}
	_ = group.Wait() // always nil
	answer.Seconds = time.Since(start).Seconds()
	return answer, first, nil
}

// which returns the pages that the flags name.
func (c *rebuildCmd) which(ctx context.Context, r rebuilder) ([]uint32, error) {
	switch {
	case c.Page != nil:
		return []uint32{*c.Page}, nil
	case c.User != "":
		page, err := r.user(ctx, c.User)
		return []uint32{page}, err
	default:
		return r.pages(ctx)
	}
}

// local returns a rebuilder in this process.
func local(d *data) rebuilder {
	return rebuilder{
		pages: func(context.Context) (pages []uint32, err error) {
			for p := range d.activities.Inside().Survey() {
				pages = append(pages, p.Number)
			}
			return pages, nil
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
		pages: s.pages,
		user: func(ctx context.Context, id string) (uint32, error) {
			var u inspect.User
			err := s.get(ctx, &u, nil, "v1", "ops", "users", id)
			return u.Page, err
		},
		one: func(ctx context.Context, page uint32) (rebuilt inspect.Rebuilt, err error) {
			err = s.post(ctx, nil, &rebuilt, "v1", "ops", "pages", strconv.FormatUint(uint64(page), 10), "rebuild")
			return rebuilt, err
		},
	}
}

// pages returns the numbers of all pages of the service.
func (f *serviceFlags) pages(ctx context.Context) (pages []uint32, err error) {
	for {
		var answer struct {
			Pages int `json:"pages"`
			Cells []struct {
				First uint32 `json:"first"`
			} `json:"cells"`
		}
		query := url.Values{
			"cells": {strconv.Itoa(pagesAtOnce)}, "from": {strconv.Itoa(len(pages))}, "to": {strconv.Itoa(len(pages) + pagesAtOnce)},
		}
		if err := f.get(ctx, &answer, query, "v1", "ops", "pages"); err != nil {
			return nil, err
		}
		for _, cell := range answer.Cells {
			pages = append(pages, cell.First) // cells of one page each
		}
		if len(pages) >= answer.Pages || len(answer.Cells) == 0 {
			return pages, nil
		}
	}
}
