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
	// meanwhile: measured, 20 us, and 15 to 25 ns an id.
	fewIDs = 1000
)

// Reading is a [View] on its way. While the store answers, the keys to be looked for are hashed, so
// that this costs no time of its own. It is for one goroutine, and ends with Release.
type Reading struct {
	ctx      context.Context //nolint:containedctx // of what View does where nothing was begun
	recorder *Recorder
	view     *View
	hashes   []favfilter.Hash
	found    []bool        // of hashes, those that were looked for
	bufs     [2][]byte     // of keys
	spans    []span        // of hashes, with the kind they are of
	probes   bool          // the page is too large to be read: hashes are looked for where it stands
	done     chan struct{} // nil: nothing was begun
	err      error
	panicked any
}

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

// Hashes is how many places [Reading.Hash] uses for each id with the i-th kind: two of a two-way kind, one of others.
func (rd *Reading) Hashes(i int) int {
	if rd.view.kinds[i].reverse != nil {
		return 2
	}
	return 1
}

// Hash notes the hashes by which to look for ids among the activities of the i-th kind, and returns the place of
// the first: 0 at first. Each id has [Reading.Hashes].
func (rd *Reading) Hash(i int, ids iter.Seq[string]) int {
	l := &rd.view.kinds[i]
	first, seed := len(rd.hashes), rd.view.seed
	hashes := rd.hashes
	direct, reverse := rd.bufs[0][:0], rd.bufs[1][:0]
	direct, reverse = append(direct, l.start...), append(reverse, l.reverse...)
	for id := range ids {
		direct = appendEscaped(direct[:len(l.start)], id)
		hashes = append(hashes, favfilter.HashKeyBytes(seed, direct))
		if l.reverse != nil {
			reverse = append(reverse[:len(l.reverse)], direct[len(l.start):]...)
			hashes = append(hashes, favfilter.HashKeyBytes(seed, reverse))
		}
	}
	rd.hashes, rd.bufs = hashes, [2][]byte{direct, reverse}
	rd.spans = append(rd.spans, span{i, first, len(hashes)})
	return first
}

// Look looks for all whose hashes were noted with the i-th kind, from first on, and notes what [View.Check] would say
// of each. Before it, [Reading.View] must have returned no error.
func (rd *Reading) Look(i, first, ids int) {
	l := &rd.view.kinds[i]
	rd.found = slices.Grow(rd.found, max(0, len(rd.hashes)-len(rd.found)))[:len(rd.hashes)]
	each := rd.Hashes(i)
	hashes, found := rd.hashes[first:first+each*ids], rd.found[first:first+each*ids]
	clear(found)
	switch {
	case l.window != nil:
		for _, part := range l.window.parts {
			if part != nil {
				part.ContainsAll(hashes, found)
			}
		}
	case l.page != nil:
		l.page.ContainsAll(hashes, found)
	case rd.view.probed != nil:
		for n, h := range hashes {
			found[n] = rd.view.contains(l, h)
		}
	}
}

// Found is what Look found of the i-th kind at place.
func (rd *Reading) Found(i, place int) Match {
	switch {
	case rd.found[place]:
		return Direct
	case rd.view.kinds[i].reverse != nil && rd.found[place+1]:
		return Reverse
	default:
		return None
	}
}

// Release ends the Reading: its memory is used again. The View stays.
func (rd *Reading) Release() {
	if rd.done != nil {
		<-rd.done
	}
	rd.view, rd.ctx, rd.spans = nil, nil, rd.spans[:0]
	if cap(rd.hashes) > maxPooledHashes {
		rd.hashes, rd.found = nil, nil
	}
	rd.hashes, rd.found = rd.hashes[:0], rd.found[:0]
	rd.recorder.readings.Put(rd)
}

// span is the hashes of one call of [Reading.Hash].
type span struct{ kind, first, end int }

// ledgerKeys are the hashes by which kinds that the ledger keeps are looked for.
func (rd *Reading) ledgerKeys() []favfilter.Hash {
	keys := make([]favfilter.Hash, 0, len(rd.hashes))
	for _, s := range rd.spans {
		if rd.view.kinds[s.kind].kind.InLedger() {
			keys = append(keys, rd.hashes[s.first:s.end]...)
		}
	}
	return keys
}
