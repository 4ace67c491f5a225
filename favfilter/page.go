package favfilter

import (
	"encoding/binary"
	"fmt"

	"github.com/feedfilter/feedfilter/regions"
)

// Page is one page of a filter: Bloom bits, and one collision mark per region of
// them, in one or more layers. It is a value in memory and does no I/O; its two encoded
// strings are what a [Store] keeps.
//
// A page loaded for reading may come without its collision marks: Contains
// works, changes do not. Pages are not safe for concurrent use while one
// goroutine changes them; any number may read.
type Page struct {
	header Header
	raw    []byte  // header and Bloom bits, as stored
	stale  bool    // the headers in raw are not up to date; Encode brings them there
	marks  []byte  // build id and collision marks, as stored; nil: none, or not loaded
	layers []layer // the oldest first; never empty

	first regions.Bitmap // bits of the first layer, for lookups in pages that have no other
	one   [1]layer       // memory of layers while there is one
}

// NewPage returns an empty page of one layer. Set, Count and Grown of h are ignored. It
// fails where another field of h is out of range.
func NewPage(h Header) (*Page, error) {
	h.Set, h.Count, h.Grown = 0, 0, 0
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("make page %d: %w", h.Number, err)
	}
	p := &Page{header: h, raw: make([]byte, HeaderBytes+h.Shape.Bits/8), stale: true}
	p.layers = append(p.one[:0], layer{shape: h.Shape})
	if h.Shape.Region > 0 {
		p.marks = make([]byte, p.marksBytes())
		binary.BigEndian.PutUint64(p.marks, h.Build)
	}
	p.attach()
	return p, nil
}

// DecodePage reads a page from its stored strings and keeps them. marks may be
// nil, for a page that is only read. Errors wrap [ErrDamaged]; that the bits set are as many as the
// headers say is checked too, so a bit that flipped is noticed.
func DecodePage(raw, marks []byte) (*Page, error) {
	h, err := DecodeHeader(raw)
	if err != nil {
		return nil, err
	}
	p := &Page{header: h, raw: raw}
	if err := p.decodeLayers(); err != nil {
		return nil, err
	}
	if marks != nil && h.Shape.Region > 0 {
		if want := p.marksBytes(); len(marks) != want {
			return nil, fmt.Errorf("%w: %d bytes of collision marks, %d expected", ErrDamaged, len(marks), want)
		}
		if build := binary.BigEndian.Uint64(marks); build != h.Build {
			return nil, fmt.Errorf("%w: bits of build %016x, collision marks of build %016x", ErrDamaged, h.Build, build)
		}
		p.marks = marks
	}
	p.attach()
	if err := p.checkSet(); err != nil {
		return nil, err
	}
	return p, nil
}

// Header returns the page's header as it stands.
func (p *Page) Header() Header { return p.header }

// Size returns how large the page is, its collision bitmap included, whether that was loaded or not.
func (p *Page) Size() Size {
	size := sizeOf(p.header, len(p.raw), 0)
	if size.Regions > 0 {
		size.Bytes += uint32(p.marksBytes())
	}
	return size
}

// Standing is the page as [Store.Peek] tells of it.
func (p *Page) Standing() Standing {
	s := Standing{Header: p.header, Size: p.Size()}
	for i := range p.layers {
		s.Collided += uint32(p.layers[i].marks.Count())
	}
	s.Uncounted = p.marks == nil && s.Size.Regions > 0
	return s
}

// FalsePositiveRate is the probability that a key that is absent is reported, as the page
// stands, by any of its layers.
func (p *Page) FalsePositiveRate() float64 {
	rate := 0.0
	for i := range p.layers {
		r := p.layers[i].shape.rate(p.layers[i].set)
		rate += r - rate*r
	}
	return rate
}

// Encode returns the page's two strings, marks nil if the page has none. They
// are the page's own memory: valid until its next change, not to be changed. After a
// change the first call writes to the page, others only read.
func (p *Page) Encode() (raw, marks []byte) {
	if p.stale {
		p.header.encode(p.raw)
		p.encodeLayers()
		p.stale = false
	}
	return p.raw, p.marks
}

// Clone returns a copy that shares nothing with p.
func (p *Page) Clone() *Page {
	c := *p
	c.raw = append([]byte(nil), p.raw...)
	if p.marks != nil {
		c.marks = append([]byte(nil), p.marks...)
	}
	c.layers = append(c.one[:0], p.layers...)
	c.attach()
	return &c
}

// Contains reports whether the page may hold the key: always true for a key it
// holds, and for others with probability [Page.FalsePositiveRate].
func (p *Page) Contains(h Hash) bool {
	if p.header.Grown > 0 {
		return p.layerOf(h) != nil
	}
	return p.header.Shape.contains(p.first, h)
}

// ContainsAll sets found[i] where the page may hold the key of hashes[i], and leaves the others as they are. found has
// the length of hashes.
func (p *Page) ContainsAll(hashes []Hash, found []bool) {
	if p.header.Grown > 0 {
		for i, h := range hashes {
			found[i] = found[i] || p.layerOf(h) != nil
		}
		return
	}
	if p.header.Set == 0 {
		return
	}
	p.header.Shape.containsAll(p.first, hashes, found)
}

// Add puts the key in unless it looks present already. A false positive is
// taken for present: the key then rests on bits of other keys and is lost when
// they go. Callers who know that the key is absent use [Page.Insert].
func (p *Page) Add(h Hash) Outcome {
	if p.Contains(h) {
		return Present
	}
	return p.Insert(h)
}

// Insert puts in a key that the caller knows to be absent, also where it looks
// present: regions whose bits were set already are marked as shared. It goes to the
// newest layer. Of a page that has grown, keys are not to be removed if they looked present
// when they were inserted: [Page.Remove] would take the wrong ones out.
func (p *Page) Insert(h Hash) Outcome {
	var buf [MaxHashes]uint32
	l := p.newest()
	region := uint32(l.shape.Region)
	for _, bit := range l.shape.Positions(buf[:0], h) {
		switch {
		case !l.bits.Get(bit):
			l.bits.Set(bit)
			l.set++
			p.header.Set++
		case region > 0:
			l.marks.Set(regions.Of(bit, region))
		}
	}
	l.count++
	p.header.Count++
	p.stale = true
	return Added
}

// Remove takes the key out by clearing those of its bits that no other key can
// share. One cleared bit is enough. Absent: the key was not there and nothing
// changed. Stuck: every bit of it lies in a region marked as shared, and nothing
// changed; only a rebuild of the page removes the key.
//
// A key that was never added but looks present (a false positive) is taken for
// present, and removing it can lose keys that are.
func (p *Page) Remove(h Hash) Outcome {
	l := p.layerOf(h)
	if l == nil {
		return Absent
	}
	var buf [MaxHashes]uint32
	clearable := l.clearable(buf[:0], h)
	if len(clearable) == 0 {
		return Stuck
	}
	p.clear(l, clearable)
	return Removed
}

func (p *Page) clear(l *layer, clearable []uint32) {
	for _, bit := range clearable {
		if l.bits.Get(bit) {
			l.bits.Clear(bit)
			l.set--
			p.header.Set--
		}
	}
	if l.count > 0 {
		l.count--
		p.header.Count--
	}
	p.stale = true
}
