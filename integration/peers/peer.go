package main

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/twmb/murmur3"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// peer is a way of keeping activities that is compared.
type peer interface {
	// load puts the entries of the population there, and loadSeen what was seen, unless load has.
	load(ctx context.Context, p *bench.Population) error
	loadSeen(ctx context.Context, p *bench.Population) error
	// check decides on the candidates of f, in one call to the server where that can be. In
	// dropped, unless that is nil, it says what becomes of each. It may be called concurrently.
	check(ctx context.Context, f *bench.Feed, dropped []bool) error
}

// writer is a peer that can be written to.
type writer interface {
	// write returns a call that adds so many new posts that one user hides, each time others.
	write(keys int) bench.Call
}

// remover is a peer that entries can be taken from.
type remover interface {
	// unhide removes the posts of f from those that its viewer hides.
	unhide(ctx context.Context, f *bench.Feed) error
}

// contender is a peer in the comparison.
type contender struct {
	peer

	name  string
	every int  // it is timed in one of so many rounds: it would slow the others' down
	redis bool // it is kept in the Redis server
}

// errAbsent says that the server has not what a peer needs.
var errAbsent = errors.New("not on this server")

// kinds are what a candidate is looked up for, the first two by its author and the others by
// itself.
func kinds() []string { return []string{bench.Block, bench.BlockedBy, bench.Hide, bench.Seen} }

// target is what candidate i of f is looked up for the k-th kind by.
func target(f *bench.Feed, k, i int) string {
	if k < 2 {
		return f.Posts[i].Author
	}
	return f.Posts[i].ID
}

// appendKey appends the key of an entry, for peers that keep all of them in one.
func appendKey(dst []byte, kind, owner, target string) []byte {
	dst = append(append(dst, kind...), ':')
	dst = append(append(dst, owner...), '_')
	return append(dst, target...)
}

// entries are all of the population.
func entries(p *bench.Population) iter.Seq[bench.Entry] {
	return func(yield func(bench.Entry) bool) {
		for e := range p.AllEntries() {
			if !yield(e) {
				return
			}
		}
		for e := range p.Seen() {
			if !yield(e) {
				return
			}
		}
	}
}

// bloomShape is that of a Bloom filter for n keys at the rate, as the textbooks have it.
type bloomShape struct {
	bits   uint64
	hashes int
}

func newBloomShape(n int, rate float64) bloomShape {
	bits := math.Ceil(-float64(n) * math.Log(rate) / (math.Ln2 * math.Ln2))
	return bloomShape{uint64(bits), int(math.Round(bits / float64(n) * math.Ln2))}
}

// appendPositions appends the positions of a key.
func (s bloomShape) appendPositions(dst []uint64, key []byte) []uint64 {
	a, b := murmur3.Sum128(key)
	for range s.hashes {
		dst = append(dst, a%s.bits)
		a += b
	}
	return dst
}
