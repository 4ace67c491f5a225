package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// probeBits is how many bits one command reads: three arguments each, where ElastiCache Serverless takes 3,999
	// in a command, the two that say what is probed included.
	probeBits = 1330

	// Where the header has the sequence and the build, in bits from its start.
	sequenceBit = 8 * 32
	buildBit    = 8 * 40
)

// Probe implements [favfilter.Store]: BITFIELD commands in one pipeline, each of which reads the build of the page along with
// some of the bits, so that a page that is replaced meanwhile is noticed.
func (s *Store) Probe(
	ctx context.Context, id favfilter.PageID, known favfilter.Header, hashes []favfilter.Hash, found []bool,
) (sequence uint64, ok bool, err error) {
	if known.Grown > 0 {
		return 0, false, fmt.Errorf("probe page %v of filter %s in Redis: it has %d layers", id, s.name, known.Grown+1)
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	key, _ := s.keys(id)
	calls, per := probeCalls(key, known.Shape, hashes)
	cmds := pipelined(ctx, s, len(calls), func(pipe redis.Pipeliner, i int, _ error) *redis.Cmd {
		return pipe.Do(ctx, calls[i]...)
	})
	sequence = favfilter.MaxSequence
	for i, cmd := range cmds {
		bits, err := cmd.Int64Slice()
		if err != nil {
			return 0, false, fmt.Errorf("probe page %v of filter %s in Redis: %w", id, s.name, err)
		}
		if len(bits) < 2 || uint64(bits[1]) != known.Build {
			return 0, false, nil
		}
		sequence = min(sequence, uint64(bits[0]))
		some := found[min(i*per, len(found)):min((i+1)*per, len(found))]
		each := int(known.Shape.Hashes)
		for n, bits := 0, bits[2:]; n < len(some) && len(bits) >= each; n, bits = n+1, bits[each:] {
			if !slices.Contains(bits[:each], 0) {
				some[n] = true
			}
		}
	}
	return sequence, true, nil
}

// probeCalls are commands that read the sequence, the build, and each the bits of per keys.
func probeCalls(key string, shape favfilter.Shape, hashes []favfilter.Hash) (calls [][]any, per int) {
	per = probeBits / int(shape.Hashes)
	var positions [favfilter.MaxHashes]uint32
	for first := 0; first == 0 || first < len(hashes); first += per {
		some := hashes[first:min(first+per, len(hashes))]
		call := make([]any, 0, 8+3*len(some)*int(shape.Hashes))
		call = append(call, "BITFIELD", key, "GET", "u63", sequenceBit+1, "GET", "i64", buildBit)
		for _, h := range some {
			own := shape.Positions(positions[:0], h)
			for n := range int(shape.Hashes) {
				// A key may have fewer: the last stands for those that are wanting.
				bit := own[min(n, len(own)-1)]
				call = append(call, "GET", "u1", uint64(bit)+8*favfilter.HeaderBytes)
			}
		}
		calls = append(calls, call)
	}
	return calls, per
}
