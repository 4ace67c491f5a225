package seen

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/feedfilter/feedfilter/favfilter"
)

// stored is the decoded string of a [Window]. A fingerprint is the first bits of the hash of a key.
// Keys that were recorded at about the same time form a generation. Those of its fingerprints that
// have the same length form a run: a sorted list.
//
// The string is as follows. Integers of fixed length are big-endian; varints are those of
// encoding/binary.
//
//	offset  bytes
//	     0      3  "FAS"
//	     3      1  format version: 2 if a generation has several runs, otherwise 1
//	     4      4  CRC-32C of all other bytes
//	     8      8  seed of the key hashes
//	    16      4  number of changes, so that each change alters the first bytes: the version
//	    20         unit of time in ms, and the number of runs, both as varints
//	               for each run, the oldest first:
//	                   the end of its part in units, as a varint: of Unix time for the first
//	                   run, since the end of the run before for each other one
//	                   bits of a fingerprint, 1 byte; in version 2, 128 is added if the run is of
//	                   the generation of the run before
//	                   number of fingerprints, as a varint
//	                   length of its codes in bytes, as a varint
//	               the codes of each run
//
// The unit is the greatest common divisor of the ends: the length of a part, unless that was
// changed.
//
// The codes of a run are the Golomb-Rice codes of its fingerprints. A key takes about log2(1/p) +
// 1.5 bits, where p is the run's share of the false-positive rate.
type stored struct {
	seed    uint64
	changes uint32
	runs    []run
}

// run is a sorted list of distinct fingerprints.
type run struct {
	before int64    // its keys were recorded before this time, in ms of Unix time
	joins  bool     // it is of the generation of the run before
	width  uint8    // bits of a fingerprint
	count  int      // number of fingerprints; of a draft, len(sorted)
	codes  []byte   // see [appendRice]; nil: sorted was changed, and belongs to the draft
	sorted []uint64 // decoded from codes; none if they are invalid
}

const (
	formatName     = "FAS"
	joinsBit       = 128 // in the byte of the bits of a fingerprint
	offSum         = 4
	offSeed        = 8
	offChanges     = 16
	offRuns        = 20
	maxFingerprint = 56 // bits; more could not be decoded from one word
	maxRuns        = 1 << 12
	maxEnd         = 1 << 55 // ms of Unix time, in a million years
)

// Check returns why raw is not the string of a window; nil: it is. Errors wrap
// [favfilter.ErrDamaged].
func Check(raw []byte) error {
	_, err := decode(raw)
	return err
}

// decode decodes a stored string, but not the codes of its runs, which share the string's memory.
// Errors wrap [favfilter.ErrDamaged].
func decode(raw []byte) (s stored, err error) {
	switch {
	case len(raw) <= offRuns || string(raw[:3]) != formatName:
		return s, fmt.Errorf(
			"%w: %d bytes that start with %q, not a window",
			favfilter.ErrDamaged, len(raw), raw[:min(len(raw), 4)],
		)
	case binary.BigEndian.Uint32(raw[offSum:]) != sum(raw):
		return s, fmt.Errorf(
			"%w: checksum %x, computed %x", favfilter.ErrDamaged, raw[offSum:offSeed], sum(raw),
		)
	case raw[3] != 1 && raw[3] != 2: // the checksum has this place in every version
		return s, fmt.Errorf("%w: %d, this version reads 1 and 2", favfilter.ErrFormat, raw[3])
	}
	runs, ok := decodeRuns(raw[offRuns:], raw[3])
	if !ok {
		return s, fmt.Errorf(
			"%w: the list of runs does not match the %d bytes", favfilter.ErrDamaged, len(raw),
		)
	}
	return stored{
		seed:    binary.BigEndian.Uint64(raw[offSeed:]),
		changes: binary.BigEndian.Uint32(raw[offChanges:]),
		runs:    runs,
	}, nil
}

