package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/feedfilter/feedfilter/favfilter"
)

// How a viewer's page is looked at.
const (
	sharedRead = "shared page, read"
	ownRead    = "own page, read"
	ownProbed  = "own page, probed"
)

// Who has so many activities is timed in one of so many rounds: a PING that follows on megabytes takes longer.
const slowFrom, slowEvery = 300_000, 8

// watched is a store that notes which page of the ledger was looked at last.
type watched struct {
	favfilter.Store

	mu     sync.Mutex
	page   favfilter.PageID
	probed bool
}

func (w *watched) note(id favfilter.PageID, probed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.page, w.probed = id, probed
}

// Load notes the first page that is read, unless that is of a window.
func (w *watched) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	if len(ids) > 0 && (ids[0].Part == "" || strings.HasPrefix(ids[0].Part, "own-")) {
		w.note(ids[0], false)
	}
	return w.Store.Load(ctx, ids)
}

// Probe notes the page.
func (w *watched) Probe(
	ctx context.Context, id favfilter.PageID, known favfilter.Header, hashes []favfilter.Hash, found []bool,
) (sequence uint64, ok bool, err error) {
	w.note(id, true)
	return w.Store.Probe(ctx, id, known, hashes, found)
}

// last is the page, and how it was looked at.
func (w *watched) last() (id favfilter.PageID, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.probed:
		how = ownProbed
	case w.page.Part != "":
		how = ownRead
	default:
		how = sharedRead
	}
	return w.page, how
}

// viewersWith is how many viewers have so many activities.
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

// activities measures feeds of 500 candidates of viewers with more and more activities, all of them recorded, among others on 16 pages.
func (g *growth) activities(ctx context.Context) (err error) {
	const others = 1280
	people, err := NewPopulation(others, others*g.Mean, g.Seed)
	if err != nil {
		return err
	}
	var counts []int
	for _, n := range g.Activities {
		counts = append(counts, slices.Repeat([]int{n}, viewersWith(n))...)
	}
	people.join(counts...)
	store, err := g.store(ctx, 2)
	if err != nil {
		return err
	}
	spy := &watched{Store: store}
	subject, err := g.subject(ctx, spy, sharedPages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	if _, _, err := subject.Record(ctx, people.Activities()); err != nil {
		return err
	}
	if err := subject.RecordSeen(ctx, people); err != nil {
		return err
	}
	by, viewers := people.blockers(), people.viewers
	checks, pages := make([]Call, len(g.Activities)), make([]Cost, len(g.Activities))
	for i, n := range g.Activities {
		feeds := people.feedsOf(viewers[:viewersWith(n)], growthFeed, by)
		viewers = viewers[viewersWith(n):]
		if err := verify(ctx, subject, feeds); err != nil {
			return err
		}
		if pages[i], err = g.pagesOf(ctx, subject, spy, feeds[:viewersWith(n)]); err != nil { // one feed of each viewer
			return err
		}
		checks[i] = checkCall(subject, feeds, growthFeed)
		if n >= slowFrom {
			checks[i].Every = slowEvery
		}
	}
	costs, err := g.measure(ctx, checks)
	for i := range costs {
		costs[i].At, costs[i].Pages, costs[i].How, costs[i].Memory = g.Activities[i], sharedPages, pages[i].How, pages[i].Memory
	}
	g.report.Activities = Series{Points: costs, Data: fmt.Sprintf("feeds of %d, on %d pages with %s activities of others, "+
		"all recorded in a ledger in SQLite; %v a point", growthFeed, sharedPages, Significant(others*float64(g.Mean)), g.Duration)}
	return err
}

// pagesOf tells how the pages of the feeds' viewers are looked at, and what they take on average.
func (g *growth) pagesOf(ctx context.Context, subject *Subject, spy *watched, feeds []*Feed) (of Cost, err error) {
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

// pageMemory is what the two strings of a page take of Redis' memory, in bytes.
func (g *growth) pageMemory(ctx context.Context, id favfilter.PageID) (float64, error) {
	name := "fav:{" + GrowthFilters(g.Filter)[2] + "/" + strconv.FormatUint(uint64(id.Number), 10) + "}:"
	if id.Part != "" {
		name += id.Part + ":"
	}
	total := int64(0)
	for _, half := range []string{"bits", "regions"} {
		n, err := g.Server.Client.MemoryUsage(ctx, name+half).Result()
		if err != nil {
			return 0, fmt.Errorf("memory of page %v: %w", id, err)
		}
		total += n
	}
	return float64(total), nil
}
