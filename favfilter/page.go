package favfilter

import (
	"encoding/binary"
	"fmt"

	"github.com/feedfilter/feedfilter/regions"
)

// Page is one page of a filter: Bloom bits, and one collision mark per region of
// them. It is a value in memory and does no I/O; its two encoded strings are
// what a [Store] keeps.
//
// A page loaded for reading may come without its collision marks: Contains
// works, changes do not. Pages are not safe for concurrent use while one
// goroutine changes them; any number may read.
type Page struct {
	header Header
	raw    []byte         // header and Bloom bits, as stored
	stale  bool           // the header in raw is not the one above; Encode brings it up to date
	marks  []byte         // build id and collision bitmap, as stored; nil: not loaded
	bits   regions.Bitmap // raw, past the header
}

// NewPage returns an empty page. Set and Count of h are ignored. It fails where
// a field of h is out of range.
func NewPage(h Header) (*Page, error) {
	h.Set, h.Count = 0, 0
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("make page %d: %w", h.Number, err)
	}
	p := &Page{header: h, raw: make([]byte, HeaderBytes+h.Shape.Bits/8), stale: true}
	p.bits = regions.Bitmap(p.raw[HeaderBytes:])
	if n := marksBytes(h.Shape); n > 0 {
		p.marks = make([]byte, n)
		binary.BigEndian.PutUint64(p.marks, h.Build)
	}
	return p, nil
}

// DecodePage reads a page from its stored strings and keeps them. marks may be
// nil, for a page that is only read. Errors wrap [ErrDamaged]; that the bits set are as many as the
// header says is checked too, so a bit that flipped is noticed.
func DecodePage(raw, marks []byte) (*Page, error) {
	h, err := DecodeHeader(raw)
	if err != nil {
		return nil, err
	}
	if want := HeaderBytes + int(h.Shape.Bits/8); len(raw) != want {
		return nil, fmt.Errorf("%w: %d bytes, %d expected of %d bits", ErrDamaged, len(raw), want, h.Shape.Bits)
	}
	p := &Page{header: h, raw: raw, bits: regions.Bitmap(raw[HeaderBytes:])}
	if set := p.bits.Count(); set != int(h.Set) {
		return nil, fmt.Errorf("%w: %d bits set, the header says %d", ErrDamaged, set, h.Set)
	}
	if marks == nil || h.Shape.Region == 0 {
		return p, nil
	}
	if want := marksBytes(h.Shape); len(marks) != want {
		return nil, fmt.Errorf("%w: %d bytes of collision marks, %d expected", ErrDamaged, len(marks), want)
	}
	if build := binary.BigEndian.Uint64(marks); build != h.Build {
		return nil, fmt.Errorf("%w: bits of build %016x, collision marks of build %016x", ErrDamaged, h.Build, build)
	}
	p.marks = marks
	return p, nil
}

// marksBytes is the length of the collision string of a page.
func marksBytes(s Shape) int {
	if s.Region == 0 {
		return 0
	}
	return buildBytes + int(regions.Count(s.Bits, uint32(s.Region))+7)/8
}

// Header returns the page's header as it stands.
func (p *Page) Header() Header { return p.header }

// Encode returns the page's two strings, marks nil if the page has none. They
// are the page's own memory: valid until its next change, not to be changed. After a
// change the first call writes to the page, others only read.
func (p *Page) Encode() (raw, marks []byte) {
	if p.stale {
		p.header.encode(p.raw)
		p.stale = false
	}
	return p.raw, p.marks
}

// Clone returns a copy that shares nothing with p.
func (p *Page) Clone() *Page {
	c := *p
	c.raw = append([]byte(nil), p.raw...)
	c.bits = regions.Bitmap(c.raw[HeaderBytes:])
	if p.marks != nil {
		c.marks = append([]byte(nil), p.marks...)
	}
	return &c
}

// Contains reports whether the page may hold the key: always true for a key it
// holds, and for others with probability [Header.FalsePositiveRate].
func (p *Page) Contains(h Hash) bool {
	for range p.header.Shape.Hashes {
		if !p.bits.Get(position(h.H1, p.header.Shape.Bits)) {
			return false
		}
		h = h.next()
	}
	return true
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
// present: regions whose bits were set already are marked as shared.
func (p *Page) Insert(h Hash) Outcome {
	var buf [MaxHashes]uint32
	marks, region := p.collisions(), uint32(p.header.Shape.Region)
	for _, bit := range p.header.Shape.Positions(buf[:0], h) {
		switch {
		case !p.bits.Get(bit):
			p.bits.Set(bit)
			p.header.Set++
		case region > 0:
			marks.Set(regions.Of(bit, region))
		}
	}
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
	if !p.Contains(h) {
		return Absent
	}
	var buf [MaxHashes]uint32
	clearable := p.clearable(buf[:0], h)
	if len(clearable) == 0 {
		return Stuck
	}
	p.clear(clearable)
	return Removed
}

func (p *Page) clearable(dst []uint32, h Hash) []uint32 {
	region := uint32(p.header.Shape.Region)
	if region == 0 {
		return dst
	}
	var buf [MaxHashes]uint32
	return p.collisions().Clearable(dst, p.header.Shape.Positions(buf[:0], h), region)
}

func (p *Page) clear(clearable []uint32) {
	for _, bit := range clearable {
		if p.bits.Get(bit) {
			p.bits.Clear(bit)
			p.header.Set--
		}
	}
	if p.header.Count > 0 {
		p.header.Count--
	}
	p.stale = true
}

func (p *Page) collisions() regions.Bitmap {
	if p.marks == nil {
		return nil
	}
	return regions.Bitmap(p.marks[buildBytes:])
}
