package favfilter

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged is wrapped by errors about stored bytes that are not a page.
var ErrDamaged = errors.New("damaged page")

// ErrFormat is wrapped by errors about stored pages of another format version than
// this package reads and writes, which is 3. It wraps [ErrDamaged]: nobody can use such
// a page, because its keys are hashed in another way.
var ErrFormat = fmt.Errorf("%w: another format version", ErrDamaged)

// Identity is what all pages of one filter have in common.
type Identity struct {
	Seed        uint64 // of the key hashes
	Pages       uint32 // number of pages: a power of two, 1 to MaxPages
	Incarnation uint64 // of the ledger that the pages cache; 0 without a ledger
}

// Header describes a page. Its 64 bytes open the page's bits string, integers
// big-endian:
//
//	offset  bytes
//	     0      3  "FAV"
//	     3      1  format version, 3
//	     4      4  Shape.Bits
//	     8      1  Shape.Hashes
//	     9      1  layers, 1 to MaxLayers: Grown + 1
//	    10      2  Shape.Region
//	    12      1  log2 of Pages
//	    13      3  Moves
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
	Shape Shape // of the first layer
	Grown uint8 // layers after the first, below MaxLayers, see [Page.Grow]
	// Moves is how often keys were moved out of the page to another one or back, which whoever looks for
	// them here has to know: below MaxMoves. Only the caller sets it and heeds it.
	Moves    uint32
	Number   uint32 // of the page, below Pages
	Set      uint32 // Bloom bits set, of all layers
	Count    uint32 // keys held, by all layers
	Sequence uint64 // of the last change, below MaxSequence
	Build    uint64 // random, shared by the two strings of one page
}

const (
	// MaxSequence bounds sequence numbers: Lua compares them as doubles.
	MaxSequence = 1 << 53

	// MaxMoves bounds Header.Moves.
	MaxMoves = 1 << 24

	// HeaderBytes is the length of an encoded [Header].
	HeaderBytes = 64

	buildBytes   = 8
	formatName   = "FAV"
	formatOpen   = formatName + "\x03"
	offLayers    = 9
	prefixBytes  = 24 // what tells whether positions were computed for this page
	offSet       = 24
	offCount     = 28
	offSequence  = 32
	offBuild     = 40
	offIncarnate = 48
	offNumber    = 56
	offSum       = 60
)

// FalsePositiveRate is the probability that a key that is absent is reported, as a page
// of one layer stands. Of one that has grown the header tells too little, and the rate is
// given as 1: see [Page.FalsePositiveRate].
func (h Header) FalsePositiveRate() float64 {
	if h.Grown > 0 {
		return 1
	}
	return h.Shape.rate(h.Set)
}

// RandomID returns 64 bits that nobody can predict, for the build of a page or the seed of a filter.
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
	switch {
	case h.Number >= h.Pages:
		return fmt.Errorf("page %d of %d", h.Number, h.Pages)
	case h.Grown >= MaxLayers:
		return fmt.Errorf("%d layers, more than %d", int(h.Grown)+1, MaxLayers)
	case h.Set > h.mostBits():
		return fmt.Errorf("%d bits set of %d", h.Set, h.mostBits())
	case h.Moves >= MaxMoves:
		return fmt.Errorf("%d moves, not below %d", h.Moves, MaxMoves)
	case h.Sequence >= MaxSequence:
		return fmt.Errorf("sequence %d is not below %d", h.Sequence, uint64(MaxSequence))
	}
	return nil
}

// mostBits is how many bits there can be: later layers have theirs past the header.
func (h Header) mostBits() uint32 {
	if h.Grown > 0 {
		return MaxBits
	}
	return h.Shape.Bits
}

// AppendBinary appends the encoded header to b. The error is always nil.
func (h Header) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	b = append(b, make([]byte, HeaderBytes)...)
	h.encode(b[start:])
	return b, nil
}

func (h Header) encode(dst []byte) {
	copy(dst, formatOpen)
	binary.BigEndian.PutUint32(dst[4:], h.Shape.Bits)
	dst[8] = h.Shape.Hashes
	dst[offLayers] = 1 + h.Grown
	binary.BigEndian.PutUint16(dst[10:], h.Shape.Region)
	dst[12] = byte(log2(h.Pages))
	dst[13], dst[14], dst[15] = byte(h.Moves>>16), byte(h.Moves>>8), byte(h.Moves)
	binary.BigEndian.PutUint64(dst[16:], h.Seed)
	binary.BigEndian.PutUint32(dst[offSet:], h.Set)
	binary.BigEndian.PutUint32(dst[offCount:], h.Count)
	binary.BigEndian.PutUint64(dst[offSequence:], h.Sequence)
	binary.BigEndian.PutUint64(dst[offBuild:], h.Build)
	binary.BigEndian.PutUint64(dst[offIncarnate:], h.Incarnation)
	binary.BigEndian.PutUint32(dst[offNumber:], h.Number)
	binary.BigEndian.PutUint32(dst[offSum:], headerSum(dst))
}

// DecodeHeader reads the header at the start of b. Errors wrap [ErrDamaged].
func DecodeHeader(b []byte) (Header, error) {
	switch {
	case len(b) < HeaderBytes:
		return Header{}, fmt.Errorf("%w: %d bytes, the header alone takes %d", ErrDamaged, len(b), HeaderBytes)
	case string(b[:3]) == formatName && b[3] != formatOpen[3]:
		return Header{}, fmt.Errorf("%w: %d, this version reads %d", ErrFormat, b[3], formatOpen[3])
	case string(b[:4]) != formatOpen:
		return Header{}, fmt.Errorf("%w: starts with %q, not %q", ErrDamaged, b[:4], formatOpen)
	case binary.BigEndian.Uint32(b[offSum:]) != headerSum(b):
		return Header{}, fmt.Errorf("%w: header checksum %x, computed %x", ErrDamaged, b[offSum:HeaderBytes], headerSum(b))
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
		},
		Grown:    b[offLayers] - 1,
		Moves:    uint32(b[13])<<16 | uint32(b[14])<<8 | uint32(b[15]),
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
