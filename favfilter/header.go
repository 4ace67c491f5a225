package favfilter

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged is wrapped by errors about stored bytes that are not a valid page.
var ErrDamaged = errors.New("damaged page")

// ErrFormat is wrapped by errors about stored pages of a format version other than 3 and 4, which
// this package reads and writes. It wraps [ErrDamaged]: such a page is unusable, because its keys
// are hashed differently.
var ErrFormat = fmt.Errorf("%w: another format version", ErrDamaged)

// Identity holds the settings that all pages of one filter share.
type Identity struct {
	Seed        uint64 // seed of the key hashes
	Pages       uint32 // number of pages: a power of two, 1 to MaxPages
	Incarnation uint64 // incarnation of the ledger that the pages cache; 0 without a ledger
}

// Header describes a page. The bits string of the page begins with the 64 bytes of the encoded
// header. Integers are big-endian:
//
//	offset  bytes
//	     0      3  "FAV"
//	     3      1  format version: 4, or 3 if Shape.Uniform
//	     4      4  Shape.Bits
//	     8      1  Shape.Hashes
//	     9      1  layers, 1 to MaxLayers: Grown + 1
//	    10      2  Shape.Region
//	    12      1  log2 of Pages
//	    13      3  Left
//	    16      8  Seed
//	    24      4  Set
//	    28      4  Count
//	    32      8  Sequence
//	    40      8  Build
//	    48      8  Incarnation
//	    56      4  Number
//	    60      4  CRC-32C of bytes 0-23 and 40-59, which change only when the page grows
type Header struct {
	Identity
	Shape Shape // shape of the first layer
	Grown uint8 // number of layers after the first, below MaxLayers
	// Left holds the low 24 bits of the sequence with which keys last moved from the page to
	// another; 0: none did. A reader that looks for such keys in this page needs it. This package
	// stores Left, but only the caller sets and uses it.
	Left     uint32
	Number   uint32 // number of the page, below Pages
	Set      uint32 // set Bloom bits, in all layers
	Count    uint32 // keys held, in all layers
	Sequence uint64 // sequence of the last change, below MaxSequence
	Build    uint64 // random; the same in both strings of a page
}

const (
	// MaxSequence is the exclusive upper bound of sequences: Lua compares them as doubles.
	MaxSequence = 1 << 53

	// LeftMask has the bits of a sequence that Header.Left holds.
	LeftMask = 1<<24 - 1

	// HeaderBytes is the length of an encoded [Header].
	HeaderBytes = 64

	buildBytes     = 8
	formatName     = "FAV"
	formatUniform  = 3
	formatWeighted = 4

	offFormat    = 3
	offLayers    = 9
	prefixBytes  = 24 // the fields that positions depend on
	offSet       = 24
	offCount     = 28
	offSequence  = 32
	offBuild     = 40
	offIncarnate = 48
	offNumber    = 56
	offSum       = 60
)

