package seen_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// newGolden returns a rig that has stored nine keys of three times, and the keys.
func newGolden(t fataler) (*rig, []favfilter.Hash) {
	t.Helper()
	x := newRig(t, seen.Config{Name: "seen", Length: 6 * time.Hour, Seed: 0x0102030405060708, FalsePositiveRate: 0.01, Most: 100})
	var times []time.Time
	keys := make([]favfilter.Hash, 9)
	for i := range keys {
		keys[i] = favfilter.Hash{H1: uint64(i) * 0x1b3d5f70912a4c6e, H2: 1}
		times = append(times, x.now.Add(time.Duration(i/3)*time.Hour))
	}
	x.now = x.now.Add(2 * time.Hour)
	x.write(keys, times...)
	return x, keys
}

func goldenBytes(t fataler) []byte {
	t.Helper()
	x, _ := newGolden(t)
	return slices.Clone(x.stored().Value)
}

func TestFormatGolden(t *testing.T) {
	x, keys := newGolden(t)
	if id := x.windows.ID(0xfedcba9876543210); id.String() != "1019:seen.3viyrl200xgk0" || !id.IsValue() {
		t.Errorf("id %v", id)
	}
	const want = "46415301ed701c8d01020304050607080000000180dddb01" +
		"0391fb1d0b0304010b0304010d0305" + // three runs
		"01c4361b369a6d367463b33d1b"
	raw := x.stored().Value
	if got := hex.EncodeToString(raw); got != want {
		t.Errorf("stored %s\nwant   %s", got, want)
	}
	if cap(raw) != len(raw) {
		t.Errorf("%d bytes of memory are stored for %d", cap(raw), len(raw))
	}
	got := x.read()
	if got.ID() != x.id() || got.Keys() != len(keys) || got.Bytes() != len(raw) {
		t.Errorf("%v has %d keys in %d bytes", got.ID(), got.Keys(), got.Bytes())
	}
	for i, key := range keys {
		runs := got.RunsOf(key)
		from := time.Date(2026, 1, 1, i/3, 0, 0, 0, time.UTC)
		if len(runs) != 1 || !runs[0].From.Equal(from) || !runs[0].Before.Equal(from.Add(time.Hour)) ||
			!runs[0].Forgotten.Equal(from.Add(7*time.Hour)) || runs[0].Keys != 3 {
			t.Errorf("key %d is in runs %+v", i, runs)
		}
	}
	for _, part := range []string{"", "p64", "p2147483648", "own-0", "seen-bff7334dc41cedb2-3"} {
		if (favfilter.PageID{Number: 7, Part: part}).IsValue() {
			t.Errorf("part %q is one of a window", part)
		}
	}
}

// goldenTwo is a string of format version 2: that of goldenBytes, with its first key added again.
const goldenTwo = "464153020c06eebd01020304050607080000000280dddb01" +
	"0491fb1d0b0203010b0304010d0305" + "008b0102" + // four runs
	"b3cd06369a6d367463b33d1b" + "0100"

// A fingerprint of a key that is added again moves as it is. If it has another length than those of
// the newest generation, it forms a run beside them, and the string has format version 2.
func TestFormatGoldenAgain(t *testing.T) {
	x, keys := newGolden(t)
	x.write(keys[:1])
	if got := hex.EncodeToString(x.stored().Value); got != goldenTwo {
		t.Errorf("stored %s\nwant   %s", got, goldenTwo)
	}
	got := x.read()
	for i, key := range keys {
		hour := i / 3
		if i == 0 {
			hour = 2
		}
		runs := got.RunsOf(key)
		if len(runs) != 1 || !runs[0].From.Equal(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)) {
			t.Errorf("key %d is in runs %+v", i, runs)
		}
	}
}

// Any flipped bit and any missing end is detected.
func TestFormatNoticeDamage(t *testing.T) {
	raw := goldenBytes(t)
	for bit := range 8 * len(raw) {
		damaged := slices.Clone(raw)
		damaged[bit/8] ^= 1 << (bit % 8)
		err := seen.Check(damaged)
		if !errors.Is(err, favfilter.ErrDamaged) {
			t.Fatalf("bit %d flipped: %v", bit, err)
		}
		if errors.Is(err, favfilter.ErrFormat) {
			t.Errorf("bit %d flipped: taken for another format", bit)
		}
	}
	other := slices.Clone(raw)
	other[3] = 3
	if err := seen.Check(fixSum(other)); !errors.Is(err, favfilter.ErrFormat) {
		t.Errorf("another format: %v", err)
	}
	for n := range raw {
		if err := seen.Check(raw[:n]); !errors.Is(err, favfilter.ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(raw), err)
		}
	}
}

