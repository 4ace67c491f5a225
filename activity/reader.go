package activity

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// source is what [pages.Pages] and [pages.Alone] have in common.
type source interface {
	Identity() favfilter.Identity
	Now() time.Time
	Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error)
	Read(ctx context.Context, q pages.Query) (pages.Answer, error)
	Ready(ctx context.Context) (ready bool, down []error)
	Stats() pages.Stats
	Close()
}

// reader is what a [Recorder] and a [Plain] read activities with.
type reader struct {
	source source
	inside Inside

	kinds    *Kinds
	windows  map[string]*seen.Windows // by kind, of kinds with a window
	rates    Rates
	weights  map[string]uint8 // of the keys of rows in pages, by their kind
	tally    tally
	searches sync.Pool // of *search
}

// FalsePositiveRate returns the share of clean candidates that a feed check may drop wrongly, as
// configured.
func (r *reader) FalsePositiveRate() float64 { return r.rates.Candidate }

// Kinds returns the known kinds of activities.
func (r *reader) Kinds() *Kinds { return r.kinds }

// Now returns the time by which activities are recorded and end.
func (r *reader) Now() time.Time { return r.source.Now() }

// Inside returns what can be seen of the pages.
//
//nolint:ireturn // of a ledger's pages, or of pages alone
func (r *reader) Inside() Inside { return r.inside }

// Ready reports whether feeds can be answered, and returns an [*UnavailableError] for each
// dependency that is down. The error of a ledger that answers, but whose changes are not read in
// time, wraps [ErrBehind].
func (r *reader) Ready(ctx context.Context) (ready bool, down []error) {
	return r.source.Ready(ctx)
}

// Close waits for the writes in flight, refuses new ones with [ErrClosed], and returns when all
// background work has stopped.
func (r *reader) Close() { r.source.Close() }

// userHash returns the hash that places a user.
func (r *reader) userHash(user string) uint64 {
	return pages.UserHash(r.source.Identity().Seed, user)
}

// ownerHash returns the hash that places the owner of a row of the kind.
func (r *reader) ownerHash(k *Kind, of *row) uint64 {
	if k.InText() && of.kind != k.Name { // on the other side, phrases are owners
		return pages.PhraseHash(r.source.Identity().Seed, of.owner)
	}
	return r.userHash(of.owner)
}

// Rates are the parts of a false-positive rate.
type Rates struct {
	Candidate float64 // of a candidate of a feed: what all kinds that drop take together
	Key       float64 // of one key without weight in a page
	Window    float64 // of a candidate in a window, see OfWindow
}

// Rates divides the false-positive rate of a candidate. Windows have half of it, because most keys
// are in windows: a key takes fewer bits with a larger share. The share of a kind is for all ids on
// a candidate together: in pages, the weights of keys see to it.
func (ks *Kinds) Rates(candidate float64) Rates {
	keys, windows := 0, 0
	for _, k := range ks.all {
		switch {
		case k.Effect != Drop:
		case k.InLedger():
			keys += bits.OnesCount8(uint8(k.Sides()))
		default:
			windows++
		}
	}
	share := candidate
	if keys > 0 && windows > 0 {
		share /= 2
	}
	return Rates{
		Candidate: candidate,
		Key:       min(share/float64(max(keys, 1)), pages.MaxKeyRate),
		Window:    share / float64(max(windows, 1)),
	}
}
