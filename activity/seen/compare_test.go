package seen_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/ratetest"
)

// This file compares representations of the keys that one owner added in the last 30 days. Like
// Windows by default, each keeps keys for six parts of 5 days after the current one.

const (
	comparedRate  = 0.0005
	comparedParts = 7 // six, plus the current one
)

// kept is one string of an owner.
type kept struct {
	part int64 // newest part of its keys
	raw  []byte
}

// representation records and finds the keys of one owner in strings. It has no state of its own.
type representation interface {
	// record returns the strings with the keys added at now and without expired keys, and the
	// number of bytes to write.
	record(t testing.TB, owner []kept, keys []favfilter.Hash, now time.Time) (next []kept, written int)
	// read decodes the strings and returns a lookup.
	read(t testing.TB, owner []kept, now time.Time) func(favfilter.Hash) bool
}

type namedRepresentation struct {
	name string
	representation
}

func representations() []namedRepresentation {
	return []namedRepresentation{
		{"7 strings, a Bloom filter each", pages{}},
		{"7 Bloom filters in one string", pages{joined: true}},
		{"fingerprints with age, Elias-Fano", aged{appendEliasFano, decodeEliasFano}},
		{"fingerprints with age, Golomb-Rice", aged{appendGaps, decodeGaps}},
		{"**runs of fingerprints, Golomb-Rice**", windowed{}},
	}
}

func partOf(now time.Time) int64 { return now.Unix() / int64(month/time.Second/6) }

// pages holds a Bloom filter for each part: a page, which grows by layers. It takes a quarter more
// keys than the previous part had, before it grows.
type pages struct{ joined bool } // all in one string, with a short header for each part

func (p pages) record(t testing.TB, owner []kept, keys []favfilter.Hash, now time.Time) (next []kept, written int) {
	t.Helper()
	scaling := favfilter.Scaling{FalsePositiveRate: comparedRate / comparedParts}
	next = slices.DeleteFunc(slices.Clone(owner), func(k kept) bool { return k.part <= partOf(now)-comparedParts })
	if n := len(next); n == 0 || next[n-1].part < partOf(now) {
		capacity := max(64, len(keys))
		if p.joined { // a small filter does not cost a string
			capacity = max(16, len(keys))
		}
		if n > 0 {
			capacity = max(capacity, int(1.25*float64(decodePage(t, next[n-1].raw).Header().Count)))
		}
		shape, err := scaling.First(capacity) // rounded up to what Redis takes for the page
		if err != nil {
			t.Fatal(err)
		}
		for p.joined && shape.Bits > 8 && shape.Capacity(scaling.FalsePositiveRate/2) >= capacity {
			shape.Bits -= 8
		}
		page, err := favfilter.NewPage(favfilter.Header{Identity: favfilter.Identity{Pages: 1}, Shape: shape})
		must(t, err)
		raw, _ := page.Encode()
		next = append(next, kept{partOf(now), raw})
	}
	last := &next[len(next)-1]
	page := decodePage(t, slices.Clone(last.raw))
	page.Apply(favfilter.Batch{Identity: page.Header().Identity, Rate: scaling.FalsePositiveRate, Grow: true, Add: keys})
	last.raw, _ = page.Encode()
	if p.joined {
		return next, lengths(p, next)[0]
	}
	return next, len(last.raw)
}

func (pages) read(t testing.TB, owner []kept, now time.Time) func(favfilter.Hash) bool {
	t.Helper()
	var live []*favfilter.Page
	for _, k := range owner {
		if k.part > partOf(now)-comparedParts {
			live = append(live, decodePage(t, k.raw))
		}
	}
	return func(key favfilter.Hash) bool {
		return slices.ContainsFunc(live, func(p *favfilter.Page) bool { return p.Contains(key) })
	}
}

func decodePage(t testing.TB, raw []byte) *favfilter.Page {
	t.Helper()
	page, err := favfilter.DecodePage(raw, nil)
	must(t, err)
	return page
}

// windowHead is the length of what each string has besides its keys: format, checksum, seed and
// number of changes. Pages have these in their headers.
const windowHead = 20