// An invalid list of runs is refused, even if the checksum is right.
func TestFormatRefuseInvalidRuns(t *testing.T) {
	list := func(numbers ...uint64) []byte {
		raw := slices.Clone(goldenBytes(t)[:20])
		for _, n := range numbers {
			raw = binary.AppendUvarint(raw, n)
		}
		return fixSum(raw)
	}
	runs := func(n uint64) []byte { // n runs of one fingerprint each, with the code 1
		numbers := []uint64{1, n}
		for range n {
			numbers = append(numbers, 1, 8, 1, 1)
		}
		return list(append(numbers, slices.Repeat([]uint64{1}, int(n))...)...)
	}
	const joins = 128                // a varint of two bytes, whose second one is the number of keys: 1
	two := func(raw []byte) []byte { // of format version 2
		raw[3] = 2
		return fixSum(raw)
	}
	for name, raw := range map[string][]byte{
		"none of version 2": two(list(1, 0)), "a run that joins another": two(list(1, 2, 1, 8, 1, 1, 0, joins|9, 1, 1, 1)),
		"none": list(1, 0), "one": runs(1), "two": runs(2), "the most": runs(1 << 12), "one far ahead": list(1, 1, 1<<55, 56, 8, 1, 1),
	} {
		if err := seen.Check(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, raw := range map[string][]byte{
		"no numbers": list(), "no number of runs": list(1), "no bits": list(1, 1, 1), "no keys": list(1, 1, 1, 8), "no length": list(1, 1, 1, 8, 1),
		"no codes": list(1, 1, 1, 8, 1, 1), "no second codes": list(1, 2, 1, 8, 1, 1, 1, 8, 1, 1, 1), "more behind": list(1, 1, 1, 8, 1, 1, 1, 1),
		"a unit of 0": list(0, 0), "a unit of 2^63": list(1<<63, 0), "too many runs": runs(1<<12 + 1), "an end too far ahead": list(1<<54, 1, 3, 8, 1, 1, 1),
		"0 bits": list(1, 1, 1, 0, 1, 1, 1), "57 bits": list(1, 1, 1, 57, 1, 1, 1), "0 keys": list(1, 1, 1, 8, 0, 1, 1), "9 keys in 1 byte": list(1, 1, 1, 8, 9, 1, 1),
		"a run that joins none": two(list(1, 1, 1, joins|8, 1, 1)), "a run that joins an earlier part": two(list(1, 2, 1, 8, 1, 1, 1, joins|8, 1, 1, 1)),
		"0 bits that join": two(list(1, 2, 1, 8, 1, 1, 0, joins, 1, 1, 1)), "a run that joins in version 1": list(1, 2, 1, 8, 1, 1, 0, joins|8, 1, 1, 1),
	} {
		if err := seen.Check(raw); !errors.Is(err, favfilter.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each write raises the number of changes, so that the version changes.
func TestFormatCountChanges(t *testing.T) {
	x, _ := newGolden(t)
	for changes := uint32(1); changes < 5; changes++ {
		if got := binary.BigEndian.Uint32(x.stored().Value[16:]); got != changes {
			t.Fatalf("%d changes, want %d", got, changes)
		}
		keys := []favfilter.Hash{{H1: 0x8123456789abcdef * uint64(changes)}}
		if changes%2 == 0 {
			must(t, x.read().Add(t.Context(), keys))
		} else {
			x.write(keys)
		}
	}
}

// ContainsAll finds the same keys as Contains.
func TestContainsAll(t *testing.T) {
	x, start := newRig(t, seen.Config{Seed: 3, FalsePositiveRate: 1e-9}), favfilter.HashStart(3, "U1")
	ids, found, want := make([]favfilter.Hash, 1000), make([]bool, 1000), make([]bool, 1000)
	var keys []favfilter.Hash
	for i := range ids {
		ids[i] = favfilter.HashKey(3, fmt.Sprint("P", i))
		if want[i] = i%3 == 0; want[i] {
			keys = append(keys, start.With(ids[i]))
		}
		if i%4 == 0 { // set before the call
			found[i], want[i] = true, true
		}
	}
	x.write(keys)
	x.read().ContainsAll(start, ids, found)
	if !slices.Equal(found, want) {
		t.Errorf("found %v", found)
	}
	none := x.windows.Decode(t.Context(), x.id(), favfilter.Loaded{}, x.now)
	none.ContainsAll(start, ids, make([]bool, 1000))
	if none.Keys() != 0 || none.Bytes() != 0 || none.Runs() != nil || none.RunsOf(ids[0]) != nil || none.Contains(ids[0]) || none.Damage() != nil {
		t.Error("an empty window has keys")
	}
}

// A run with invalid codes, under a right checksum, has no keys. It does not disturb lookups and
// writes, even writes that evict keys.
func TestFormatWithInvalidCodes(t *testing.T) {
	raw := goldenBytes(t)
	clear(raw[len(raw)-13 : len(raw)-9]) // the codes of the oldest of three runs: no code ends
	loaded := favfilter.Loaded{Value: fixSum(raw)}
	for _, c := range []struct {
		most, want int
		rate       float64 // at a high rate, the run is decoded to be shortened
	}{{100, 7, 0.01}, {9, 7, 0.01}, {8, 7, 0.01}, {5, 7, 0.01}, {4, 4, 0.01}, {2, 4, 0.01}, {1, 1, 0.01}, {100, 7, 0.1}} {
		x := newRig(t, seen.Config{Length: 6 * time.Hour, Seed: 0x0102030405060708, FalsePositiveRate: c.rate, Most: c.most})
		x.now = x.now.Add(2 * time.Hour)
		key := favfilter.Hash{H1: 1 << 63}
		read := x.windows.Decode(t.Context(), x.id(), loaded, x.now)
		if got := read.Keys(); got != 6 || read.Damage() != nil {
			t.Errorf("%d keys are read, %v", got, read.Damage())
		}
		must(t, read.Add(t.Context(), []favfilter.Hash{key}))
		if got := x.read(); got.Keys() != c.want || !got.Contains(key) {
			t.Errorf("%+v: %d keys are stored", c, got.Keys())
		}
	}
}

// FuzzDecode decodes arbitrary stored bytes. Decoding must not panic, nor take memory out of
// proportion. Keys can be added to bytes that are accepted.
func FuzzDecode(f *testing.F) {
	raw := goldenBytes(f)
	f.Add(raw, uint64(1))
	f.Add(raw[:30], uint64(1)<<63)
	two, _ := hex.DecodeString(goldenTwo)
	f.Add(two, uint64(1))
	for at := 20; at < len(raw); at++ {
		changed := slices.Clone(raw)
		changed[at] ^= 0x81
		f.Add(changed, uint64(3)<<60)
	}
	f.Fuzz(func(t *testing.T, raw []byte, h1 uint64) {
		for _, raw := range [][]byte{raw, fixSum(raw)} {
			if err := seen.Check(raw); err != nil {
				if !errors.Is(err, favfilter.ErrDamaged) {
					t.Fatal(err)
				}
				continue
			}
			x, key := newRig(t, seen.Config{Length: time.Hour, Seed: binary.BigEndian.Uint64(raw[8:])}), favfilter.Hash{H1: h1}
			x.now = time.Unix(0, 0)
			read := x.windows.Decode(t.Context(), x.id(), favfilter.Loaded{Value: raw}, x.now)
			read.Contains(key)
			must(t, read.Add(t.Context(), []favfilter.Hash{key}))
			if x.stored().Value != nil && !x.read().Contains(key) {
				t.Fatal("an added key is missed")
			}
		}
	})
}

// fixSum returns a copy with the right checksum, so that the fuzzer reaches the other checks.
func fixSum(raw []byte) []byte {
	raw = slices.Clone(raw)
	if len(raw) > 8 {
		table := crc32.MakeTable(crc32.Castagnoli)
		binary.BigEndian.PutUint32(raw[4:], crc32.Update(crc32.Checksum(raw[:4], table), table, raw[8:]))
	}
	return raw
}
