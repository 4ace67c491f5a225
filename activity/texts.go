package activity

import (
	"slices"
	"unicode/utf8"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/phrases"
	"github.com/feedfilter/feedfilter/favfilter"
)

// cutOffReason is why kinds that look for phrases are degraded.
const cutOffReason = "a post has a text of more than 5000 bytes, and the rest was not looked at"

// MaxText is the number of bytes of a text in which kinds look for phrases, see [Kind.InText].
const MaxText = 5000

// textStart returns that part of a text in which kinds look for phrases: its first [MaxText] bytes,
// without a character that is cut there.
func textStart(text string) (start string, whole bool) {
	if len(text) <= MaxText {
		return text, true
	}
	end := MaxText
	for !utf8.RuneStart(text[end]) && end > MaxText-utf8.UTFMax {
		end--
	}
	return text[:end], false
}

// FindPhrase returns where a phrase in canonical form stands first in that part of a text in which
// kinds look: the bytes from start until before end. If it stands nowhere there, end is 0.
func FindPhrase(text, phrase string) (start, end int) {
	var cut pages.CutText
	cutText(&cut, text)
	return cut.Text.Find(phrase)
}

// PhraseSet is a set of phrases in canonical form. It finds them in texts without a page. It never
// changes, so it is safe for concurrent use.
type PhraseSet struct {
	has     map[string]bool
	longest map[string]int // number of bytes of the longest phrase with a head
}

// NewPhraseSet returns the set of the phrases, which are in canonical form.
func NewPhraseSet(all []string) *PhraseSet {
	s := &PhraseSet{make(map[string]bool, len(all)), make(map[string]int)}
	for _, phrase := range all {
		head := phrases.Head(phrase)
		s.has[phrase], s.longest[head] = true, max(s.longest[head], len(phrase))
	}
	return s
}

// In returns the phrases of the set that stand in that part of the text in which kinds look, each
// once.
func (s *PhraseSet) In(text string) (found []string) {
	if len(s.has) == 0 {
		return nil
	}
	var cut pages.CutText
	cutText(&cut, text)
	for at := range cut.End {
		n := cut.Head(at)
		longest := s.longest[string(cut.Phrase(at, n))]
		for ; at+n <= cut.End; n++ {
			phrase := cut.Phrase(at, n)
			if phrase == nil || len(phrase) > longest {
				break
			}
			if s.has[string(phrase)] && !slices.Contains(found, string(phrase)) {
				found = append(found, string(phrase))
			}
		}
	}
	return found
}

// InText returns the phrases of the i-th kind of the View that its page reports in the text, each
// once. They may be false positives.
func (v *View) InText(i int, text string) (found []string) {
	l := &v.kinds[i]
	if l.phrases == nil || l.page == nil {
		return nil
	}
	t := texts{lookups: []pages.PhraseLookup{{Phrases: *l.phrases, Page: l.page}}}
	t.cut.Seed = v.seed
	cutText(&t.cut.CutText, text)
	t.searchText(0)
	for _, f := range t.found {
		found = append(found, f.phrase)
	}
	return found
}

// phrasesOf says whose phrases a lookup looks for.
type phrasesOf struct {
	view *View // the user's, or that of a list
	kind int   // index of the kind in the View
}

// facet returns the facet of the kind.
func (o *phrasesOf) facet() Facet { return o.view.kinds[o.kind].facet }

// found is a phrase in a text.
type found struct {
	candidate int
	lookup    int    // index in lookups
	phrase    string // in canonical form
}

// texts looks for phrases in the texts of candidates. Its memory is reused.
type texts struct {
	cut     pages.PhraseSearch
	lookups []pages.PhraseLookup
	of      []phrasesOf    // for each of lookups
	found   []found        // by candidate
	known   map[found]bool // has what is in found
	cutOff  bool           // some text is longer than MaxText
}

// prepare prepares the search for the phrases of a View. If there are none, as for nearly all
// users, nothing is looked at.
func (t *texts) prepare(v *View) {
	t.cut.Seed = v.seed
	for i := range v.kinds {
		l := &v.kinds[i]
		if l.phrases != nil && l.page != nil {
			t.lookups = append(t.lookups, pages.PhraseLookup{Phrases: *l.phrases, Page: l.page})
			t.of = append(t.of, phrasesOf{v, i})
		}
	}
}

