package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// probeBits is the number of bits that one command reads, with three arguments for each bit.
	// ElastiCache Serverless accepts 3,999 arguments per command; probeHead of them are not for
	// bits.
	probeBits = 1330
	// probeCalls is the maximum number of commands in one pipeline. It bounds the memory of a probe
	// to about 1 MiB, and the amount sent after the caller has canceled.
	probeCalls = 16

	// Offsets of the sequence and the build in the header, in bits.
	sequenceBit = 8 * 32
	buildBit    = 8 * 40

	probeHead = 8 // number of arguments before those for the bits
)

// Probe implements [favfilter.Store]. It uses BITFIELD commands. Each command reads the build of
// the page together with some of the bits, so Probe notices if the page is replaced during the
// call. Probe sends pipelines of at most 16 commands one after another, and stops when ctx ends.
func (s *Store) Probe(
	ctx context.Context, id favfilter.PageID, known favfilter.Header, hashes []favfilter.Hash, found []bool,
) (sequence uint64, ok bool, err error) {
	if known.Grown > 0 {
		return 0, false, fmt.Errorf("probe page %v of filter %s in Redis: it has %d layers", id, s.name, known.Grown+1)
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	p, _ := probeRooms.Get().(*probeRoom)
	p.key, _ = s.keys(id)
	p.known, p.page = known, id.Number
	sequence = favfilter.MaxSequence
	most := probeCalls * p.keysPerCall()
	for first := 0; first == 0 || first < len(hashes); first += most {
		end := min(first+most, len(hashes))
		stood, ok, err := p.send(ctx, s, hashes[first:end], found[first:end])
		if err != nil {
			return 0, false, fmt.Errorf("probe page %v of filter %s in Redis: %w", id, s.name, err)
		}
		if !ok {
			probeRooms.Put(p)
			return 0, false, nil
		}
		sequence = min(sequence, stood)
	}
	probeRooms.Put(p) // not after an error: the client may still use the arguments
	return sequence, true, nil
}

// probeRoom is the memory for the commands of one pipeline.
type probeRoom struct {
	key   string
	page  uint32
	known favfilter.Header
	calls []*probeCall
}

// probeCall is one command. Its arguments are created once: those that change are pointers.
type probeCall struct {
	args []any
	bits [probeBits]uint64 // bit offsets from the start of the string
}

// probeRooms is a pool, because the arguments of a command take 70 KiB.
//
//nolint:gochecknoglobals // a pool
var probeRooms = sync.Pool{New: func() any { return new(probeRoom) }}

// call returns the c-th command.
func (p *probeRoom) call(c int) *probeCall {
	if c == len(p.calls) {
		call := &probeCall{args: make([]any, 0, probeHead+3*probeBits)}
		call.args = append(call.args, "BITFIELD", &p.key,
			"GET", "u63", sequenceBit+1, "GET", "i64", buildBit)
		for i := range call.bits {
			call.args = append(call.args, "GET", "u1", &call.bits[i])
		}
		p.calls = append(p.calls, call)
	}
	return p.calls[c]
}

func (p *probeRoom) keysPerCall() int { return probeBits / int(p.known.Shape.Hashes) }

// send probes for as many keys as fit in one pipeline.
func (p *probeRoom) send(
	ctx context.Context, s *Store, hashes []favfilter.Hash, found []bool,
) (sequence uint64, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	per, each := p.keysPerCall(), int(p.known.Shape.Hashes)
	of := calls{"probe", reads, slices.Repeat([]uint32{p.page}, max(1, (len(hashes)+per-1)/per))}
	for c := range of.pages {
		p.call(c).fill(p.known.Shape, hashes[min(c*per, len(hashes)):min((c+1)*per, len(hashes))])
	}
	cmds := pipelined(ctx, s, of, func(pipe redis.Pipeliner, c int, _ error) *redis.IntSliceCmd {
		n := min(per, len(hashes)-c*per)
		cmd := redis.NewIntSliceCmd(ctx, p.calls[c].args[:probeHead+3*n*each]...)
		_ = pipe.Process(ctx, cmd) // queues it
		return cmd
	})
	sequence = favfilter.MaxSequence
	for c, cmd := range cmds {
		bits, err := cmd.Result()
		if err != nil {
			return 0, false, err
		}
		if len(bits) < 2 || uint64(bits[1]) != p.known.Build {
			return 0, false, nil
		}
		sequence = min(sequence, uint64(bits[0]))
		some := found[min(c*per, len(found)):min((c+1)*per, len(found))]
		for n, bits := 0, bits[2:]; n < len(some) && len(bits) >= each; n, bits = n+1, bits[each:] {
			if !slices.Contains(bits[:each], 0) {
				some[n] = true
			}
		}
	}
	return sequence, true, nil
}

// fill sets the bit offsets of the keys.
func (p *probeCall) fill(shape favfilter.Shape, hashes []favfilter.Hash) {
	bits := p.bits[:0]
	var positions [favfilter.MaxHashes]uint32
	for _, h := range hashes {
		own := shape.Positions(positions[:0], h)
		for n := range int(shape.Hashes) {
			// A key may have fewer bits. Its last bit is repeated in place of missing ones.
			bits = append(bits, uint64(own[min(n, len(own)-1)])+8*favfilter.HeaderBytes)
		}
	}
}
