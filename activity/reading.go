package activity

import (
	"context"
	"iter"
	"runtime"
	"slices"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// maxPooledHashes is the most hashes whose memory is used again, 1 MiB.
	maxPooledHashes = 1 << 16
	// fewIDs is how many ids take less time to hash than it takes to have another goroutine read
	// meanwhile: measured, 20 us, and 7 to 9 ns an id.
	fewIDs = 2500
)

// Reading is a [View] on its way. While the store answers, the ids to be looked for are hashed, so
// that this costs no time of its own. It is for one goroutine, and ends with Release.
type Reading struct {
	ctx      context.Context //nolint:containedctx // of what View does where nothing was begun
	recorder *Recorder
	view     *View
	hashes   []favfilter.Hash // of ids
	ids      [Post + 1]span   // of hashes, by target
	keys     []favfilter.Hash // scratch of Look
	found    []bool           // what Look found of all kinds
	looked   []int            // the place in found of the first id of each kind
	probes   bool             // the page is too large to be read: keys are looked for where it stands
	done     chan struct{}    // nil: nothing was begun
	err      error
	panicked any
}

// span is a part of the hashes.
type span struct{ first, end int }

// Begin starts to read what [Recorder.View] reads, and returns at once. About so many ids are to be hashed: where they
// are few, what is read is read by [Reading.View].
func (r *Recorder) Begin(ctx context.Context, user string, kinds []Kind, ids int) *Reading {
	rd, ok := r.readings.Get().(*Reading)
	if !ok {
		rd = &Reading{recorder: r}
	}
	rd.ctx, rd.view, rd.done, rd.err = ctx, r.newView(user, kinds), nil, nil
	rd.looked = append(rd.looked[:0], make([]int, len(kinds))...)
	rd.probes = rd.view.ledger && r.isLarge(r.pageOf(rd.view.userHash))
	if ids < fewIDs || rd.probes {
		return rd
	}
	rd.done = make(chan struct{})
	go func() {
		defer close(rd.done)
		defer func() { rd.panicked = recover() }() // it is the caller's
		rd.err = r.fill(ctx, rd.view)
	}()
	runtime.Gosched() // lets the request go out before there is anything else to do
	return rd
}

// Probes reports whether everything that is looked for has to be hashed before [Reading.View] is called: the user's page is
// too large to be read.
func (rd *Reading) Probes() bool { return rd.probes }

// View waits for what is read. It is to be called once.
func (rd *Reading) View() (*View, error) {
	if rd.probes {
		rd.view.keys = rd.ledgerKeys()
	}
	if rd.done == nil {
		return rd.view, rd.recorder.fill(rd.ctx, rd.view)
	}
	<-rd.done
	if rd.panicked != nil {
		panic(rd.panicked)
	}
	return rd.view, rd.err
}

// Hash hashes the ids that are to be looked for by kinds of that target: once for all of these kinds, and to be called
// once for each target.
func (rd *Reading) Hash(target Target, ids iter.Seq[string]) {
	seed, hashes := rd.view.seed, rd.hashes
	first := len(hashes)
	for id := range ids {
		hashes = append(hashes, favfilter.HashKey(seed, id))
	}
	rd.hashes, rd.ids[target] = hashes, span{first, len(hashes)}
}

// idsOf are the hashes of the ids that a kind is looked for with.
func (rd *Reading) idsOf(l *lookup) []favfilter.Hash {
	ids := rd.ids[l.kind.Target]
	return rd.hashes[ids.first:ids.end]
}

// Look looks for all ids that were hashed for the target of the i-th kind, and notes what [View.Check] would say
// of each. Before it, [Reading.View] must have returned no error.
func (rd *Reading) Look(i int) {
	l := &rd.view.kinds[i]
	ids, first := rd.idsOf(l), len(rd.found)
	rd.looked[i] = first
	n := len(ids)
	if l.twoWay {
		n *= 2
	}
	rd.found = slices.Grow(rd.found, n)[:first+n]
	found := rd.found[first:]
	clear(found)
	rd.lookFor(l, l.direct, ids, found[:len(ids)])
	if l.twoWay {
		rd.lookFor(l, l.reverse, ids, found[len(ids):])
	}
}

// lookFor sets found for the ids whose key with that start is there.
func (rd *Reading) lookFor(l *lookup, start favfilter.Hash, ids []favfilter.Hash, found []bool) {
	if l.page == nil && l.window == nil && rd.view.probed == nil {
		return // nobody on the page has done anything
	}
	rd.keys = appendKeys(rd.keys[:0], start, ids)
	switch {
	case l.window != nil:
		for _, part := range l.window.parts {
			if part != nil {
				part.ContainsAll(rd.keys, found)
			}
		}
	case l.page != nil:
		l.page.ContainsAll(rd.keys, found)
	default:
		for n, key := range rd.keys {
			found[n] = rd.view.contains(l, key)
		}
	}
}

// appendKeys appends the hashes of the keys that begin with start and go on with ids.
func appendKeys(keys []favfilter.Hash, start favfilter.Hash, ids []favfilter.Hash) []favfilter.Hash {
	keys = slices.Grow(keys, len(ids))
	for _, id := range ids {
		keys = append(keys, start.With(id))
	}
	return keys
}

// Found is what Look found of the i-th kind with the n-th of the ids of its target.
func (rd *Reading) Found(i, n int) Match {
	l := &rd.view.kinds[i]
	first := rd.looked[i]
	if rd.found[first+n] {
		return Direct
	}
	if l.twoWay {
		ids := rd.ids[l.kind.Target]
		if rd.found[first+ids.end-ids.first+n] {
			return Reverse
		}
	}
	return None
}

// Release ends the Reading: its memory is used again. The View stays.
func (rd *Reading) Release() {
	if rd.done != nil {
		<-rd.done
	}
	rd.view, rd.ctx, rd.ids = nil, nil, [Post + 1]span{}
	if cap(rd.hashes) > maxPooledHashes {
		rd.hashes, rd.keys, rd.found = nil, nil, nil
	}
	rd.hashes, rd.found = rd.hashes[:0], rd.found[:0]
	rd.recorder.readings.Put(rd)
}

// ledgerKeys are the keys by which kinds that the ledger keeps are looked for.
func (rd *Reading) ledgerKeys() []favfilter.Hash {
	var keys []favfilter.Hash
	for i := range rd.view.kinds {
		l := &rd.view.kinds[i]
		if !l.kind.InLedger() {
			continue
		}
		keys = appendKeys(keys, l.direct, rd.idsOf(l))
		if l.twoWay {
			keys = appendKeys(keys, l.reverse, rd.idsOf(l))
		}
	}
	return keys
}
