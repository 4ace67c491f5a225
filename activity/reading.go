package activity

import (
	"context"
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
	hits     []bool           // of hashes, those that Look found something of
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

// Hash hashes an id that is to be looked for by kinds of that target: once for all of these kinds. All ids of one target
// are hashed before the first of the other.
func (rd *Reading) Hash(target Target, id string) {
	ids := &rd.ids[target]
	if ids.end == 0 {
		ids.first = len(rd.hashes)
	}
	rd.hashes = append(rd.hashes, favfilter.HashKey(rd.view.seed, id))
	ids.end = len(rd.hashes)
}

// Look looks for all ids that were hashed, by the first so many kinds. Before it, [Reading.View] must have returned no
// error.
func (rd *Reading) Look(kinds int) {
	n := len(rd.hashes)
	rd.hits = slices.Grow(rd.hits[:0], n)[:n]
	clear(rd.hits)
	for i := range kinds {
		l := &rd.view.kinds[i]
		ids := rd.ids[l.kind.Target]
		rd.lookFor(l, l.direct, ids)
		if l.twoWay {
			rd.lookFor(l, l.reverse, ids)
		}
	}
}

// lookFor notes the ids whose key with that start is there.
func (rd *Reading) lookFor(l *lookup, start favfilter.Hash, ids span) {
	if l.page == nil && l.window == nil && rd.view.probed == nil {
		return // nobody on the page has done anything
	}
	rd.keys = appendKeys(rd.keys[:0], start, rd.hashes[ids.first:ids.end])
	hits := rd.hits[ids.first:ids.end]
	switch {
	case l.window != nil:
		for _, part := range l.window.parts {
			if part != nil {
				part.ContainsAll(rd.keys, hits)
			}
		}
	case l.page != nil:
		l.page.ContainsAll(rd.keys, hits)
	default:
		for n, key := range rd.keys {
			hits[n] = hits[n] || rd.view.contains(l, key)
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

// Hit reports whether Look found anything of the n-th id of a target. Most candidates are no hits, and nothing more has to
// be asked about these.
func (rd *Reading) Hit(target Target, n int) bool { return rd.hits[rd.ids[target].first+n] }

// Match is [View.Check] of the i-th kind with the n-th id of its target.
func (rd *Reading) Match(i, n int) Match {
	l := &rd.view.kinds[i]
	return rd.view.match(l, rd.hashes[rd.ids[l.kind.Target].first+n])
}

// Release ends the Reading: its memory is used again. The View stays.
func (rd *Reading) Release() {
	if rd.done != nil {
		<-rd.done
	}
	rd.view, rd.ctx, rd.ids = nil, nil, [Post + 1]span{}
	if cap(rd.hashes) > maxPooledHashes {
		rd.hashes, rd.keys, rd.hits = nil, nil, nil
	}
	rd.hashes = rd.hashes[:0]
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
		ids := rd.ids[l.kind.Target]
		keys = appendKeys(keys, l.direct, rd.hashes[ids.first:ids.end])
		if l.twoWay {
			keys = appendKeys(keys, l.reverse, rd.hashes[ids.first:ids.end])
		}
	}
	return keys
}
