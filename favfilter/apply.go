package favfilter

// Apply applies b to the page, in process: what every [Store] does, and the
// definition of it. The page must not be shared. Only if the state of the result is Applied
// may the page have changed.
func (p *Page) Apply(b Batch) Result {
	state := p.admit(b)
	var outcomes []Outcome
	var cleared uint8
	if state == Applied {
		if b.Sequence > 0 {
			state, cleared = p.applyGuarded(b)
		} else {
			outcomes = p.applyUnguarded(b)
		}
	}
	res := Result{State: state, Outcomes: outcomes, Cleared: cleared}
	if state != Torn {
		res.Header = p.header
	}
	raw, _ := p.Encode()
	res.Version = Version(raw[:HeaderBytes])
	return res
}

// admit tells whether b may be applied to the page.
func (p *Page) admit(b Batch) State {
	switch {
	case p.header.Identity != b.Identity || p.header.Number != b.ID.Number:
		return Foreign
	case p.header.Shape.Region > 0 && p.marks == nil:
		return Torn
	case b.Sequence == 0 || p.header.Sequence == b.Sequence-1:
		return Applied
	case p.header.Sequence >= b.Sequence:
		return Current
	default:
		return Behind
	}
}

// leastCleared is how many bits a guarded removal has to clear. Keys added later set
// them again: measured on pages of 1,000 keys, after a tenth as many others, 0.12 % of
// the removed keys are reported if one bit is enough, 0.018 % if two, and 0.002 % if
// three, which is less than of keys that never were there. It costs a rebuild for every
// eleventh removal, where two would for every forty-fifth.
const leastCleared = 3

// applyGuarded removes first what is to be removed, and only if every key
// can be. Clearing cannot harm a key examined earlier: a bit in an unmarked
// region belongs to one key alone.
func (p *Page) applyGuarded(b Batch) (state State, fewest uint8) {
	type removal struct {
		layer *layer
		bits  []uint32
	}
	removals := make([]removal, len(b.Remove))
	for i, h := range b.Remove {
		l := p.onlyLayerOf(h)
		if l == nil {
			return Jammed, 0
		}
		bits := l.clearable(nil, h)
		n := len(bits)
		if n < leastCleared && (n == 0 || n < l.bitsOf(h)) {
			return Jammed, 0
		}
		if i == 0 || n < int(fewest) {
			fewest = uint8(n)
		}
		removals[i] = removal{l, bits}
	}
	for _, r := range removals {
		p.clear(r.layer, r.bits)
	}
	for _, h := range b.Add {
		p.Insert(h)
	}
	p.header.Sequence = b.Sequence
	p.stale = true
	return Applied, fewest
}

// onlyLayerOf returns the layer that reports the key, nil if none does or several: which of
// them holds it is not known where keys were inserted that looked present.
func (p *Page) onlyLayerOf(h Hash) *layer {
	var found *layer
	for i := range p.layers {
		if !p.layers[i].contains(h) {
			continue
		}
		if found != nil {
			return nil
		}
		found = &p.layers[i]
	}
	return found
}

func (p *Page) applyUnguarded(b Batch) []Outcome {
	outcomes := make([]Outcome, 0, len(b.Remove)+len(b.Add))
	changed := false
	for _, h := range b.Remove {
		o := p.Remove(h)
		changed = changed || o == Removed
		outcomes = append(outcomes, o)
	}
	in := newIntake(p, b.Rate, b.Grow)
	for _, h := range b.Add {
		o := in.add(h)
		changed = changed || o == Added
		outcomes = append(outcomes, o)
	}
	if changed {
		p.header.Sequence++
	}
	return outcomes
}
