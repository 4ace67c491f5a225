package feed_test

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

// colliding returns two ids of 32 bytes that MurmurHash3 x64 128 cannot tell apart under any seed.
// See Aumasson and Bernstein, "Hash-flooding DoS reloaded" (2012). The hash scrambles each block of
// 16 bytes without the seed, so an attacker can choose the differences of the scrambled words.
// Differences in bits 36 and 32 of the first block's words move to the top of the two halves, where
// a carry is lost. The sum of the halves cancels the difference in the second half. Bit 63 of the
// next block's first word cancels the one in the first half.
func colliding() (a, b string) {
	random := rand.New(rand.NewPCG(1, 2))
	one, other := make([]byte, 32), make([]byte, 32)
	word := func(at int, c1, c2 uint64, turn int, difference uint64) {
		for {
			for i := 0; i < 8; i += 2 {
				utf8.EncodeRune(one[at+i:], rune(0xc0+random.IntN(0x740))) // two bytes
			}
			x := binary.LittleEndian.Uint64(one[at:])
			x = bits.RotateLeft64(x*c1, turn) * c2
			y := (x ^ difference) * inverse(c2)
			y = bits.RotateLeft64(y, -turn) * inverse(c1)
			binary.LittleEndian.PutUint64(other[at:], y)
			if activity.CheckID(string(other[at:at+8]), "id") == nil {
				return
			}
		}
	}
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	word(0, c1, c2, 31, 1<<36)
	word(8, c2, c1, 33, 1<<32)
	word(16, c1, c2, 31, 1<<63)
	copy(one[24:], "deadbeef")
	copy(other[24:], "deadbeef")
	return string(one), string(other)
}

// change records or undoes what changes something.
func change(t *testing.T, r *activity.Recorder, remove bool, activities ...activity.Activity) {
	t.Helper()
	for _, a := range activities {
		a.Remove = remove
		if outcomes, err := r.Record(t.Context(), []activity.Activity{a}); err != nil || outcomes[0] != activity.Changed {
			t.Fatalf("%+v: %v, %v", a, outcomes, err)
		}
	}
}

// inverse is 1/c modulo 2^64, of an odd c.
func inverse(c uint64) uint64 {
	x := c
	for range 6 { // Newton: the number of right bits doubles
		x *= 2 - c*x
	}
	return x
}

// Two ids of 32 bytes can be chosen so that they share every key. That can hide a post, as a false
// positive does. It never shows a blocked one.
func TestIDsThatCollideUnderEverySeed(t *testing.T) {
	a, b := colliding()
	if a == b {
		t.Fatal("the ids are the same")
	}
	for range 100 {
		seed := rand.Uint64()
		if favfilter.HashKey(seed, a) != favfilter.HashKey(seed, b) {
			t.Fatalf("under seed %x %s and %s have different hashes", seed, a, b)
		}
	}
	r := open(t)
	posts := []feed.Post{{ID: "1", Author: a}, {ID: "2", Author: b}, {ID: a, Author: "x"}, {ID: b, Author: "x"}}
	check := func(when string, exact bool, want ...string) {
		t.Helper()
		if got := kept(filter(t, r, feed.Request{Viewer: "v", Posts: posts, Exact: exact})); !slices.Equal(got, want) {
			t.Fatalf("%s: kept %q, want %q", when, got, want)
		}
	}
	of := func(id string) []activity.Activity {
		return []activity.Activity{{User: id, Kind: "block", Target: "v"}, {User: "v", Kind: "hide", Target: id}}
	}
	change(t, r, false, of(a)...)
	check("with one of each", false)
	check("exactly, with one of each", true, "2", b)

	change(t, r, false, of(b)...)
	change(t, r, true, of(a)...)
	check("with the other of each", false)
	check("exactly, with the other of each", true, "1", a)

	change(t, r, true, of(b)...)
	check("without", false, "1", "2", a, b)
}

// Two users whose ids collide get one dedicated page together. Activities and the deletion of one
// user leave the activities of the other unchanged.
func TestUsersWhoseIDsCollide(t *testing.T) {
	a, b := colliding()
	r := openWith(t, activity.Config{MaxSharedKeys: 16})
	block := func(user string, from, to int) (all []activity.Activity) {
		for i := from; i < to; i++ {
			all = append(all, activity.Activity{User: user, Kind: "block", Target: strconv.Itoa(i)})
		}
		return all
	}
	check := func(when, user string, want map[int]bool) {
		t.Helper()
		for i := range 200 {
			posts := []feed.Post{{ID: "p", Author: strconv.Itoa(i)}}
			dropped := len(filter(t, r, feed.Request{Viewer: user, Posts: posts, Exact: true}).Dropped) > 0
			if dropped != want[i] {
				t.Fatalf("%s: %d dropped for %s: %v", when, i, user, dropped)
			}
			back := filter(t, r, feed.Request{Viewer: strconv.Itoa(i), Posts: []feed.Post{{ID: "p", Author: user}}, Exact: true})
			if (len(back.Dropped) > 0) != want[i] {
				t.Fatalf("%s: %s dropped for %d: %v", when, user, i, !want[i])
			}
		}
	}
	span := func(from, to int) map[int]bool {
		in := make(map[int]bool)
		for i := from; i < to; i++ {
			in[i] = true
		}
		return in
	}
	change(t, r, false, block(a, 0, 100)...)
	change(t, r, false, block(b, 50, 150)...)
	check("both heavy", a, span(0, 100))
	check("both heavy", b, span(50, 150))
	_, _, err := r.DeleteUser(t.Context(), a)
	must(t, err)
	check("one deleted", a, nil)
	check("one deleted", b, span(50, 150))
	change(t, r, true, block(b, 50, 100)...)
	check("some undone", b, span(100, 150))
}
