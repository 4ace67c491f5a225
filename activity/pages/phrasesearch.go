package pages

import (
	"encoding/binary"
	"math/bits"

	"github.com/feedfilter/feedfilter/favfilter"
)

// PhraseLookup looks for the phrases of one owner and kind in a page.
type PhraseLookup struct {
	Phrases

	Page *favfilter.Page
}

// Has reports whether the page may have a phrase, given its hash.
func (l *PhraseLookup) Has(phrase favfilter.Hash) bool {
	return l.Page.Contains(l.keys.With(phrase))
}

// goesOn reports whether the page may have a phrase that is longer, given the hash of a beginning
// that has a mark.
func (l *PhraseLookup) goesOn(beginning favfilter.Hash) bool {
	return l.Page.Contains(l.marks.With(beginning))
}

// PhraseSearch looks for the phrases of several lookups in texts. It remembers what pages say of
// beginnings, as texts repeat them: above all in scripts that are written without spaces, where
// most units are one of a few thousand characters. For 200 phrases in 500 texts of 280 such
// characters it takes 9 to 10 ms, and 15 to 16 without. It is not safe for concurrent use.
type PhraseSearch struct {
	CutText

	known   []knownBeginning // by slot; nil until something is known
	passing knownBeginning   // of a beginning that is not remembered
}

const (
	// slots is the number of beginnings that are remembered, in 128 KiB. Some thousands of pairs of
	// characters are frequent in Japanese.
	slots = 4096
	// groupSize is the number of lookups of which a slot remembers answers.
	groupSize = 32
	// maxKnown is the largest number of bytes of a beginning that is remembered.
	maxKnown = 16
)

// knownBeginning is what pages say of a beginning: a bit for each lookup of a group that asked. The
// same lookups ask each time: those for which every shorter beginning has a mark.
type knownBeginning struct {
	front, back uint64 // its bytes, see bytesOf
	of          uint32 // its length, and the number of the group

	has    uint32 // the beginning is a phrase
	longer uint32 // the beginning has a mark
}

// Forget forgets what pages said. Call it before the lookups or their pages change.
func (s *PhraseSearch) Forget() { clear(s.known) }

// Find calls found for each phrase of the lookups that begins with unit at, with the index of the
// lookup and the number of units. Phrases of different heads may be looked up in different pages.
func (s *PhraseSearch) Find(lookups []PhraseLookup, at int, found func(lookup, units int)) {
	for from := 0; from < len(lookups); from += groupSize {
		s.findGroup(lookups[from:min(from+groupSize, len(lookups))], from, at, found)
	}
}

// findGroup is Find for one group of lookups, of which the first is that with index from.
func (s *PhraseSearch) findGroup(
	group []PhraseLookup, from, at int, found func(lookup, units int),
) {
	head := s.Head(at)
	asking := uint32(1<<len(group) - 1)
	for n := head; asking != 0 && at+n <= s.End; n++ {
		beginning := s.Phrase(at, n)
		if beginning == nil {
			return
		}
		var k *knownBeginning
		if marked := n < head+markedBeginnings; marked && len(beginning) <= maxKnown {
			k = s.recall(group, from/groupSize, asking, beginning)
		} else {
			k = &s.passing
			*k = s.ask(group, asking, beginning, marked)
		}
		for has := k.has; has != 0; has &= has - 1 {
			found(from+bits.TrailingZeros32(has), n)
		}
		if n < head+markedBeginnings {
			asking = k.longer
		}
	}
}

// recall returns what the pages say of a beginning, and asks them if that is not remembered. What
// was remembered of another one in the same slot is forgotten for it.
func (s *PhraseSearch) recall(
	group []PhraseLookup, number int, asking uint32, beginning []byte,
) *knownBeginning {
	if s.known == nil {
		s.known = make([]knownBeginning, slots)
	}
	front, back := bytesOf(beginning)
	of := uint32(number<<8 | len(beginning))
	mixed := (front ^ bits.RotateLeft64(back, 32) ^ uint64(of)) * 0x9e3779b97f4a7c15
	slot, _ := bits.Mul64(mixed, uint64(len(s.known)))
	k := &s.known[slot]
	if k.front != front || k.back != back || k.of != of {
		*k = s.ask(group, asking, beginning, true)
		k.front, k.back, k.of = front, back, of
	}
	return k
}

// ask asks the pages of the lookups about a beginning, which may have a mark if it is marked.
func (s *PhraseSearch) ask(
	group []PhraseLookup, asking uint32, beginning []byte, marked bool,
) (k knownBeginning) {
	hash := favfilter.HashKeyBytes(s.Seed, beginning)
	for ; asking != 0; asking &= asking - 1 {
		i := bits.TrailingZeros32(asking)
		if group[i].Has(hash) {
			k.has |= 1 << i
		}
		if marked && group[i].goesOn(hash) {
			k.longer |= 1 << i
		}
	}
	return k
}

// bytesOf returns the bytes of b, of which there are 1 to 16. The two numbers have bytes in common
// if there are fewer than 16. So b follows from the numbers and its length.
func bytesOf(b []byte) (front, back uint64) {
	switch n := len(b); {
	case n >= 8:
		return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[n-4:]))
	default:
		return uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16, 0
	}
}
