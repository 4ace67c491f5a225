package favfilter

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
)

// Fingerprints is what a [Store] keeps for one owner of a [Window], in one string. A fingerprint is
// the first bits of the hash of a key. Keys that were recorded at about the same time form a
// generation. Those of its fingerprints that have the same length form a run: a sorted list.
// Fingerprints never change; [Window.Write] replaces them.
//
// The string is as follows. Integers of fixed length are big-endian; varints are those of
// encoding/binary.
//
//	offset  bytes
//	     0      3  "FAS"
//	     3      1  format version: 2 if a generation has several runs, otherwise 1
//	     4      4  CRC-32C of all other bytes
//	     8      8  seed of the key hashes
//	    16      4  number of changes
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
type Fingerprints struct {
	raw     []byte
	seed    uint64
	changes uint32
	runs    []run
}

// run is a sorted list of distinct fingerprints.
type run struct {
	before int64  // its keys were recorded before this time, in ms of Unix time
	joins  bool   // it is of the generation of the run before
	width  uint8  // bits of a fingerprint
	count  int    // number of fingerprints
	codes  []byte // see [appendRice]
}

const (
	windowName     = "FAS"
	joinsBit       = 128 // in the byte of the bits of a fingerprint
	offWindowSum   = 4
	offWindowSeed  = 8
	offChanges     = 16
	offRuns        = 20
	maxFingerprint = 56 // bits; more could not be decoded from one word
	maxRuns        = 1 << 12
	maxEnd         = 1 << 55 // ms of Unix time, in a million years
)

// DecodeFingerprints decodes a stored string, and keeps it. Errors wrap [ErrDamaged].
func DecodeFingerprints(raw []byte) (*Fingerprints, error) {
	switch {
	case len(raw) <= offRuns || string(raw[:3]) != windowName:
		return nil, fmt.Errorf("%w: %d bytes that start with %q, not fingerprints", ErrDamaged, len(raw), raw[:min(len(raw), 4)])
	case binary.BigEndian.Uint32(raw[offWindowSum:]) != windowSum(raw):
		return nil, fmt.Errorf("%w: checksum %x, computed %x", ErrDamaged, raw[offWindowSum:offWindowSeed], windowSum(raw))
	case raw[3] != 1 && raw[3] != 2: // the checksum has this place in every version
		return nil, fmt.Errorf("%w: %d, this version reads 1 and 2", ErrFormat, raw[3])
	}
	f := &Fingerprints{
		raw: raw, seed: binary.BigEndian.Uint64(raw[offWindowSeed:]), changes: binary.BigEndian.Uint32(raw[offChanges:]),
	}
	if !f.decodeRuns(raw[offRuns:]) {
		return nil, fmt.Errorf("%w: the list of runs does not match the %d bytes", ErrDamaged, len(raw))
	}
	return f, nil
}

// decodeRuns decodes the list of runs and assigns their codes to them. It reports whether all
// values are in range.
func (f *Fingerprints) decodeRuns(rest []byte) bool {
	ok := true
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
		return false
	}
	f.runs = make([]run, count)
	lengths := make([]uint64, count)
	before := uint64(0) // in units
	for i := range f.runs {
		later := number()
		before += later
		if len(rest) == 0 || before > maxEnd/unit {
			return false
		}
		width, joins := rest[0], false
		rest = rest[1:]
		if f.raw[3] == 2 && width > joinsBit {
			width, joins = width-joinsBit, true
			if i == 0 || later > 0 {
				return false
			}
		}
		keys := number()
		lengths[i] = number()
		if width == 0 || width > maxFingerprint || keys == 0 || lengths[i] > uint64(len(rest)) || keys > 8*lengths[i] {
			return false
		}
		f.runs[i] = run{before: int64(before * unit), joins: joins, width: width, count: int(keys)}
	}
	for i := range f.runs {
		if lengths[i] > uint64(len(rest)) {
			return false
		}
		f.runs[i].codes, rest = rest[:lengths[i]:lengths[i]], rest[lengths[i]:]
	}
	return ok && len(rest) == 0
}

