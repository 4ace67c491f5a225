package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// maxScriptKeys is the number of keys up to which a batch is applied by a script. The script
	// uses one or two BITFIELD per key. With more keys it is slower than reading a page of 10 KiB,
	// changing it here and swapping it back. Measured on loopback (BenchmarkScriptOrSwap), 4 keys
	// are faster by script and 12 by swap. A network favours the script, because a second round
	// trip costs more there.
	maxScriptKeys = 8

	// applyRounds is the maximum number of round trips of an Apply while the shape of the page
	// keeps changing.
	applyRounds = 8
)

// Apply implements [favfilter.Store]. It runs one script for each page, all in one pipeline. It
// uses compare-and-swap instead for batches of more than 8 keys, and for pages that have grown or
// are about to grow.
func (s *Store) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	results := make([]favfilter.Result, len(batches))
	scripted := make([]int, 0, len(batches))
	var swapped []int
	for i, b := range batches {
		known, ok := s.shape(b.ID)
		if len(b.Remove)+len(b.Add) > maxScriptKeys || ok && known.Grown > 0 {
			swapped = append(swapped, i)
		} else {
			scripted = append(scripted, i)
		}
	}
	layered := s.applyByScript(ctx, batches, results, scripted)
	s.swap(ctx, batches, results, append(swapped, layered...))
	return results
}

// applyByScript applies the pending batches by script. It returns those that no script can apply;
// they had no effect.
func (s *Store) applyByScript(
	ctx context.Context, batches []favfilter.Batch, results []favfilter.Result, pending []int,
) (layered []int) {
	for round := 0; len(pending) > 0; round++ {
		calls := make([]invocation, len(pending))
		for n, i := range pending {
			calls[n] = s.applyCall(batches[i], results[i].Header)
		}
		cmds := s.run(ctx, s.apply, calls)
		var again []int
		for n, i := range pending {
			res, came := s.applied(batches[i], cmds[n])
			switch {
			case came == layers:
				layered = append(layered, i)
			case came == reshaped && round < applyRounds-1:
				again = append(again, i)
			case came == reshaped:
				res.Err = errNoProgress
			}
			if res.Err != nil {
				res.Err = fmt.Errorf("apply to page %v of filter %s in Redis: %w", batches[i].ID, s.name, res.Err)
			}
			results[i] = res
		}
		pending = again
	}
	return layered
}

// applyCall returns the script call for one batch. found is the header that this call of Apply
// found, or zero if there is none. For a page not met yet, applyCall computes no positions: the
// header in the reply contains the shape.
func (s *Store) applyCall(b favfilter.Batch, found favfilter.Header) invocation {
	known := found
	if found == (favfilter.Header{}) {
		known, _ = s.shape(b.ID)
	}
	if known.Identity != b.Identity || known.Grown > 0 {
		known = favfilter.Header{Identity: b.Identity}
	}
	known.Number = b.ID.Number
	header, _ := known.AppendBinary(nil)
	from, to := "", ""
	if b.Sequence > 0 {
		from, to = sequenceBytes(b.Sequence-1), sequenceBytes(b.Sequence)
	}
	grow := "0"
	if b.Grow && b.Rate > 0 && b.Sequence == 0 {
		grow = "1"
	}
	args := make([]any, 0, 7+(len(b.Remove)+len(b.Add))*(1+int(known.Shape.Hashes)))
	// The two parts of the header that the script compares: shape and seed, and
	// incarnation and page number.
	args = append(args, header[:24], header[48:60], from, to, b.Limit(known.Shape), grow, len(b.Remove))
	var buf [favfilter.MaxHashes]uint32
	for _, keys := range [2][]favfilter.Hash{b.Remove, b.Add} {
		for _, h := range keys {
			bits := known.Shape.Positions(buf[:0], h)
			args = append(args, len(bits))
			for _, bit := range bits {
				args = append(args, uint64(bit)+8*favfilter.HeaderBytes)
			}
		}
	}
	return invocation{id: b.ID, args: args}
}

// verdict is how a script handled a batch.
type verdict uint8

const (
	settled  verdict = iota
	reshaped         // nothing: the positions were of another shape than the page's
	layers           // nothing: the page has more than one layer, or may be about to
)

// applied decodes the reply of apply.lua.
func (s *Store) applied(b favfilter.Batch, cmd *redis.Cmd) (favfilter.Result, verdict) {
	state, raw, outcomes, err := parseApply(cmd)
	if err != nil {
		return favfilter.Result{Err: err}, settled
	}
	var res favfilter.Result
	res.Version = versionOf(raw)
	if raw == "" {
		res.State = favfilter.Missing
		return res, settled
	}
	h, err := favfilter.DecodeHeader([]byte(raw))
	switch {
	case err == nil && (h.Identity != b.Identity || h.Number != b.ID.Number):
		res.State, res.Header = favfilter.Foreign, h
		return res, settled
	case err != nil || state == "torn":
		res.State = favfilter.Torn
		return res, settled
	}
	s.learn(b.ID, h)
	res.Header = h
	switch {
	case state == "layers":
		return res, layers
	case state == "ok":
		res.State = favfilter.Applied
		if b.Sequence == 0 {
			res.Outcomes = outcomesOf(outcomes)
		} else {
			res.Cleared = clearedOf(outcomes)
		}
	case state == "jammed":
		res.State = favfilter.Jammed
	case b.Sequence > 0 && h.Sequence >= b.Sequence:
		res.State = favfilter.Current
	case b.Sequence > 0 && h.Sequence != b.Sequence-1:
		res.State = favfilter.Behind
	default:
		return res, reshaped
	}
	return res, settled
}

func parseApply(cmd *redis.Cmd) (state, header, outcomes string, err error) {
	vals, err := cmd.Slice()
	if err != nil {
		return "", "", "", err
	}
	if len(vals) == 3 {
		var a, b, c bool
		state, a = vals[0].(string)
		header, b = vals[1].(string)
		outcomes, c = vals[2].(string)
		if a && b && c {
			return state, header, outcomes, nil
		}
	}
	return "", "", "", fmt.Errorf("the script answered %v, not a state, a header and outcomes", vals)
}

func outcomesOf(letters string) []favfilter.Outcome {
	outcomes := make([]favfilter.Outcome, 0, len(letters))
	for _, l := range []byte(letters) {
		outcomes = append(outcomes, outcome(l))
	}
	return outcomes
}

// clearedOf decodes the number of cleared bits. It returns 0 if nothing was removed.
func clearedOf(digits string) uint8 {
	n, _ := strconv.ParseUint(digits, 10, 8)
	return uint8(n)
}

func outcome(letter byte) favfilter.Outcome {
	switch letter {
	case 'a':
		return favfilter.Added
	case 'p':
		return favfilter.Present
	case 'r':
		return favfilter.Removed
	case 'x':
		return favfilter.Absent
	case 's':
		return favfilter.Stuck
	case 'f':
		return favfilter.Full
	default:
		return 0
	}
}

func sequenceBytes(seq uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], seq)
	return string(b[:])
}
