package main

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/twmb/murmur3"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/bench"
)

// peer is one way to store activities in the comparison.
type peer interface {
	// load stores the entries of the population. loadSeen stores what was seen, unless load has
	// done so.
	load(ctx context.Context, p *bench.Population) error
	loadSeen(ctx context.Context, p *bench.Population) error
	// check decides on the candidates of f, in one call to the server if possible. If dropped is
	// not nil, check sets dropped[i] for each candidate i. It may be called concurrently.
	check(ctx context.Context, f *bench.Feed, dropped []bool) error
}

// writer is a peer that supports writes.
type writer interface {
	// write returns a call that hides that many new posts for one user. Each call uses other posts.
	write(keys int) bench.Call
}

// remover is a peer that supports removal.
type remover interface {
	// unhide removes the viewer's hides of the posts of f.
	unhide(ctx context.Context, f *bench.Feed) error
}

// contender is a peer in the comparison.
type contender struct {
	peer

	name  string
	every int  // if above 1: timed in one of this many rounds, so that it does not slow the others
	redis bool // its data is in the Redis server
}

// errAbsent is the error of a peer whose server lacks a module that it needs.
var errAbsent = errors.New("not on this server")

// kinds returns the kinds for which a candidate is looked up: two by the author and two by the
// post.
func kinds() []string { return []string{bench.Block, bench.BlockedBy, bench.Hide, bench.Seen} }

// target returns what the k-th kind looks up for candidate i of f: the author or the post.
func target(f *bench.Feed, k, i int) string {
	if k < 2 {
		return f.Posts[i].Author
	}
	return f.Posts[i].ID
}

// appendKey appends the key of an entry, for peers that store all kinds together.
func appendKey(dst []byte, kind, owner, target string) []byte {
	dst = append(append(dst, kind...), ':')
	dst = append(append(dst, owner...), '_')
	return append(dst, target...)
}

// entry is one key of a filter. A block has two, "block" and "blocked-by".
type entry struct{ Owner, Kind, Target string }

// keysOf returns the entries of activities, in their order.
func keysOf(all iter.Seq[activity.Activity]) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for a := range all {
			if !yield(entry{a.User, a.Kind, a.Target}) {
				return
			}
			if a.Kind == bench.Block && !yield(entry{a.Target, bench.BlockedBy, a.User}) {
				return
			}
		}
	}
}

// entries returns all entries of the population, with what was seen.
func entries(p *bench.Population) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for _, all := range []iter.Seq[activity.Activity]{p.Activities(), p.Seen()} {
			for e := range keysOf(all) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// cleanOf returns the number of candidates that must not be dropped.
func cleanOf(f *bench.Feed) int {
	n := 0
	for _, drop := range f.Drop {
		if !drop {
			n++
		}
	}
	return n
}

// bloomShape is the size of a Bloom filter by the textbook formula.
type bloomShape struct {
	bits   uint64
	hashes int
}

func newBloomShape(n int, rate float64) bloomShape {
	bits := math.Ceil(-float64(n) * math.Log(rate) / (math.Ln2 * math.Ln2))
	return bloomShape{uint64(bits), int(math.Round(bits / float64(n) * math.Ln2))}
}

// appendPositions appends the positions of a key's bits.
func (s bloomShape) appendPositions(dst []uint64, key []byte) []uint64 {
	a, b := murmur3.Sum128(key)
	for range s.hashes {
		dst = append(dst, a%s.bits)
		a += b
	}
	return dst
}