// encodeFingerprints returns the string of runs, the oldest first. It allocates only the string and
// copies the codes of the runs into it.
func encodeFingerprints(seed uint64, changes uint32, runs []run) *Fingerprints {
	var head [512]byte
	version := byte(1)
	if slices.ContainsFunc(runs, func(r run) bool { return r.joins }) {
		version = 2
	}
	raw := append(append(head[:0], windowName...), version, 0, 0, 0, 0)
	raw = appendRuns(raw, seed, changes, runs)
	length := len(raw)
	for _, r := range runs {
		length += len(r.codes)
	}
	raw = append(make([]byte, 0, length), raw...)
	for i := range runs {
		from := len(raw)
		raw = append(raw, runs[i].codes...)
		runs[i].codes = raw[from:len(raw):len(raw)]
	}
	binary.BigEndian.PutUint32(raw[offWindowSum:], windowSum(raw))
	return &Fingerprints{raw: raw, seed: seed, changes: changes, runs: runs}
}

// appendRuns appends what follows the checksum, up to the codes.
func appendRuns(raw []byte, seed uint64, changes uint32, runs []run) []byte {
	unit := int64(0)
	for _, r := range runs {
		for rest := r.before; rest != 0; { // Euclid's algorithm
			unit, rest = rest, unit%rest
		}
	}
	unit = max(1, unit)
	raw = binary.BigEndian.AppendUint64(raw, seed)
	raw = binary.BigEndian.AppendUint32(raw, changes)
	raw = binary.AppendUvarint(raw, uint64(unit))
	raw = binary.AppendUvarint(raw, uint64(len(runs)))
	before := int64(0)
	for _, r := range runs {
		raw = binary.AppendUvarint(raw, uint64((r.before-before)/unit))
		before = r.before
		width := r.width
		if r.joins {
			width += joinsBit
		}
		raw = append(raw, width)
		raw = binary.AppendUvarint(raw, uint64(r.count))
		raw = binary.AppendUvarint(raw, uint64(len(r.codes)))
	}
	return raw
}

// windowSum returns the checksum of a string: of all bytes except the checksum itself.
func windowSum(raw []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once by the library
	return crc32.Update(crc32.Checksum(raw[:offWindowSum], table), table, raw[offWindowSeed:])
}

// Encode returns the stored string, which the caller must not change.
func (f *Fingerprints) Encode() []byte { return f.raw }

// rate returns the probability that the run has the fingerprint of an absent key.
func (r run) rate() float64 { return math.Ldexp(float64(r.count), -int(r.width)) }

// decode appends the fingerprints of the run to dst. If the codes are not valid, it appends none.
// The checksum makes that unlikely.
func (r run) decode(dst []uint64) []uint64 {
	first := len(dst)
	dst = slices.Grow(dst, r.count)[:first+r.count]
	if !decodeRice(dst[first:], r.codes, r.width, riceParameter(r.width, r.count)) {
		return dst[:first]
	}
	return dst
}

// fingerprint returns the fingerprint of a key with the given number of bits. The first half of a
// hash is distributed evenly.
func fingerprint(key Hash, width uint8) uint64 { return key.H1 >> (64 - width) }

// Recent has the keys of one owner that a [Window] had not forgotten at some moment. A nil Recent
// has none. It is safe for concurrent use.
type Recent struct {
	runs   []run
	length int64 // ms that a key is kept after the end of its part
	part   int64 // ms that a part lasts

	sorted []uint64 // fingerprints of all runs
	ends   []int    // end of each run in sorted
	// bitmap has a bit for the first bits of each fingerprint. A lookup of most absent keys ends
	// there.
	bitmap []uint64
	shift  uint8 // shifts a hash to the number of its bit
}

// bitmapBits is the number of bits of the bitmap for each fingerprint. With 32, only 3 % of absent
// keys are looked up in the runs.
const bitmapBits = 32