// reset forgets everything but the memory.
func (t *texts) reset() {
	if len(t.lookups) > 0 {
		t.cut.Forget()
	}
	clear(t.lookups)
	clear(t.of)
	clear(t.found)
	clear(t.known)
	t.lookups, t.of, t.found, t.cutOff = t.lookups[:0], t.of[:0], t.found[:0], false
}

// search looks for phrases among the ids of the candidates from to until-1, and in their texts.
func (t *texts) search(c Candidates, from, until int) {
	if len(t.lookups) == 0 {
		return
	}
	for n := from; n < until; n++ {
		for i := range t.of {
			facet := t.of[i].facet()
			earlier := func(o phrasesOf) bool { return o.facet() == facet }
			if slices.ContainsFunc(t.of[:i], earlier) {
				continue
			}
			_, ids := c.IDs(n, facet)
			for _, id := range ids {
				t.searchID(n, facet, id)
			}
		}
		if text := c.Text(n); text != "" {
			t.cutOff = !cutText(&t.cut.CutText, text) || t.cutOff
			t.searchText(n)
		}
	}
}

// cutText cuts a text, and reports whether kinds look at all of it: see [textStart]. The last unit
// of one that is longer may be cut, so they do not look at it.
func cutText(to *pages.CutText, text string) (whole bool) {
	start, whole := textStart(text)
	to.Cut(start)
	if to.End = to.Units(); !whole {
		to.End--
	}
	return whole
}

// searchID looks for an id of a facet, which is one phrase as a whole.
func (t *texts) searchID(candidate int, facet Facet, id string) {
	t.cut.Cut(id)
	units := t.cut.Units()
	phrase := t.cut.Phrase(0, units)
	if phrase == nil {
		return // nobody can record it
	}
	hash := favfilter.HashKeyBytes(t.cut.Seed, phrase)
	for i := range t.lookups {
		if t.of[i].facet() == facet && t.lookups[i].Has(hash) {
			t.note(candidate, i, 0, units)
		}
	}
}

// searchText looks for phrases in the text that is cut, which is that of a candidate.
func (t *texts) searchText(candidate int) {
	for at := range t.cut.End {
		t.cut.Find(t.lookups, at, func(lookup, n int) { t.note(candidate, lookup, at, n) })
	}
}

// note notes a phrase, once for each candidate and lookup.
func (t *texts) note(candidate, lookup, at, n int) {
	f := found{candidate, lookup, string(t.cut.Phrase(at, n))}
	if t.known[f] {
		return
	}
	if t.known == nil {
		t.known = make(map[found]bool)
	}
	t.known[f] = true
	t.found = append(t.found, f)
}

// markFound sets on[i] if one of the first kinds has a phrase in the text of candidate from+i.
func (t *texts) markFound(on []bool, from, deciding int) {
	for i := range t.found {
		f := &t.found[i]
		if t.of[f.lookup].kind < deciding {
			on[f.candidate-from] = true
		}
	}
}

// cutFound cuts what is found on a candidate off the front of rest, which is found. Candidates are
// given in their order.
func cutFound(rest []found, candidate int) (of, after []found) {
	from := 0
	for from < len(rest) && rest[from].candidate < candidate {
		from++
	}
	until := from
	for until < len(rest) && rest[until].candidate == candidate {
		until++
	}
	return rest[from:until], rest[until:]
}

// appendHits appends a hit for each phrase that is found for a kind of a View, among those on a
// candidate. like has what they have in common.
func (t *texts) appendHits(hits []Hit, of []found, v *View, kind int, like Hit) []Hit {
	for i := range of {
		if o := t.of[of[i].lookup]; o.view == v && o.kind == kind {
			like.ID, like.Place = of[i].phrase, -1
			hits = append(hits, like)
		}
	}
	return hits
}

// CutOff returns the kinds that did not look at all of a text, because Find met one of more than
// [MaxText] bytes.
func (v *View) CutOff() (kinds []Degraded) {
	for i := range v.kinds {
		if l := &v.kinds[i]; v.cutOff && l.phrases != nil {
			kinds = append(kinds, Degraded{Kind: l.kind.Name, Reason: cutOffReason})
		}
	}
	return kinds
}
