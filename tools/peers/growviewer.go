package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/bench"
)

// These are the ways to check a viewer's page.
const (
	sharedRead = "shared page, read"
	ownRead    = "dedicated page, read"
	ownHeld    = "dedicated page, held"
)

// A viewer with slowFrom activities or more is timed in one of slowEvery rounds. Megabytes of data
// slow down the PING that follows.
const slowFrom, slowEvery = 300_000, 8

// watched is a store that records the page that was checked last.
type watched struct {
	favfilter.Store

	mu   sync.Mutex
	page favfilter.PageID
	held bool
}

func (w *watched) note(id favfilter.PageID, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.page, w.held = id, held
}

// Load records the first page, unless it is a window. The part of a window has a dot.
func (w *watched) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	if len(ids) > 0 && !strings.Contains(ids[0].Part, ".") {
		w.note(ids[0], false)
	}
	return w.Store.Load(ctx, ids)
}

// LoadAndCompare records the held page.
func (w *watched) LoadAndCompare(
	ctx context.Context, ids, held []favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	w.note(held[0], true)
	return w.Store.LoadAndCompare(ctx, ids, held)
}

// last returns the last page, and how it was checked.
func (w *watched) last() (id favfilter.PageID, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.held:
		how = ownHeld
	case w.page.Part != "":
		how = ownRead
	default:
		how = sharedRead
	}
	return w.page, how
}

// viewersWith returns the number of viewers with that many activities.
func viewersWith(activities int) int {
	switch {
	case activities <= 1000:
		return 8
	case activities <= 10_000:
		return 2
	default:
		return 1
	}
}

// activities measures feeds of 500 candidates of viewers with a growing number of activities. All
// activities are recorded on 16 pages, which other users share.
func (g *growth) activities(ctx context.Context) (err error) {
	const others = 1280
	people, err := bench.NewPopulation(others, others*g.limits.mean, g.seed)
	if err != nil {
		return err
	}
	all := upTo(g.limits.activities, []int{1, 10, 100, 1000, 2000, 3000, 1e4, 1e5, 3e5, 1e6, 3e6, 1e7})
	var counts []int
	for _, n := range all {
		counts = append(counts, slices.Repeat([]int{n}, viewersWith(n))...)
	}
	join(people, counts...)
	store, err := g.store(ctx, viewerFilter)
	if err != nil {
		return err
	}
	spy := &watched{Store: store}
	subject, err := g.subject(ctx, spy, sharedPages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	if err := subject.Record(ctx, people.Activities()); err != nil {
		return err
	}
	if err := subject.Record(ctx, people.Seen()); err != nil {
		return err
	}
	viewers := people.Viewers
	checks, pages := make([]bench.Call, len(all)), make([]cost, len(all))
	for i, n := range all {
		people.Viewers, viewers = viewers[:viewersWith(n)], viewers[viewersWith(n):]
		feeds := people.Feeds(growthFeed)
		if err := verify(ctx, subject, feeds); err != nil {
			return err
		}
		if pages[i], err = g.pagesOf(ctx, subject, spy, feeds[:viewersWith(n)]); err != nil { // one feed for each viewer
			return err
		}
		checks[i] = growthCall(subject, feeds, growthFeed)
		if n >= slowFrom {
			checks[i].Every = slowEvery
		}
	}
	costs, err := g.measure(ctx, checks)
	for i := range costs {
		costs[i].At, costs[i].Pages, costs[i].How, costs[i].Memory = all[i], sharedPages, pages[i].How, pages[i].Memory
	}
	g.report.Activities = series{Points: costs, Data: fmt.Sprintf("feeds of %d, on %d pages with %s activities of others, "+
		"all recorded in a ledger in SQLite; %v a point", growthFeed, sharedPages, significant(others*float64(g.limits.mean)), g.duration)}
	return err
}

// pagesOf returns how the pages of the feeds' viewers are checked, and their average memory.
func (g *growth) pagesOf(ctx context.Context, subject *bench.Subject, spy *watched, feeds []*bench.Feed) (of cost, err error) {
	for _, f := range feeds {
		if err := subject.Check(ctx, f, nil); err != nil {
			return of, err
		}
		page, how := spy.last()
		bytes, err := g.pageMemory(ctx, page)
		if err != nil {
			return of, err
		}
		of.How = how
		of.Memory += bytes / float64(len(feeds))
	}
	return of, nil
}

// pageMemory returns the memory in bytes that Redis uses for the two strings of a page.
func (g *growth) pageMemory(ctx context.Context, id favfilter.PageID) (float64, error) {
	name := "fav:{" + viewerFilter + "/" + strconv.FormatUint(uint64(id.Number), 10) + "}:"
	if id.Part != "" {
		name += id.Part + ":"
	}
	total := int64(0)
	for _, half := range []string{"bits", "regions"} {
		n, err := g.client.MemoryUsage(ctx, name+half).Result()
		if err != nil {
			return 0, fmt.Errorf("memory of page %v: %w", id, err)
		}
		total += n
	}
	return float64(total), nil
}