// decodeRuns decodes the list of runs and assigns their codes to them. It reports whether all
// values are in range.
func decodeRuns(rest []byte, version byte) (runs []run, ok bool) {
	ok = true
	number := func() uint64 {
		n, length := binary.Uvarint(rest)
		if length <= 0 || n > math.MaxInt64 {
			ok = false
			return 0
		}
		rest = rest[length:]
		return n
	}
	unit, count := number(), number()
	if unit == 0 || count > maxRuns {
		return nil, false
	}
	runs = make([]run, count)
	before := uint64(0) // in units
	for i := range runs {
		later := number()
		before += later
		if len(rest) == 0 || before > maxEnd/unit {
			return nil, false
		}
		width, joins := rest[0], false
		rest = rest[1:]
		if version == 2 && width > joinsBit {
			width, joins = width-joinsBit, true
			if i == 0 || later > 0 {
				return nil, false
			}
		}
		keys, length := number(), number()
		if width == 0 || width > maxFingerprint || keys == 0 || length > uint64(len(rest)) ||
			keys > 8*length {
			return nil, false
		}
		runs[i] = run{
			before: int64(before * unit),
			joins:  joins,
			width:  width,
			count:  int(keys),
			codes:  rest[:length],
		}
	}
	for i := range runs { // the codes begin where the list ends
		length := len(runs[i].codes)
		if length > len(rest) {
			return nil, false
		}
		runs[i].codes, rest = rest[:length:length], rest[length:]
	}
	return runs, ok && len(rest) == 0
}

// encode returns the string of generations, the oldest first, whose runs have codes. It allocates
// only the string.
func encode(seed uint64, changes uint32, generations []generation) []byte {
	var head [512]byte
	version, runs, codes, unit := byte(1), 0, 0, int64(0)
	for _, g := range generations {
		for rest := g.before; rest != 0; { // Euclid's algorithm
			unit, rest = rest, unit%rest
		}
		if runs += len(g.runs); len(g.runs) > 1 {
			version = 2
		}
		for _, r := range g.runs {
			codes += len(r.codes)
		}
	}
	unit = max(1, unit)
	raw := append(append(head[:0], formatName...), version, 0, 0, 0, 0)
	raw = binary.BigEndian.AppendUint64(raw, seed)
	raw = binary.BigEndian.AppendUint32(raw, changes)
	raw = binary.AppendUvarint(raw, uint64(unit))
	raw = binary.AppendUvarint(raw, uint64(runs))
	before := int64(0)
	for _, g := range generations {
		for i, r := range g.runs {
			raw = binary.AppendUvarint(raw, uint64((g.before-before)/unit))
			before = g.before
			width := r.width
			if i > 0 {
				width += joinsBit
			}
			raw = append(raw, width)
			raw = binary.AppendUvarint(raw, uint64(r.count))
			raw = binary.AppendUvarint(raw, uint64(len(r.codes)))
		}
	}
	raw = append(make([]byte, 0, len(raw)+codes), raw...)
	for _, g := range generations {
		for _, r := range g.runs {
			raw = append(raw, r.codes...)
		}
	}
	binary.BigEndian.PutUint32(raw[offSum:], sum(raw))
	return raw
}

// sum returns the checksum of a string: of all bytes except the checksum itself.
func sum(raw []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once by the library
	return crc32.Update(crc32.Checksum(raw[:offSum], table), table, raw[offSeed:])
}

// rate returns the probability that the run has the fingerprint of an absent key.
func (r *run) rate() float64 { return math.Ldexp(float64(r.count), -int(r.width)) }

// decode appends the fingerprints of the run to dst. If the codes are not valid, it appends none.
// The checksum makes that unlikely.
func (r *run) decode(dst []uint64) []uint64 {
	first := len(dst)
	dst = slices.Grow(dst, r.count)[:first+r.count]
	if !decodeRice(dst[first:], r.codes, r.width, riceParameter(r.width, r.count)) {
		return dst[:first]
	}
	return dst
}

// fingerprint returns the fingerprint of a key with the given number of bits. The first half of a
// hash is distributed evenly.
func fingerprint(key favfilter.Hash, width uint8) uint64 { return key.H1 >> (64 - width) }