// RandomID returns 64 unpredictable bits, for the build of a page or the seed of a filter.
func RandomID() uint64 {
	var b [buildBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

func (h Header) validate() error {
	if err := h.Shape.validate(); err != nil {
		return err
	}
	if err := checkPages(h.Pages); err != nil {
		return err
	}
	most := h.Shape.Bits
	if h.Grown > 0 {
		most = MaxBits // the header does not contain the bits of further layers
	}
	switch {
	case h.Number >= h.Pages:
		return fmt.Errorf("page %d of %d", h.Number, h.Pages)
	case h.Grown >= MaxLayers:
		return fmt.Errorf("%d layers, more than %d", int(h.Grown)+1, MaxLayers)
	case h.Set > most:
		return fmt.Errorf("%d bits set of %d", h.Set, most)
	case h.Left > LeftMask:
		return fmt.Errorf("left with sequence %d, more than %d", h.Left, LeftMask)
	case h.Sequence >= MaxSequence:
		return fmt.Errorf("sequence %d is not below %d", h.Sequence, uint64(MaxSequence))
	}
	return nil
}

// Version returns the version of a stored page with this header: the encoded header.
func (h Header) Version() Version {
	var b [HeaderBytes]byte
	h.encode(b[:])
	return Version(b[:])
}

func (h Header) encode(dst []byte) {
	copy(dst, formatName)
	if dst[offFormat] = formatWeighted; h.Shape.Uniform {
		dst[offFormat] = formatUniform
	}
	binary.BigEndian.PutUint32(dst[4:], h.Shape.Bits)
	dst[8] = h.Shape.Hashes
	dst[offLayers] = 1 + h.Grown
	binary.BigEndian.PutUint16(dst[10:], h.Shape.Region)
	dst[12] = byte(log2(h.Pages))
	dst[13], dst[14], dst[15] = byte(h.Left>>16), byte(h.Left>>8), byte(h.Left)
	binary.BigEndian.PutUint64(dst[16:], h.Seed)
	binary.BigEndian.PutUint32(dst[offSet:], h.Set)
	binary.BigEndian.PutUint32(dst[offCount:], h.Count)
	binary.BigEndian.PutUint64(dst[offSequence:], h.Sequence)
	binary.BigEndian.PutUint64(dst[offBuild:], h.Build)
	binary.BigEndian.PutUint64(dst[offIncarnate:], h.Incarnation)
	binary.BigEndian.PutUint32(dst[offNumber:], h.Number)
	binary.BigEndian.PutUint32(dst[offSum:], headerSum(dst))
}

// DecodeHeader decodes the header at the start of b. Errors wrap [ErrDamaged].
func DecodeHeader(b []byte) (Header, error) {
	switch {
	case len(b) < HeaderBytes:
		return Header{}, fmt.Errorf(
			"%w: %d bytes, the header alone takes %d", ErrDamaged, len(b), HeaderBytes,
		)
	case string(b[:offFormat]) != formatName:
		return Header{}, fmt.Errorf("%w: starts with %q, not %q", ErrDamaged, b[:4], formatName)
	case b[offFormat] != formatUniform && b[offFormat] != formatWeighted:
		return Header{}, fmt.Errorf(
			"%w: %d, this version reads %d and %d",
			ErrFormat, b[offFormat], formatUniform, formatWeighted,
		)
	case binary.BigEndian.Uint32(b[offSum:]) != headerSum(b):
		return Header{}, fmt.Errorf(
			"%w: header checksum %x, computed %x", ErrDamaged, b[offSum:HeaderBytes], headerSum(b),
		)
	case b[offLayers] == 0 || b[offLayers] > MaxLayers || b[12] > 31:
		return Header{}, fmt.Errorf("%w: %d layers, 2^%d pages", ErrDamaged, b[offLayers], b[12])
	}
	h := Header{
		Identity: Identity{
			Seed:        binary.BigEndian.Uint64(b[16:]),
			Pages:       1 << b[12],
			Incarnation: binary.BigEndian.Uint64(b[offIncarnate:]),
		},
		Shape: Shape{
			Bits:   binary.BigEndian.Uint32(b[4:]),
			Hashes: b[8],
			Region: binary.BigEndian.Uint16(b[10:]),

			Uniform: b[offFormat] == formatUniform,
		},
		Grown:    b[offLayers] - 1,
		Left:     uint32(b[13])<<16 | uint32(b[14])<<8 | uint32(b[15]),
		Number:   binary.BigEndian.Uint32(b[offNumber:]),
		Set:      binary.BigEndian.Uint32(b[offSet:]),
		Count:    binary.BigEndian.Uint32(b[offCount:]),
		Sequence: binary.BigEndian.Uint64(b[offSequence:]),
		Build:    binary.BigEndian.Uint64(b[offBuild:]),
	}
	if err := h.validate(); err != nil {
		return Header{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return h, nil
}

func headerSum(b []byte) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli) // made once by the library
	sum := crc32.Update(0, castagnoli, b[:prefixBytes])
	return crc32.Update(sum, castagnoli, b[offBuild:offSum])
}
