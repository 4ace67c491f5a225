package main

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// The scripts are written from the description of the module rueidisprob. One is a Bloom filter:
// the client computes positions, and the script tests the bits with BITFIELD. The other is a
// counting filter whose counters are fields of a hash.
var (
	//go:embed bloom.lua
	bloomScript string
	//go:embed count.lua
	countScript string
)

const bitmapKey = "bitmap"

// bitmap is one Bloom filter of all entries in one string. A check is a script with a BITFIELD for
// each key, or one BITFIELD with a GET for each bit.
type bitmap struct {
	client *redis.Client
	shape  bloomShape
	script *redis.Script // nil: a check is one BITFIELD
	hashed []byte        // the string before load stores it; nil: another bitmap stores it
}

func (b *bitmap) load(ctx context.Context, p *bench.Population) error {
	if b.hashed == nil {
		return nil
	}
	var buf []byte
	var positions []uint64
	for e := range entries(p) {
		buf = appendKey(buf[:0], e.Kind, e.Owner, e.Target)
		positions = b.shape.appendPositions(positions[:0], buf)
		for _, at := range positions {
			b.hashed[at/8] |= 0x80 >> (at % 8)
		}
	}
	return b.client.Set(ctx, bitmapKey, b.hashed, 0).Err()
}

// loadSeen does nothing, because load stores all entries.
func (*bitmap) loadSeen(context.Context, *bench.Population) error { return nil }

// positions appends the positions of all keys of f as arguments, candidate by candidate.
func positions(shape bloomShape, f *bench.Feed, args []any) []any {
	var buf []byte
	var at []uint64
	for i := range f.Posts {
		for k, kind := range kinds() {
			buf = appendKey(buf[:0], kind, f.Viewer, target(f, k, i))
			at = shape.appendPositions(at[:0], buf)
			for _, p := range at {
				args = append(args, p)
			}
		}
	}
	return args
}

func (b *bitmap) check(ctx context.Context, f *bench.Feed, dropped []bool) error {
	if b.script != nil {
		found, err := runScript(ctx, b.client, b.script, bitmapKey, b.shape, f)
		if err != nil {
			return err
		}
		return decideKeys(found, f, dropped)
	}
	args := make([]any, 0, 2+3*len(f.Posts)*len(kinds())*b.shape.hashes)
	args = append(args, "BITFIELD", bitmapKey)
	for _, p := range positions(b.shape, f, nil) {
		args = append(args, "GET", "u1", p)
	}
	bits, err := b.client.Do(ctx, args...).Int64Slice()
	if err != nil {
		return err
	}
	found := make([]int64, 0, len(bits)/b.shape.hashes)
	for ; len(bits) > 0; bits = bits[b.shape.hashes:] {
		all := int64(1)
		for _, bit := range bits[:b.shape.hashes] {
			all &= bit
		}
		found = append(found, all)
	}
	return decideKeys(found, f, dropped)
}

// runScript runs a script that tests all keys of f.
func runScript(
	ctx context.Context, client *redis.Client, script *redis.Script, key string, shape bloomShape, f *bench.Feed,
) ([]int64, error) {
	args := make([]any, 1, 1+len(f.Posts)*len(kinds())*shape.hashes)
	args[0] = shape.hashes
	return script.Run(ctx, client, []string{key}, positions(shape, f, args)...).Int64Slice()
}

// decideKeys drops each candidate that has a found key.
func decideKeys(found []int64, f *bench.Feed, dropped []bool) error {
	each := len(kinds())
	if len(found) != each*len(f.Posts) {
		return fmt.Errorf("%d answers for %d keys", len(found), each*len(f.Posts))
	}
	for i := range f.Posts {
		drop := false
		for _, one := range found[each*i : each*(i+1)] {
			drop = drop || one == 1
		}
		if dropped != nil {
			dropped[i] = drop
		}
	}
	return nil
}

func (b *bitmap) write(keys int) bench.Call {
	next := newPosts("bitmap", keys)
	return bench.Call{Name: "BITFIELD SET", Do: func(ctx context.Context, _ int) error {
		args := make([]any, 2, 2+4*keys*b.shape.hashes)
		args[0], args[1] = "BITFIELD", bitmapKey
		for range keys {
			for _, p := range b.shape.appendPositions(nil, appendKey(nil, bench.Hide, "writer", next())) {
				args = append(args, "SET", "u1", p, 1)
			}
		}
		return b.client.Do(ctx, args...).Err()
	}}
}

const countsKey = "counts"

// counting is one counting Bloom filter of all entries. Its counters are in a hash, and a script
// reads them.
type counting struct {
	client *redis.Client
	shape  bloomShape
	script *redis.Script
}

func (c *counting) load(ctx context.Context, p *bench.Population) error {
	counts := make([]uint16, c.shape.bits)
	var buf []byte
	var at []uint64
	for e := range entries(p) {
		buf = appendKey(buf[:0], e.Kind, e.Owner, e.Target)
		at = c.shape.appendPositions(at[:0], buf)
		for _, p := range at {
			counts[p]++
		}
	}
	const fields = 500
	pipe := c.client.Pipeline()
	pairs := make([]any, 0, 2*fields)
	for i, n := range counts {
		if n > 0 {
			pairs = append(pairs, i, n)
		}
		if len(pairs) < 2*fields && i < len(counts)-1 {
			continue
		}
		if len(pairs) > 0 {
			pipe.HSet(ctx, countsKey, pairs...)
			pairs = make([]any, 0, 2*fields)
		}
		if pipe.Len() == 100 || i == len(counts)-1 {
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadSeen does nothing, because load stores all entries.
func (*counting) loadSeen(context.Context, *bench.Population) error { return nil }

func (c *counting) check(ctx context.Context, f *bench.Feed, dropped []bool) error {
	found, err := runScript(ctx, c.client, c.script, countsKey, c.shape, f)
	if err != nil {
		return err
	}
	return decideKeys(found, f, dropped)
}

func (c *counting) write(keys int) bench.Call {
	next := newPosts("counting", keys)
	return bench.Call{Name: "HINCRBY", Do: func(ctx context.Context, _ int) error {
		pipe := c.client.Pipeline()
		for range keys {
			c.change(ctx, pipe, "writer", next(), 1)
		}
		_, err := pipe.Exec(ctx)
		return err
	}}
}

func (c *counting) change(ctx context.Context, pipe redis.Pipeliner, owner, post string, by int64) {
	for _, at := range c.shape.appendPositions(nil, appendKey(nil, bench.Hide, owner, post)) {
		pipe.HIncrBy(ctx, countsKey, strconv.FormatUint(at, 10), by)
	}
}

func (c *counting) unhide(ctx context.Context, f *bench.Feed) error {
	pipe := c.client.Pipeline()
	for _, p := range f.Posts {
		c.change(ctx, pipe, f.Viewer, p.ID, -1)
	}
	_, err := pipe.Exec(ctx)
	return err
}
