package redisstore

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// maxScriptKeys is the number of keys up to which a batch is applied by a script. The script
	// uses one or two BITFIELD per key. With more keys it is slower than reading a page of 10 KiB,
	// changing it here and swapping it back. Measured on loopback, 4 keys are faster by script and
	// 12 by swap. A network favours the script, because a second round trip costs more there.
	maxScriptKeys = 8

	// maxRounds is the maximum number of attempts of a script while the shape of the page keeps
	// changing, and of a compare-and-swap. Each lost swap means that another writer succeeded, and a
	// writer that uses a script is always faster.
	maxRounds = 8
)

// change is a batch that is being applied, and its result.
type change struct {
	*favfilter.Batch

	result *favfilter.Result
}

// Apply implements [favfilter.Store]. It runs one script for each page, all in one pipeline. It
// uses compare-and-swap instead for batches of more than 8 keys, and for pages that have grown or
// are about to grow.
func (s *Store) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	results := make([]favfilter.Result, len(batches))
	scripted := make([]change, 0, len(batches))
	var swapped []change
	for i := range batches {
		c := change{&batches[i], &results[i]}
		known, ok := s.shape(c.ID)
		if len(c.Remove)+len(c.Add) > maxScriptKeys || ok && known.Grown > 0 {
			swapped = append(swapped, c)
		} else {
			scripted = append(scripted, c)
		}
	}
	s.swap(ctx, append(swapped, s.applyByScript(ctx, scripted)...))
	return results
}

// applyByScript applies the pending batches by script. It returns those that no script can apply;
// they had no effect.
func (s *Store) applyByScript(ctx context.Context, pending []change) (layered []change) {
	for round := 0; len(pending) > 0; round++ {
		calls := make([]command, len(pending))
		for i, c := range pending {
			calls[i] = s.applyCall(c.Batch)
		}
		var again []change
		for i, cmd := range s.send(ctx, s.apply.name, calls) {
			c := pending[i]
			res, came := s.applied(c.Batch, cmd)
			switch {
			case came == layers:
				layered = append(layered, c)
			case came == reshaped && round < maxRounds-1:
				again = append(again, c)
			case came == reshaped:
				res = favfilter.Result{Err: s.failed("apply to", errNoProgress, c.ID)}
			}
			*c.result = res
		}
		pending = again
	}
	return layered
}

// applyCall returns the script call for one batch. For a page not met yet, it computes no
// positions: the header in the reply contains the shape.
func (s *Store) applyCall(b *favfilter.Batch) command {
	known, _ := s.shape(b.ID)
	if known.Identity != b.Identity || known.Grown > 0 {
		known = favfilter.Header{Identity: b.Identity}
	}
	known.Number = b.ID.Number
	header := string(known.Version())
	from, to := "", ""
	if b.Sequence > 0 {
		from, to = sequenceBytes(b.Sequence-1), sequenceBytes(b.Sequence)
	}
	grow := b.Grow && b.Rate > 0 && b.Sequence == 0
	c := s.run(s.apply, b.ID, 7+(len(b.Remove)+len(b.Add))*(1+int(known.Shape.Hashes)))
	// The two parts of the header that the script compares: shape and seed, and
	// incarnation and page number.
	c.args = append(c.args, header[:24], header[48:60], from, to, b.Limit(known.Shape), grow, len(b.Remove))
	var buf [favfilter.MaxHashes]uint32
	for _, keys := range [2][]favfilter.Hash{b.Remove, b.Add} {
		for _, h := range keys {
			bits := known.Shape.Positions(buf[:0], h)
			c.args = append(c.args, len(bits))
			for _, bit := range bits {
				c.args = append(c.args, uint64(bit)+8*favfilter.HeaderBytes)
			}
		}
	}
	return c
}

// verdict is how a script handled a batch.
type verdict uint8

const (
	settled  verdict = iota
	reshaped         // nothing: the positions were of another shape than the page's
	layers           // nothing: the page has more than one layer, or may be about to
)

// applied decodes the reply of apply.lua.
func (s *Store) applied(b *favfilter.Batch, cmd *redis.Cmd) (res favfilter.Result, came verdict) {
	reply, err := answer(cmd)
	if err != nil {
		return favfilter.Result{Err: s.failed("apply to", err, b.ID)}, settled
	}
	state, raw, outcomes := reply[0], reply[1], reply[2]
	h, err := favfilter.DecodeHeader([]byte(raw))
	if err != nil || state == "torn" || isForeign(h, b) {
		return unusable(favfilter.Version(raw), b), settled
	}
	s.learn(b.ID, h)
	res.Header, res.Version = h, favfilter.Version(raw)
	switch {
	case state == "layers":
		return res, layers
	case state == "ok" && b.Sequence > 0:
		cleared, _ := strconv.ParseUint(outcomes, 10, 8) // "": nothing was removed
		res.State, res.Cleared = favfilter.Applied, uint8(cleared)
	case state == "ok":
		res.State = favfilter.Applied
		for _, letter := range []byte(outcomes) {
			res.Outcomes = append(res.Outcomes, favfilter.Outcome(1+strings.IndexByte(outcomeLetters, letter)))
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

// isForeign reports whether the page with header h is not the one that b is for.
func isForeign(h favfilter.Header, b *favfilter.Batch) bool {
	return h.Identity != b.Identity || h.Number != b.ID.Number
}

// unusable returns the result of b if what is stored is missing, damaged, or not the page that b is
// for. A foreign page is Foreign even if its bits or collision bits are damaged.
func unusable(stored favfilter.Version, b *favfilter.Batch) favfilter.Result {
	if stored == "" {
		return favfilter.Result{State: favfilter.Missing}
	}
	if h, err := favfilter.DecodeHeader([]byte(stored)); err == nil && isForeign(h, b) {
		return favfilter.Result{State: favfilter.Foreign, Header: h, Version: stored}
	}
	return favfilter.Result{State: favfilter.Torn, Version: stored}
}

// outcomeLetters has the letter of each [favfilter.Outcome] in replies of apply.lua, in order.
const outcomeLetters = "aprxsf"

func sequenceBytes(seq uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], seq)
	return string(b[:])
}
