package main

import (
	"context"
	_ "embed"
	"fmt"
	"math"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/murmur3"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// bloomScript is written from the description of the module rueidisprob: the client computes
// positions, and the script tests the bits with BITFIELD.
//
//go:embed bloom.lua
var bloomScript string

const (
	bitmapKey = "bitmap"
	// slow makes a way that is a hundred times slower than others take part in one of 8 rounds.
	// slowShare is the share of a figure's time that it gets.
	slow, slowShare = 8, 0.25
)

// bitmap is one Bloom filter of all entries in one string. Its size follows the textbook formula.
type bitmap struct {
	client *redis.Client
	bits   uint64
	hashes int
}

// openBitmap fills the bitmap, and adds the rows of both ways to check it. One is a script with a
// BITFIELD for each key, the other is one BITFIELD with a GET for each bit.
func (r *run) openBitmap(ctx context.Context) error {
	all := everything(r.people)
	n := float64(len(all))
	bits := math.Ceil(-n * math.Log(keyRate(r.rate)) / (math.Ln2 * math.Ln2))
	b := &bitmap{client: r.client, bits: uint64(bits), hashes: int(math.Round(bits / n * math.Ln2))}
	text := make([]byte, b.bits/8+1)
	var at []uint64
	for _, e := range all {
		at = b.appendPositions(at[:0], e)
		for _, p := range at {
			text[p/8] |= 0x80 >> (p % 8)
		}
	}
	bytes, err := memoryOf(ctx, r.client, func() error {
		return r.client.Set(ctx, bitmapKey, text, 0).Err()
	})
	script := redis.NewScript(bloomScript)
	byScript := func(ctx context.Context, f *bench.Feed, dropped []bool) error {
		args := append([]any{b.hashes}, b.positions(f)...)
		found, err := script.Run(ctx, b.client, []string{bitmapKey}, args...).Int64Slice()
		if err != nil {
			return err
		}
		return b.decide(found, 1, f, dropped)
	}
	r.add(&way{
		name:   "Bloom filter by Lua over BITFIELD",
		word:   "lua",
		every:  slow,
		redis:  r.client,
		checks: each(byScript),
		write:  b.write,
		bytes:  bytes / n,
	})
	r.add(&way{
		name:   "one flat bitmap, BITFIELD GETs",
		word:   "flat",
		every:  slow,
		redis:  r.client,
		checks: each(b.check),
		write:  b.write,
	})
	return err
}

// appendPositions appends the positions of an entry's bits.
func (b *bitmap) appendPositions(dst []uint64, e entry) []uint64 {
	h, step := murmur3.StringSum128(e.kind + ":" + e.owner + "_" + e.target)
	for range b.hashes {
		dst = append(dst, h%b.bits)
		h += step
	}
	return dst
}

// positions returns the positions of all keys of f as arguments, candidate by candidate.
func (b *bitmap) positions(f *bench.Feed) []any {
	args := make([]any, 0, len(f.Posts)*len(kinds())*b.hashes)
	var at []uint64
	for i := range f.Posts {
		for k, kind := range kinds() {
			at = b.appendPositions(at[:0], entry{f.Viewer, kind, target(f, k, i)})
			for _, p := range at {
				args = append(args, p)
			}
		}
	}
	return args
}

func (b *bitmap) check(ctx context.Context, f *bench.Feed, dropped []bool) error {
	args := []any{"BITFIELD", bitmapKey}
	for _, p := range b.positions(f) {
		args = append(args, "GET", "u1", p)
	}
	bits, err := b.client.Do(ctx, args...).Int64Slice()
	if err != nil {
		return err
	}
	return b.decide(bits, b.hashes, f, dropped)
}

// decide drops each candidate that has a key all of whose answers are 1.
func (*bitmap) decide(answers []int64, each int, f *bench.Feed, dropped []bool) error {
	if want := each * len(kinds()) * len(f.Posts); len(answers) != want {
		return fmt.Errorf("%d answers, want %d", len(answers), want)
	}
	if dropped == nil {
		return nil
	}
	clear(dropped)
	for key := range len(answers) / each {
		all := int64(1)
		for _, answer := range answers[key*each : (key+1)*each] {
			all &= answer
		}
		if all == 1 {
			dropped[key/len(kinds())] = true
		}
	}
	return nil
}

func (b *bitmap) write(keys int) bench.Call {
	next := newPosts("bitmap", keys)
	return bench.Call{Name: "BITFIELD SET", Do: func(ctx context.Context, _ int) error {
		args := []any{"BITFIELD", bitmapKey}
		for range keys {
			for _, p := range b.appendPositions(nil, entry{"writer", bench.Hide, next()}) {
				args = append(args, "SET", "u1", p, 1)
			}
		}
		return b.client.Do(ctx, args...).Err()
	}}
}

func moduleKey(kind string) string { return "BF:" + kind }

// openModule adds the row of the RedisBloom module: a Bloom filter for each kind. A feed check is
// four BF.MEXISTS in one round trip. If the server lacks the module, there is no row.
func (r *run) openModule(ctx context.Context) error {
	info, err := r.client.Do(ctx, "COMMAND", "INFO", "BF.RESERVE").Slice()
	if err != nil || len(info) != 1 || info[0] == nil {
		note("  left out: this server has no RedisBloom")
		return err
	}
	all, count := everything(r.people), make(map[string]int)
	for _, e := range all {
		count[e.kind]++
	}
	bytes, err := memoryOf(ctx, r.client, func() error { // the module takes all its memory at once
		for kind, n := range count {
			err := r.client.Do(ctx, "BF.RESERVE", moduleKey(kind), keyRate(r.rate), n).Err()
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	pipe := r.client.Pipeline()
	for i, e := range all {
		pipe.Do(ctx, "BF.ADD", moduleKey(e.kind), e.owner+"_"+e.target)
		if pipe.Len() < pipelineSize && i < len(all)-1 {
			continue
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	check := func(ctx context.Context, f *bench.Feed, dropped []bool) error {
		pipe := r.client.Pipeline()
		answers := make([]*redis.BoolSliceCmd, len(kinds()))
		for k, kind := range kinds() {
			args := []any{"BF.MEXISTS", moduleKey(kind)}
			for i := range f.Posts {
				args = append(args, f.Viewer+"_"+target(f, k, i))
			}
			answers[k] = redis.NewBoolSliceCmd(ctx, args...)
			_ = pipe.Process(ctx, answers[k]) // queued: it fails in Exec
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		return decide(answers, f, dropped)
	}
	r.add(&way{
		name:   "RedisBloom, BF.MEXISTS x 4",
		word:   "bf",
		redis:  r.client,
		checks: each(check),
		bytes:  bytes / float64(len(all)),
	})
	return nil
}
