package activity

import (
	"cmp"
	"iter"
	"slices"

	"github.com/feedfilter/feedfilter/favfilter"
)

// sought holds the hashes of the ids to look for in a page that is probed: by facet, sorted, each
// once.
type sought map[Facet][]favfilter.Hash

func compareHashes(a, b favfilter.Hash) int {
	return cmp.Or(cmp.Compare(a.H1, b.H1), cmp.Compare(a.H2, b.H2))
}

// hashIDs hashes the ids that v will be asked about, unless it already did.
func (v *View) hashIDs() {
	if v.sought != nil {
		return
	}
	v.sought = make(sought)
	for facet, id := range v.ids {
		v.sought[facet] = append(v.sought[facet], favfilter.HashKey(v.seed, id))
	}
	for facet, ids := range v.sought {
		slices.SortFunc(ids, compareHashes)
		v.sought[facet] = slices.Compact(ids)
	}
}

// soughtKeys are the keys that a View looks for in a page that is too large to read.
type soughtKeys struct{ *View }

// Sought returns the number of keys, and yields the starts of keys with the ids of their targets.
func (v soughtKeys) Sought() (number int, each iter.Seq2[favfilter.Start, []favfilter.Hash]) {
	v.hashIDs()
	return v.place(), v.starts()
}

// starts yields the starts of the keys that v looks for in its page, each with the sought ids.
func (v *View) starts() iter.Seq2[favfilter.Start, []favfilter.Hash] {
	return func(yield func(favfilter.Start, []favfilter.Hash) bool) {
		for i := range v.kinds {
			l := &v.kinds[i]
			if !l.kind.InLedger() {
				continue
			}
			ids := v.sought[l.facet]
			if !yield(l.direct, ids) || l.twoWay && !yield(l.reverse, ids) {
				return
			}
		}
	}
}

// place gives each start its place in read.Found, in the order of starts, and returns the number
// of keys.
func (v *View) place() (keys int) {
	for i := range v.kinds {
		l := &v.kinds[i]
		if !l.kind.InLedger() {
			continue
		}
		ids := len(v.sought[l.facet])
		l.directAt = keys
		keys += ids
		if l.twoWay {
			l.reverseAt = keys
			keys += ids
		}
	}
	return keys
}

// contains looks up the key of a kind that the ledger keeps, on one side, with the hashed id. If
// the page was probed, an id that was not sought counts as found, so that no activity is missed.
func (v *View) contains(l *lookup, side Match, id favfilter.Hash) bool {
	start, at := l.direct, l.directAt
	if side == Reverse {
		start, at = l.reverse, l.reverseAt
	}
	switch {
	case l.page != nil:
		return l.page.Contains(start.With(id))
	case v.read.Found != nil:
		n, asked := slices.BinarySearchFunc(v.sought[l.facet], id, compareHashes)
		return !asked || v.read.Found[at+n]
	default:
		return false
	}
}