// lengths returns the lengths of the strings in the store. Joined pages have a header of 12 bytes
// each, which the test keeps separately. It holds the part and the numbers of bits, of set bits,
// and of bits per key.
func lengths(r representation, owner []kept) (each []int) {
	joined := windowHead
	for _, k := range owner {
		each = append(each, len(k.raw))
		joined += len(k.raw) - favfilter.HeaderBytes + 12
	}
	if r == (pages{joined: true}) {
		return []int{joined}
	}
	return each
}

// aged is a sorted list of fingerprints, followed by 3 bits of age for each. The fingerprints are
// long enough for the maximum number of keys, because they cannot be lengthened later.
type aged struct {
	append func(dst []byte, sorted []uint64) []byte
	decode func(raw []byte, count int) (sorted []uint64, length int)
}

const (
	ageBits   = 3
	agedWidth = 25             // bits: log2 of 10,000 / comparedRate, rounded up
	agedHead  = windowHead + 6 // the number of keys, and of the current part
)

// decodeAll returns the numbers of all live keys, each with its age in parts in the lowest bits.
func (a aged) decodeAll(owner []kept, now time.Time) []uint64 {
	if len(owner) == 0 {
		return nil
	}
	raw := owner[0].raw
	numbers, length := a.decode(raw[agedHead:], int(binary.BigEndian.Uint16(raw[windowHead:])))
	ages, live, passed := newBits(raw[agedHead+length:]), numbers[:0], uint64(partOf(now)-owner[0].part)
	for i, number := range numbers {
		if age := ages.get(ageBits*i, ageBits) + passed; age < comparedParts {
			live = append(live, number<<ageBits|age)
		}
	}
	return live
}

func (a aged) record(_ testing.TB, owner []kept, keys []favfilter.Hash, now time.Time) (next []kept, written int) {
	numbers := a.decodeAll(owner, now)
	for _, key := range keys {
		number := key.H1 >> (64 - agedWidth) << ageBits
		at, _ := slices.BinarySearch(numbers, number)
		numbers = slices.Insert(numbers, at, number) // before an older fingerprint of the same value
	}
	numbers = slices.CompactFunc(numbers, func(x, y uint64) bool { return x>>ageBits == y>>ageBits })
	ages := newBits(make([]byte, (ageBits*len(numbers)+7)/8))
	for i, number := range numbers {
		ages.put(ageBits*i, number&(1<<ageBits-1))
		numbers[i] = number >> ageBits
	}
	raw := binary.BigEndian.AppendUint16(make([]byte, windowHead, agedHead), uint16(len(numbers)))
	raw = append(a.append(binary.BigEndian.AppendUint32(raw, uint32(partOf(now))), numbers), ages.raw()...)
	return []kept{{partOf(now), raw}}, len(raw)
}

// read makes a bitmap that rejects most absent keys, as a Window has.
func (a aged) read(_ testing.TB, owner []kept, now time.Time) func(favfilter.Hash) bool {
	numbers := a.decodeAll(owner, now)
	first := max(6, bits.Len(uint(32*len(numbers))))
	filter := make([]uint64, 1<<first/64)
	for i := range numbers {
		numbers[i] >>= ageBits
		bit := numbers[i] >> (agedWidth - first)
		filter[bit/64] |= 1 << (bit % 64)
	}
	return func(key favfilter.Hash) bool {
		if bit := key.H1 >> (64 - first); filter[bit/64]>>(bit%64)&1 == 0 {
			return false
		}
		_, found := slices.BinarySearch(numbers, key.H1>>(64-agedWidth))
		return found
	}
}

func appendGaps(dst []byte, sorted []uint64) []byte {
	codes := seen.AppendRice(nil, sorted, seen.RiceParameter(agedWidth, len(sorted)))
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(codes))), codes...)
}

func decodeGaps(raw []byte, count int) (sorted []uint64, length int) {
	sorted, length = make([]uint64, count), 2+int(binary.BigEndian.Uint16(raw))
	if !seen.DecodeRice(sorted, raw[2:length], agedWidth, seen.RiceParameter(agedWidth, count)) {
		panic("codes that are not valid")
	}
	return sorted, length
}