// newRecent decodes runs.
func newRecent(runs []run, length, part int64) *Recent {
	r := &Recent{runs: runs, length: length, part: part, ends: make([]int, len(runs))}
	total, width := 0, uint8(maxFingerprint)
	for _, run := range runs {
		total += run.count
		width = min(width, run.width)
	}
	first := min(width, uint8(max(6, log2Ceil(bitmapBits*total)))) // bits of the number of a bit
	words := max(1, 1<<first>>6)
	buffer := make([]uint64, words+total)
	r.bitmap, r.sorted, r.shift = buffer[:words], buffer[words:words], 64-first
	for i, run := range runs {
		from := len(r.sorted)
		r.sorted = run.decode(r.sorted)
		r.ends[i] = len(r.sorted)
		for _, number := range r.sorted[from:] {
			bit := number >> (run.width - first)
			r.bitmap[bit>>6] |= 1 << (bit & 63)
		}
	}
	return r
}

// Contains reports whether the owner has the key. At the false-positive rate, it also reports a key
// that the owner does not have.
func (r *Recent) Contains(key Hash) bool {
	if r == nil {
		return false
	}
	return r.mayContain(key) && r.search(key, 0) < len(r.runs)
}

// ContainsAll sets found[i] if Contains reports the key of start and ids[i], and otherwise leaves
// it unchanged. found must have the length of ids.
func (r *Recent) ContainsAll(start Start, ids []Hash, found []bool) {
	if r == nil {
		return
	}
	for i, id := range ids {
		if key := start.With(id); r.mayContain(key) && r.search(key, 0) < len(r.runs) {
			found[i] = true
		}
	}
}

// mayContain looks the key up in the bitmap.
func (r *Recent) mayContain(key Hash) bool {
	bit := key.H1 >> r.shift
	return r.bitmap[bit>>6]>>(bit&63)&1 != 0
}

// search returns the index of the first run, from run on, that has the key; the number of runs if
// none has it.
func (r *Recent) search(key Hash, run int) int {
	from := 0
	if run > 0 {
		from = r.ends[run-1]
	}
	for ; run < len(r.runs); run++ {
		if _, ok := slices.BinarySearch(r.sorted[from:r.ends[run]], fingerprint(key, r.runs[run].width)); ok {
			break
		}
		from = r.ends[run]
	}
	return run
}

// Run describes a run of fingerprints. A part of a window usually has one.
type Run struct {
	Keys              int
	FalsePositiveRate float64   // of one absent key
	From, Before      time.Time // its keys were recorded in the part from From until Before
	Forgotten         time.Time // when they are forgotten
}

// Runs returns the runs, the oldest first.
func (r *Recent) Runs() []Run {
	if r == nil {
		return nil
	}
	runs := make([]Run, len(r.runs))
	for i := range r.runs {
		runs[i] = r.describe(i)
	}
	return runs
}

// RunsOf returns the runs that have the key, the oldest first.
func (r *Recent) RunsOf(key Hash) (runs []Run) {
	if r == nil {
		return nil
	}
	for run := r.search(key, 0); run < len(r.runs); run = r.search(key, run+1) {
		runs = append(runs, r.describe(run))
	}
	return runs
}

func (r *Recent) describe(i int) Run {
	before := r.runs[i].before
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	return Run{
		Keys: r.runs[i].count, FalsePositiveRate: r.runs[i].rate(),
		From: at(before - r.part), Before: at(before), Forgotten: at(before + r.length),
	}
}

// Keys returns the number of keys.
func (r *Recent) Keys() int {
	if r == nil {
		return 0
	}
	return len(r.sorted)
}

// Bytes returns the memory of the Recent, without the string that it was decoded from.
func (r *Recent) Bytes() int {
	if r == nil {
		return 0
	}
	return 8 * (cap(r.bitmap) + len(r.ends)) // the bitmap and the fingerprints share one array
}
