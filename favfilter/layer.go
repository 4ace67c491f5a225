package favfilter

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/feedfilter/feedfilter/regions"
)

// layer is one Bloom filter of a page. A new page has one layer. Each further layer is appended to
// both strings of the page:
//
//	bits string     header, bits of the first layer, then for each further layer a header
//	                of 16 bytes and its bits
//	regions string  build ID, then the collision bitmap of each layer
//
// The header of a further layer is as follows. Integers are big-endian:
//
//	offset  bytes
//	     0      4  Shape.Bits
//	     4      1  Shape.Hashes
//	     5      3  the low 24 bits of the CRC-32C of bytes 0-4, which never change
//	     8      4  Bloom bits set
//	    12      4  keys held
//
// Shape.Region and Shape.Uniform are those of the page. The set bits and keys of the first layer
// are the page's Set and Count less those of all further layers.
type layer struct {
	shape Shape
	set   uint32
	count uint32
	// pair is parts of the page's two strings. It has no collision bitmap if the shape has no
	// regions, or if that was not loaded.
	pair regions.Pair
}

const (
	layerBytes = 16 // length of the header of a further layer

	offLayerSet   = 8
	offLayerCount = 12
)

// clearable appends to dst the bits of h that no other key can share. It also returns the number of
// bits that the key sets.
func (l *layer) clearable(dst []uint32, h Hash) (own []uint32, all int) {
	var buf [MaxPositions]uint32
	positions := l.shape.Positions(buf[:0], h)
	return l.pair.Clearable(dst, positions), len(positions)
}

func (l *layer) encode(dst []byte) {
	binary.BigEndian.PutUint32(dst, l.shape.Bits)
	dst[4] = l.shape.Hashes
	sum := layerSum(dst)
	dst[5], dst[6], dst[7] = byte(sum>>16), byte(sum>>8), byte(sum)
	binary.BigEndian.PutUint32(dst[offLayerSet:], l.set)
	binary.BigEndian.PutUint32(dst[offLayerCount:], l.count)
}

// decodeLayer decodes the header of a further layer at the start of b. first is the shape of the
// first layer.
func decodeLayer(b []byte, first Shape) (layer, error) {
	if len(b) < layerBytes {
		return layer{}, fmt.Errorf("%d bytes, the header alone takes %d", len(b), layerBytes)
	}
	l := layer{
		shape: Shape{
			Bits: binary.BigEndian.Uint32(b), Hashes: b[4], Region: first.Region, Uniform: first.Uniform,
		},
		set:   binary.BigEndian.Uint32(b[offLayerSet:]),
		count: binary.BigEndian.Uint32(b[offLayerCount:]),
	}
	if sum := layerSum(b); b[5] != byte(sum>>16) || b[6] != byte(sum>>8) || b[7] != byte(sum) {
		return layer{}, fmt.Errorf("layer checksum %x, computed %06x", b[5:8], sum&0xffffff)
	}
	return l, l.shape.validate()
}

func layerSum(b []byte) uint32 {
	// The library builds the table once.
	return crc32.Checksum(b[:5], crc32.MakeTable(crc32.Castagnoli))
}

// Layers returns the shapes of the page's layers, the oldest first.
func (p *Page) Layers() []Shape {
	shapes := make([]Shape, len(p.layers))
	for i := range p.layers {
		shapes[i] = p.layers[i].shape
	}
	return shapes
}

func (p *Page) totalBits() uint32 {
	total := uint32(0)
	for i := range p.layers {
		total += p.layers[i].shape.Bits
	}
	return total
}

// newest returns the layer that keys are added to.
func (p *Page) newest() *layer { return &p.layers[len(p.layers)-1] }

// layerOf returns the oldest layer that reports the key, or nil if none does. That layer is the one
// that holds the key. Older layers did not report the key when it was added, and since then have
// lost bits but gained none. Newer layers may report it by chance.
func (p *Page) layerOf(h Hash) *layer {
	for i := range p.layers {
		if l := &p.layers[i]; l.shape.contains(l.pair.Bits, h) {
			return l
		}
	}
	return nil
}

// attach points the bitmaps of the layers at their parts of the two strings.
func (p *Page) attach() {
	at, collisionsAt := HeaderBytes, buildBytes
	for i := range p.layers {
		l := &p.layers[i]
		if i > 0 {
			at += layerBytes
		}
		end := at + int(l.shape.Bits/8)
		l.pair = regions.Pair{Bits: p.raw[at:end:end], Size: regions.Size(l.shape.Region)}
		at = end
		if p.collisions != nil {
			end := collisionsAt + l.shape.collisionBytes()
			l.pair.Collisions = p.collisions[collisionsAt:end:end]
			collisionsAt = end
		}
	}
}

// encodeLayers writes the headers of the further layers.
func (p *Page) encodeLayers() {
	at := HeaderBytes + int(p.header.Shape.Bits/8)
	for i := 1; i < len(p.layers); i++ {
		p.layers[i].encode(p.raw[at:])
		at += layerBytes + int(p.layers[i].shape.Bits/8)
	}
}

// decodeLayers decodes the headers of the layers in p.raw, after that of the page has been decoded.
// It checks them against the length of p.raw.
func (p *Page) decodeLayers() error {
	h := p.header
	p.layers = append(p.one[:0], layer{shape: h.Shape, set: h.Set, count: h.Count})
	at := HeaderBytes + int(h.Shape.Bits/8)
	for i := range h.Grown {
		l, err := decodeLayer(p.raw[min(at, len(p.raw)):], h.Shape)
		if err != nil {
			return fmt.Errorf("%w: layer %d: %w", ErrDamaged, i+1, err)
		}
		if l.set > p.layers[0].set || l.count > p.layers[0].count ||
			l.shape.Bits > MaxBits-p.totalBits() {
			return fmt.Errorf(
				"%w: layer %d: %d bits, %d set, %d keys: more than the page has",
				ErrDamaged, i+1, l.shape.Bits, l.set, l.count,
			)
		}
		p.layers[0].set -= l.set
		p.layers[0].count -= l.count
		p.layers = append(p.layers, l)
		at += layerBytes + int(l.shape.Bits/8)
	}
	if len(p.raw) != at {
		return fmt.Errorf(
			"%w: %d bytes, %d expected of %d bits", ErrDamaged, len(p.raw), at, p.totalBits(),
		)
	}
	return nil
}

// collisionsBytes returns the length of the page's regions string.
func (p *Page) collisionsBytes() int {
	n := buildBytes
	for i := range p.layers {
		n += p.layers[i].shape.collisionBytes()
	}
	return n
}