// eliasFano returns the number of low bits of each of count numbers, and the bytes of them all.
func eliasFano(count int) (low, length int) {
	low = agedWidth - bits.Len(uint(count)) + 1
	return low, (count*low + count + 1<<(agedWidth-low) + 7) / 8
}

// appendEliasFano appends the low bits of each number, followed by the high bits as a list of ones.
// The i-th one is at bit i plus the high bits of the i-th number.
func appendEliasFano(dst []byte, sorted []uint64) []byte {
	low, length := eliasFano(len(sorted))
	field := newBits(make([]byte, length))
	for i, number := range sorted {
		field.put(i*low, number&(1<<low-1))
		field.put(len(sorted)*low+int(number>>low)+i, 1)
	}
	return append(dst, field.raw()...)
}

func decodeEliasFano(raw []byte, count int) (sorted []uint64, length int) {
	low, length := eliasFano(count)
	field, at := newBits(raw[:length]), count*low
	sorted = make([]uint64, count)
	for i := range sorted {
		for field.get(at, 56) == 0 {
			at += 56
		}
		at += bits.TrailingZeros64(field.get(at, 56))
		sorted[i] = uint64(at-count*low-i)<<low | field.get(i*low, low)
		at++
	}
	return sorted, length
}

// bitField is a list of bytes, followed by 8 more, that is read and written by the bit.
type bitField []byte

func newBits(raw []byte) bitField { return append(slices.Clone(raw), make([]byte, 8)...) }

func (b bitField) raw() []byte { return b[:len(b)-8] }

func (b bitField) get(at, n int) uint64 {
	return binary.LittleEndian.Uint64(b[at/8:]) >> (at % 8) & (1<<n - 1)
}

func (b bitField) put(at int, value uint64) {
	word := b[at/8 : at/8+8]
	binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)|value<<(at%8))
}

// windowed is Windows on a store that has only the string of one owner.
type windowed struct{}

type oneString struct {
	favfilter.Store

	raw []byte
}

func (s *oneString) Replace(_ context.Context, r favfilter.Replacement) (bool, error) {
	s.raw, _ = r.Encode()
	return true, nil
}

func (windowed) record(t testing.TB, owner []kept, keys []favfilter.Hash, now time.Time) (next []kept, written int) {
	t.Helper()
	loaded, store := favfilter.Loaded{}, &oneString{}
	if len(owner) > 0 {
		store.raw = owner[0].raw
		loaded.Value = store.raw
	}
	w := openWindow(t, store, seen.Config{Length: month, FalsePositiveRate: comparedRate})
	must(t, w.Decode(t.Context(), favfilter.PageID{}, loaded, now).Add(t.Context(), keys))
	return []kept{{raw: store.raw}}, len(store.raw)
}

func (windowed) read(t testing.TB, owner []kept, now time.Time) func(favfilter.Hash) bool {
	t.Helper()
	w := openWindow(t, nil, seen.Config{Length: month, FalsePositiveRate: comparedRate})
	return w.Decode(t.Context(), favfilter.PageID{}, favfilter.Loaded{Value: owner[0].raw}, now).Contains
}

// comparedOwner is one owner of a representation.
type comparedOwner struct {
	representation

	strings        []kept
	now            time.Time
	keys           []favfilter.Hash // of the last 30 days
	bytes, inRedis float64          // mean over the days of a part
	rate           float64          // of absent keys reported
	look, record50 time.Duration
	written        int
}

// live adds the given number of keys for two windows, the same number each day. On each day of the
// last part, it looks up all keys of the last 30 days, and absent keys.
func live(t testing.TB, r representation, keys, probes int) *comparedOwner {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(keys)))
	o := &comparedOwner{representation: r, now: newClock().now, look: time.Hour, record50: time.Hour}
	const days, measured = 60, 5
	for day := range days {
		o.now = o.now.Add(24 * time.Hour)
		batch := randomHashes(rng, (day+1)*keys/30-day*keys/30)
		o.keys = append(o.keys, batch...)
		o.keys = o.keys[max(0, len(o.keys)-keys):]
		o.strings, _ = r.record(t, o.strings, batch, o.now)
		if day < days-measured {
			continue
		}
		for _, n := range lengths(r, o.strings) {
			o.bytes += float64(n) / measured
			o.inRedis += float64(keyInRedis+stringInRedis(n)) / measured
		}
		contains := r.read(t, o.strings, o.now)
		for _, key := range o.keys {
			if !contains(key) {
				t.Fatalf("%T: a key of the last 30 days is missed", r)
			}
		}
		for range probes / measured {
			if contains(randomHash(rng)) {
				o.rate += 1 / float64(probes)
			}
		}
	}
	return o
}

