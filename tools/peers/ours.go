package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
)

// subject makes a subject with a ledger in SQLite and with pages in a filter of that name, and
// records the population. It returns the memory of the pages, without what was seen.
func (r *run) subject(
	ctx context.Context, client *redis.Client, filter string, p *bench.Population, pages uint32,
) (s *bench.Subject, bytes float64, err error) {
	store, err := redisstore.New(client, filter)
	if err != nil {
		return nil, 0, err
	}
	s, err = bench.OpenSubject(ctx, bench.SubjectConfig{
		Store: store, File: filepath.Join(r.dir, filter+".db"), Pages: pages, FalsePositiveRate: r.rate,
	})
	if err != nil {
		return nil, 0, err
	}
	record := func() error { return s.Record(ctx, p.Activities()) }
	if bytes, err = memoryOf(ctx, client, record); err != nil {
		return nil, 0, err
	}
	return s, bytes, s.Record(ctx, p.Seen())
}

// openOurs adds the row of this project: feed.Filter over a ledger in SQLite and pages in Redis.
func (r *run) openOurs(ctx context.Context) error {
	s, bytes, err := r.subject(ctx, r.client, "peers", r.people, bench.NumberFor(r.people.Entries()))
	if err != nil {
		return err
	}
	r.host.Cleanup(func() { _ = s.Close() })
	spare, err := redisstore.New(r.client, "peers-w")
	if err != nil {
		return err
	}
	write := func(keys int) bench.Call {
		w := &pageWriter{store: spare, id: favfilter.PageID{Number: uint32(keys % 16)}, keys: keys}
		return bench.Call{Name: "a write to a page", Do: w.write, Before: w.prepare}
	}
	r.add(&way{
		name:   "feedfilter",
		word:   "ours",
		redis:  r.client,
		checks: each(s.Check),
		write:  write,
		bytes:  bytes / float64(r.people.Entries()),
	})
	return nil
}

// writePage is the capacity in keys of the page to write to, about 10 KiB; once it is half full, a
// new one is begun.
const writePage = 4300

// pageWriter writes batches of new keys to one page of a store that nothing else uses. It replaces
// the page by a new one once it is half full.
type pageWriter struct {
	store    favfilter.Store
	id       favfilter.PageID
	keys     int
	room     int
	sequence uint64
	hashed   int
	add      []favfilter.Hash
}

func (*pageWriter) identity() favfilter.Identity {
	return favfilter.Identity{Seed: 1, Pages: 16, Incarnation: 1}
}

// prepare makes the keys of the next batch, and room for them.
func (w *pageWriter) prepare(ctx context.Context, _ int) error {
	w.add = w.add[:0]
	for range w.keys {
		w.hashed++
		key := "hide:Uu1000001_Pp" + strconv.Itoa(10_000_000_000+w.hashed)
		w.add = append(w.add, favfilter.HashKey(1, key))
	}
	if w.room -= w.keys; w.room >= 0 {
		return nil
	}
	w.room = writePage/2 - w.keys
	shape, err := favfilter.ShapeFor(writePage, activity.BuiltinKinds().Rates(0.001).Key)
	if err != nil {
		return err
	}
	page, err := favfilter.NewPage(favfilter.Header{
		Identity: w.identity(),
		Shape:    shape,
		Number:   w.id.Number,
		Sequence: w.sequence,
		Build:    w.sequence + 1,
	})
	if err != nil {
		return err
	}
	loaded, _, err := w.store.Load(ctx, []favfilter.PageID{w.id})
	if err != nil {
		return err
	}
	next := favfilter.Replacement{ID: w.id, Page: page, Seen: loaded[0].Version}
	_, err = w.store.Replace(ctx, next)
	return err
}

// write applies the batch as a Recorder does: guarded by the page's sequence.
func (w *pageWriter) write(ctx context.Context, _ int) error {
	w.sequence++
	b := favfilter.Batch{ID: w.id, Identity: w.identity(), Sequence: w.sequence, Add: w.add}
	res := w.store.Apply(ctx, []favfilter.Batch{b})[0]
	if res.Err == nil && res.State != favfilter.Applied {
		return fmt.Errorf("write %d keys: the page is %v", len(w.add), res.State)
	}
	return res.Err
}
