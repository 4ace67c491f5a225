package favfilter

import "slices"

// Apply applies b to what a store holds, in the process. It defines what every [Store] does with a
// batch. The page must not be shared. A page that was not loaded whole is Torn.
func (l Loaded) Apply(b Batch) Result {
	if l.Page != nil {
		return l.Page.Apply(b)
	}
	if l.Version == "" {
		return Result{State: Missing}
	}
	if h, err := DecodeHeader([]byte(l.Version)); err == nil && b.isForeign(h) {
		return Result{State: Foreign, Header: h, Version: l.Version}
	}
	return Result{State: Torn, Version: l.Version}
}

// isForeign reports whether the page with header h is another one than b is for.
func (b Batch) isForeign(h Header) bool {
	return h.Identity != b.Identity || h.Number != b.ID.Number
}

// Apply applies b to the page, like [Loaded.Apply]. The page must not be shared. Apply changes the
// page only if the state of the result is Applied.
func (p *Page) Apply(b Batch) Result {
	res := Result{State: p.admit(b)}
	switch {
	case res.State != Applied:
	case b.Sequence > 0:
		res.State, res.Cleared = p.applyGuarded(b)
	default:
		res.Outcomes = p.applyUnguarded(b)
	}
	if res.State != Torn {
		res.Header = p.header
	}
	raw, _ := p.Encode()
	res.Version = versionOf(raw)
	return res
}

// admit returns Applied if b may be applied to the page, otherwise the reason.
func (p *Page) admit(b Batch) State {
	switch {
	case b.isForeign(p.header):
		return Foreign
	case p.header.Shape.Region > 0 && p.collisions == nil:
		return Torn
	case b.Sequence == 0 || p.header.Sequence == b.Sequence-1:
		return Applied
	case p.header.Sequence >= b.Sequence:
		return Current
	default:
		return Behind
	}
}

// LeastCleared is the minimum number of bits that a guarded removal must clear, because keys added
// later set them again. This was measured on pages of 1,000 keys after a tenth as many others were
// added. With one bit, 0.12 % of the removed keys are reported; with two bits, 0.018 %; with three,
// 0.002 %, less than of keys that were never added. Three bits cost a rebuild for every eleventh
// removal, two bits for every forty-fifth.
const LeastCleared = 3

// applyGuarded applies a guarded batch, unless it could take the page past its rate: readers use
// the page until the caller has replaced it. It removes keys first, and only if all can be.
// Clearing the bits of one key cannot affect a key examined earlier: a bit in a region whose
// collision bit is clear belongs to one key only.
func (p *Page) applyGuarded(b Batch) (state State, fewest uint8) {
	type removal struct {
		layer *layer
		end   int
	}
	removals := make([]removal, len(b.Remove))
	var buf [2 * MaxPositions]uint32
	own := buf[:0] // the bits to clear: of each removal from the end of the one before
	for i, h := range b.Remove {
		l := p.onlyLayerOf(h)
		if l == nil {
			return Jammed, 0
		}
		before := len(own)
		var all int // bits of the key
		own, all = l.clearable(own, h)
		n := len(own) - before
		if n < LeastCleared && (n == 0 || n < all) { // a key may set fewer bits
			return Jammed, 0
		}
		if i == 0 || n < int(fewest) {
			fewest = uint8(n)
		}
		removals[i] = removal{l, len(own)}
	}
	if b.overfills(p.header) {
		return Overfull, 0
	}
	from := 0
	for _, r := range removals {
		p.clear(r.layer, own[from:r.end])
		from = r.end
	}
	for _, h := range b.Add {
		p.Insert(h)
	}
	if len(b.Add) > 0 {
		p.markAll(b.Marks)
	}
	p.header.Sequence = b.Sequence
	p.stale = true
	return Applied, fewest
}

// onlyLayerOf returns the layer that reports the key. It returns nil if none or several do, because
// keys that looked present may have been inserted, and then any of several layers may hold the key.
func (p *Page) onlyLayerOf(h Hash) (found *layer) {
	for i := range p.layers {
		if l := &p.layers[i]; l.shape.contains(l.pair.Bits, h) {
			if found != nil {
				return nil
			}
			found = l
		}
	}
	return found
}

func (p *Page) markAll(marks []Hash) {
	for _, h := range marks {
		p.Mark(h)
	}
}

func (p *Page) applyUnguarded(b Batch) []Outcome {
	outcomes := make([]Outcome, 0, len(b.Remove)+len(b.Add))
	for _, h := range b.Remove {
		outcomes = append(outcomes, p.Remove(h))
	}
	outcomes = p.addWithin(b, outcomes)
	if slices.Contains(outcomes, Added) {
		p.markAll(b.Marks)
	}
	if slices.Contains(outcomes, Removed) || slices.Contains(outcomes, Added) {
		p.header.Sequence++
	}
	return outcomes
}