// keyInRedis is what Redis 7 takes for a string beside its value: 24 bytes for the entry of the
// dictionary, 16 for the object, and 64 for the key.
const keyInRedis = 24 + 16 + 64

// stringInRedis returns the size of jemalloc's block for a string of n bytes. A header and a final
// zero are around the string. From 128 bytes on, blocks have four sizes for each doubling.
func stringInRedis(n int) int {
	size := n + 3 + 1
	if n >= 1<<8 {
		size = n + 5 + 1
	}
	step := max(16, 1<<bits.Len(uint(size-1))/8)
	return (size + step - 1) / step * step
}

// time reads the strings and looks up 500 keys, a tenth of them present. It also records 50 keys.
func (o *comparedOwner) time(t testing.TB, rng *rand.Rand) {
	t.Helper()
	fresh := randomHashes(rng, 50)
	candidates := append(randomHashes(rng, 450), o.keys[:50]...)
	found, start := 0, time.Now()
	contains := o.read(t, o.strings, o.now)
	for _, key := range candidates {
		if contains(key) {
			found++
		}
	}
	o.look = min(o.look, time.Since(start))
	if found < 50 {
		t.Fatalf("%T: %d of 50 keys are found", o.representation, found)
	}
	start = time.Now()
	_, o.written = o.record(t, o.strings, fresh, o.now)
	o.record50 = min(o.record50, time.Since(start))
}

// No representation misses a key or exceeds the rate. The one that Windows use is the smallest.
func TestRepresentations(t *testing.T) {
	for _, keys := range []int{50, 650} {
		const probes = 100_000
		chosen := live(t, windowed{}, keys, probes)
		for _, r := range representations() {
			o := live(t, r.representation, keys, probes)
			o.time(t, rand.New(rand.NewPCG(4, 4)))
			if o.rate*probes > float64(ratetest.Most(comparedRate*probes)) || o.bytes < chosen.bytes {
				t.Errorf("%s, %d keys: a rate of %g, %g bytes", r.name, keys, o.rate, o.bytes)
			}
		}
	}
}

// BenchmarkRepresentations prints a table of docs/BENCHMARKS.md. The representations alternate. A
// time is the shortest of many, in multiples of a SHA-256 of 64 KiB.
//
//	go test ./activity/seen -run '^$' -bench Representations -benchtime 1x
func BenchmarkRepresentations(b *testing.B) {
	const probes, rounds = 4_000_000, 500
	for b.Loop() {
		fmt.Print("\n| keys | representation | B a key | in Redis | least | B read | B written | look up 500 | record 50 | rate |\n",
			"|---|---|---|---|---|---|---|---|---|---|\n")
		unit, block := time.Hour, make([]byte, 64<<10)
		for _, keys := range []int{50, 650, 5000} {
			var owners []*comparedOwner
			for _, r := range representations() {
				owners = append(owners, live(b, r.representation, keys, probes))
			}
			rng := rand.New(rand.NewPCG(4, 4))
			for range rounds {
				start := time.Now()
				sha256.Sum256(block)
				unit = min(unit, time.Since(start))
				for _, o := range owners {
					o.time(b, rng)
				}
			}
			for i, o := range owners {
				n, least := float64(keys), "-"
				if o.rate > 0 {
					least = fmt.Sprintf("%.2f", -math.Log2(o.rate)/8)
				}
				fmt.Printf("| %d | %s | %.2f | %.2f | %s | %.0f | %d | %.2f | %.2f | %.3f %% |\n",
					keys, representations()[i].name, o.bytes/n, o.inRedis/n, least, o.bytes, o.written,
					float64(o.look)/float64(unit), float64(o.record50)/float64(unit), 100*o.rate)
			}
		}
		b.Logf("a SHA-256 of 64 KiB took %v", unit)
	}
}
