package redisstore

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/regions"
)

// maxScriptKeys is the number of keys up to which a batch is applied by a script. The script uses
// one or two BITFIELD per key. With more keys it is slower than reading a page of 10 KiB, changing
// it here and swapping it back. Measured on loopback, 4 keys are faster by script and 12 by swap. A
// network favours the script, because a second round trip costs more there.
const maxScriptKeys = 8

// manyPages is the number from which a call also swaps pages of at most 512 bytes a key. For that,
// Redis works a third as long with one key, and a seventh with three (BenchmarkApply).
const manyPages = 64

// change is a batch that is being applied, and its result.
type change struct {
	*favfilter.Batch

	result *favfilter.Result
}

// Apply implements [favfilter.Store]. It runs one script for each page, all in one pipeline. It
// uses compare-and-swap instead for batches of more than 8 keys, and for small pages of a call for
// many. So it does for pages whose shape it does not know, or that have grown or are about to grow.
func (s *Store) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	results := make([]favfilter.Result, len(batches))
	calls := make([]command, 0, len(batches))
	scripted := make([]change, 0, len(batches))
	var swapped []change
	for i := range batches {
		c := change{&batches[i], &results[i]}
		known, ok := s.shape(c.ID)
		keys := len(c.Remove) + len(c.Add) + len(c.Marks)
		if !ok || known.Identity != c.Identity || known.Grown > 0 || keys > maxScriptKeys ||
			len(batches) >= manyPages && int(known.Shape.Bits) <= keys*8*512 {
			swapped = append(swapped, c)
			continue
		}
		calls = append(calls, s.applyCall(c.Batch, known))
		scripted = append(scripted, c)
	}
	for i, cmd := range s.send(ctx, s.apply.name, calls) {
		if c := scripted[i]; !s.applied(c, cmd) {
			swapped = append(swapped, c)
		}
	}
	s.swap(ctx, swapped)
	return results
}

// applyCall returns the script call for one batch, to a page with the header known.
func (s *Store) applyCall(b *favfilter.Batch, known favfilter.Header) command {
	known.Number = b.ID.Number
	header := string(known.Version())
	from, to := "", ""
	if b.Sequence > 0 {
		from, to = sequenceBytes(b.Sequence-1), sequenceBytes(b.Sequence)
	}
	keys := len(b.Remove) + len(b.Add) + len(b.Marks)
	c := s.run(s.apply, b.ID, 7+keys*(1+favfilter.MaxPositions))
	// The two parts of the header that the script compares: shape and seed, and
	// incarnation and page number.
	c.args = append(
		c.args, header[:24], header[48:60], from, to,
		b.Room(known.Shape), len(b.Remove), len(b.Marks),
	)
	var buf [favfilter.MaxPositions]uint32
	for _, keys := range [...][]favfilter.Hash{b.Remove, b.Add, b.Marks} {
		for _, h := range keys {
			bits := known.Shape.Positions(buf[:0], h)
			c.args = append(c.args, len(bits))
			for _, bit := range bits {
				c.args = append(c.args, regions.Offset(favfilter.HeaderBytes, bit))
			}
		}
	}
	return c
}

// applied sets the result of a batch to the reply of apply.lua. It returns false if the script
// changed nothing because the page has another shape than was known, has grown, or may be about to.
func (s *Store) applied(c change, cmd *redis.Cmd) bool {
	reply, err := answer(cmd)
	if err != nil {
		*c.result = favfilter.Result{Err: s.failed("apply to", err, c.ID)}
		return true
	}
	state, stored, outcomes := reply[0], favfilter.Version(reply[1]), reply[2]
	h, err := favfilter.DecodeHeader([]byte(stored))
	// What follows if the bits or collision bits are of no use, or not the batch's.
	unusable := favfilter.Loaded{Version: stored}.Apply(*c.Batch)
	if err != nil || state == "torn" || unusable.State == favfilter.Foreign {
		*c.result = unusable
		return true
	}
	s.learn(c.ID, h)
	res := favfilter.Result{State: favfilter.Applied, Header: h, Version: stored}
	switch {
	case h.Grown > 0:
		return false
	case state == "ok" && c.Sequence > 0:
		cleared, _ := strconv.ParseUint(outcomes, 10, 8) // "": nothing was removed
		res.Cleared = uint8(cleared)
	case state == "ok":
		for _, letter := range []byte(outcomes) {
			outcome := favfilter.Outcome(1 + strings.IndexByte(outcomeLetters, letter))
			res.Outcomes = append(res.Outcomes, outcome)
		}
	case state == "jammed":
		res.State = favfilter.Jammed
	case state == "overfull":
		res.State = favfilter.Overfull
	case c.Sequence > 0 && h.Sequence >= c.Sequence:
		res.State = favfilter.Current
	case c.Sequence > 0 && h.Sequence != c.Sequence-1:
		res.State = favfilter.Behind
	default:
		return false
	}
	*c.result = res
	return true
}

// outcomeLetters has the letter of each [favfilter.Outcome] in replies of apply.lua, in order.
const outcomeLetters = "aprxs"

func sequenceBytes(seq uint64) string { return string(binary.BigEndian.AppendUint64(nil, seq)) }
