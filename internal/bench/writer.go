package bench

import (
	"context"
	"fmt"
	"strconv"

	"github.com/feedfilter/feedfilter/favfilter"
)

// writePage is how many keys a page has room for that is written to, some 10 KiB; at half of it a
// new one is begun.
const writePage = 4300

// Write is a [Call] that writes batches of so many new keys to a page, 0 to 15, of a store that
// nothing else uses. The page is never more than half full.
func Write(name string, store favfilter.Store, page uint32, keys int) Call {
	w := &writer{store: store, id: favfilter.PageID{Number: page}, keys: keys}
	return Call{Name: name, Do: w.write, Before: w.prepare}
}

// writer writes batches of that many new keys to a page that nothing else uses. When the page is
// half full, the writer replaces it by a new one.
type writer struct {
	store    favfilter.Store
	id       favfilter.PageID
	keys     int
	room     int
	sequence uint64
	hashed   int
	add      []favfilter.Hash
}

func (w *writer) header(shape favfilter.Shape) favfilter.Header {
	return favfilter.Header{Identity: w.identity(), Shape: shape, Number: w.id.Number, Sequence: w.sequence, Build: w.sequence + 1}
}

func (*writer) identity() favfilter.Identity {
	return favfilter.Identity{Seed: 1, Pages: 16, Incarnation: 1}
}

// prepare makes the keys of the next batch, and room for them.
func (w *writer) prepare(ctx context.Context, _ int) error {
	w.add = w.add[:0]
	for range w.keys {
		w.hashed++
		w.add = append(w.add, favfilter.HashKey(1, "hide:Uu1000001_Pp"+strconv.Itoa(10_000_000_000+w.hashed)))
	}
	if w.room -= w.keys; w.room >= 0 {
		return nil
	}
	shape, err := favfilter.ShapeFor(writePage, KeyRate())
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
func (w *writer) write(ctx context.Context, _ int) error {
	w.sequence++
	res := w.store.Apply(ctx, []favfilter.Batch{{ID: w.id, Identity: w.identity(), Sequence: w.sequence, Add: w.add}})[0]
	if res.Err == nil && res.State != favfilter.Applied {
		return fmt.Errorf("write %d keys: the page is %v", len(w.add), res.State)
	}
	return res.Err
}
