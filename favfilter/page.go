package favfilter

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Page is one page of a filter: Bloom bits, and one collision bit for each region of them, in one
// or more layers. It is a value in memory and does no I/O. A [Store] keeps its two encoded strings.
//
// A page loaded for reading may lack its collision bits: Contains works, changes do not. Any number
// of goroutines may read a Page at once; a change needs exclusive access.
type Page struct {
	header     Header
	raw        []byte  // header and Bloom bits, as stored
	stale      bool    // the headers in raw are outdated; Encode updates them
	collisions []byte  // build ID and collision bitmaps, as stored; nil: none, or not loaded
	layers     []layer // the oldest first; never empty

	one [1]layer // memory of layers while there is only one
}

// NewPage returns an empty page of one layer. It ignores Set, Count and Grown of h, and fails if
// another field of h is out of range.
func NewPage(h Header) (*Page, error) {
	h.Set, h.Count, h.Grown = 0, 0, 0
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("make page %d: %w", h.Number, err)
	}
	raw, collisions := h.Shape.Bytes()
	p := &Page{header: h, raw: make([]byte, raw), stale: true}
	p.layers = append(p.one[:0], layer{shape: h.Shape})
	if collisions > 0 {
		p.collisions = make([]byte, collisions)
		binary.BigEndian.PutUint64(p.collisions, h.Build)
	}
	p.attach()
	return p, nil
}

// decodePage decodes a page from its two stored strings, see [Decode]. Errors wrap [ErrDamaged].
func decodePage(raw, collisions []byte) (*Page, error) {
	h, err := DecodeHeader(raw)
	if err != nil {
		return nil, err
	}
	p := &Page{header: h, raw: raw}
	if err := p.decodeLayers(); err != nil {
		return nil, err
	}
	if collisions != nil && h.Shape.Region > 0 {
		if want := p.collisionsBytes(); len(collisions) != want {
			return nil, fmt.Errorf(
				"%w: regions string of %d bytes, %d expected", ErrDamaged, len(collisions), want,
			)
		}
		if build := binary.BigEndian.Uint64(collisions); build != h.Build {
			return nil, fmt.Errorf(
				"%w: bits string of build %016x, regions string of build %016x", ErrDamaged, h.Build, build,
			)
		}
		p.collisions = collisions
	}
	p.attach()
	for i := range p.layers {
		if l := &p.layers[i]; l.pair.Bits.Count() != int(l.set) {
			return nil, fmt.Errorf(
				"%w: %d bits set in layer %d, the header says %d",
				ErrDamaged, l.pair.Bits.Count(), i, l.set,
			)
		}
	}
	return p, nil
}

// Header returns the current header of the page.
func (p *Page) Header() Header { return p.header }

// Size returns the size of the page. It includes the collision bitmap even if that is not loaded.
func (p *Page) Size() Size {
	size := sizeOf(p.header, len(p.raw), 0)
	if size.Regions > 0 {
		size.Bytes += uint32(p.collisionsBytes())
	}
	return size
}

// Status returns the state of the page as [Store.Peek] reports it.
func (p *Page) Status() Status {
	s := Status{Header: p.header, Size: p.Size()}
	for i := range p.layers {
		s.Collided += uint32(p.layers[i].pair.Collisions.Count())
	}
	return s
}

// FalsePositiveRate returns the probability that any layer of the page, with its current bits,
// reports an absent key without weight.
func (p *Page) FalsePositiveRate() float64 {
	rate := 0.0
	for i := range p.layers {
		r := p.layers[i].shape.rate(p.layers[i].set)
		rate += r - rate*r
	}
	return rate
}

// Encode returns the page's bits string, raw, and its regions string, collisions. The latter is nil
// if the page has no collision bitmap or was loaded without it. The strings are the page's own
// memory: the caller must not change them, and they are valid until the page changes. The first
// call after a change writes to the page; further calls only read it.
func (p *Page) Encode() (raw, collisions []byte) {
	if p.stale {
		p.header.encode(p.raw)
		p.encodeLayers()
		p.stale = false
	}
	return p.raw, p.collisions
}

// Clone returns a copy that shares no memory with p.
func (p *Page) Clone() *Page {
	c := *p
	c.raw, c.collisions = bytes.Clone(p.raw), bytes.Clone(p.collisions)
	c.layers = append(c.one[:0], p.layers...)
	c.attach()
	return &c
}

// Contains reports whether the page may hold the key. It reports true for every key that the page
// holds, and for another key without weight with probability [Page.FalsePositiveRate].
func (p *Page) Contains(h Hash) bool { return p.layerOf(h) != nil }

// ContainsAll sets found[i] if the page may hold the key of start and ids[i], and leaves the other
// elements unchanged. found must have the length of ids.
func (p *Page) ContainsAll(start Start, ids []Hash, found []bool) {
	for i := range p.layers {
		if l := &p.layers[i]; l.set > 0 {
			l.shape.containsAll(l.pair.Bits, start, ids, found)
		}
	}
}

// Insert adds a key that the caller knows to be absent, even if it looks present: see [Page.Apply]
// for keys that may be there. For each bit that was already set, it sets the collision bit of the
// region. The key goes into the newest layer.
//
// In a page that has grown, do not remove keys that looked present when they were inserted:
// [Page.Remove] would clear bits of other keys.
func (p *Page) Insert(h Hash) {
	p.Mark(h)
	p.newest().count++
	p.header.Count++
}

// Mark inserts a mark: a hash that many keys have in common, such as one that says that there are
// keys of some sort. [Page.Contains] reports it like a key, but it is not counted, and nothing
// removes it. It may be set any number of times. Each time but the first takes the regions of its
// bits from the keys that could be removed by them, so that the removal of a key leaves the mark.
func (p *Page) Mark(h Hash) {
	var buf [MaxPositions]uint32
	l := p.newest()
	set := uint32(l.pair.Insert(l.shape.Positions(buf[:0], h)))
	l.set += set
	p.header.Set += set
	p.stale = true
}

// Remove removes the key by clearing those of its bits that no other key can share. One cleared bit
// is enough. The outcome is one of:
//
//   - [Removed].
//   - [Absent]: the key was not in the page, and nothing changed.
//   - [Stuck]: the collision bits of all its regions are set, and nothing changed. Only a rebuild
//     of the page removes the key.
//
// A key that was never added but looks present (a false positive) counts as present. Removing it
// can lose keys that were added.
func (p *Page) Remove(h Hash) Outcome {
	l := p.layerOf(h)
	if l == nil {
		return Absent
	}
	var buf [MaxPositions]uint32
	clearable, _ := l.clearable(buf[:0], h)
	if len(clearable) == 0 {
		return Stuck
	}
	p.clear(l, clearable)
	return Removed
}

func (p *Page) clear(l *layer, clearable []uint32) {
	cleared := uint32(l.pair.Clear(clearable))
	l.set -= cleared
	p.header.Set -= cleared
	if l.count > 0 {
		l.count--
		p.header.Count--
	}
	p.stale = true
}
