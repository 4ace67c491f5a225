package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/bench"
)

// writePage is the capacity in keys of the page to write to, about 10 KiB; once it is half full, a
// new one is begun.
const writePage = 4300

// writePages returns a call that writes batches of new keys to a page, 0 to 15, of a store that
// nothing else uses. The page is never more than half full.
func writePages(name string, store favfilter.Store, page uint32, keys int) bench.Call {
	w := &pageWriter{store: store, id: favfilter.PageID{Number: page}, keys: keys}
	return bench.Call{Name: name, Do: w.write, Before: w.prepare}
}

// pageWriter writes batches of new keys to one page, and replaces the page by a new one once it is
// half full.
type pageWriter struct {
	store    favfilter.Store
	id       favfilter.PageID
	keys     int
	room     int
	sequence uint64
	hashed   int
	add      []favfilter.Hash
}

func (w *pageWriter) header(shape favfilter.Shape) favfilter.Header {
	return favfilter.Header{Identity: w.identity(), Shape: shape, Number: w.id.Number, Sequence: w.sequence, Build: w.sequence + 1}
}

func (*pageWriter) identity() favfilter.Identity {
	return favfilter.Identity{Seed: 1, Pages: 16, Incarnation: 1}
}

// prepare makes the keys of the next batch, and room for them.
func (w *pageWriter) prepare(ctx context.Context, _ int) error {
	w.add = w.add[:0]
	for range w.keys {
		w.hashed++
		w.add = append(w.add, favfilter.HashKey(1, "hide:Uu1000001_Pp"+strconv.Itoa(10_000_000_000+w.hashed)))
	}
	if w.room -= w.keys; w.room >= 0 {
		return nil
	}
	shape, err := favfilter.ShapeFor(writePage, keyRate())
	if err != nil {
		return err
	}
	page, err := favfilter.NewPage(w.header(shape))
	if err != nil {
		return err
	}
	w.room = writePage/2 - w.keys
	loaded, err := w.store.Load(ctx, []favfilter.PageID{w.id})
	if err != nil {
		return err
	}
	_, err = w.store.Replace(ctx, favfilter.Replacement{ID: w.id, Page: page, Seen: loaded[0].Version})
	return err
}

// write applies the batch as a Recorder does: guarded by the page's sequence.
func (w *pageWriter) write(ctx context.Context, _ int) error {
	w.sequence++
	res := w.store.Apply(ctx, []favfilter.Batch{{ID: w.id, Identity: w.identity(), Sequence: w.sequence, Add: w.add}})[0]
	if res.Err == nil && res.State != favfilter.Applied {
		return fmt.Errorf("write %d keys: the page is %v", len(w.add), res.State)
	}
	return res.Err
}

// keyRate returns the false-positive rate of a key in a page, at the default rate of a candidate.
func keyRate() float64 { return activity.BuiltinKinds().Rates(0.001).Key }

// warm loads the scripts on the server and opens connections, whose memory does not depend on the
// number of activities. It writes to page 0 of the store.
func warm(ctx context.Context, server redisServer, store favfilter.Store) error {
	w := &pageWriter{store: store, id: favfilter.PageID{Number: 0}, keys: 1}
	for range 5 {
		if err := errors.Join(w.prepare(ctx, 0), w.write(ctx, 0)); err != nil {
			return err
		}
	}
	if _, err := store.Peek(ctx, []favfilter.PageID{w.id}); err != nil {
		return err
	}
	_, err := parallel(ctx, time.Millisecond, goroutines, server.ping())
	return err
}
