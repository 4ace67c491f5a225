package activity

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// Owner is whatever kinds target. A user and a domain of the same id are different owners.
type Owner struct {
	Facet Facet
	ID    string
}

// AudienceQuery asks what keeps a post from users.
type AudienceQuery struct {
	// Owners are whom the post is by, and what it has. There is at least one.
	Owners []Owner
	// Text is that of the post. The phrases that anybody has, and that are in it, are owners, too.
	Text  string
	Kinds []Kind
	// Deciding is the number of the first kinds that are a reason to keep the post from a user.
	Deciding int
	Users    []string
}

// Audience is the answer to an [AudienceQuery].
type Audience struct {
	// Hits are on users, which are the candidates. A hit has the id of the owner, and that owner's
	// index as its place; for a phrase in the text, -1.
	Hits []Hit
	// Degraded names the kinds that did not look at all of the post.
	Degraded []Degraded
}

// Audience looks for what keeps posts of the owners from users: two-way kinds, and what users did
// with the owners of kinds with Fanout. There are no hits of a kind that is neither, that targets
// another facet than the owner's, or that the ledger does not keep. Hits are as those of
// [View.Find]: on users on whom one of the first kinds is found, by user, kind and owner.
//
// Many requests need the owners' pages, so they are held in the process, see [Config.ListCache]. In
// one round trip for all of them, Audience asks the store whether they have changed. A text takes a
// page for each of its distinct words. Audience misses nothing that was acknowledged before, like
// View. Errors are as those of View.
func (r *reader) Audience(ctx context.Context, q AudienceQuery) (a Audience, err error) {
	t := r.newAudienceText(q)
	views, read := make([]*View, 0, len(q.Owners)), make([]uint64, 0, len(q.Owners)+len(t.heads))
	for _, owner := range q.Owners {
		v := r.audienceView(owner, q.Kinds)
		views = append(views, v)
		if v.ledger { // all are alike
			read = append(read, v.userHash)
		}
	}
	pagesOfOwners := len(read)
	read = append(read, t.heads...)
	answer, err := r.source.Read(ctx, pages.Query{Lists: read})
	if err != nil {
		return a, fmt.Errorf("read activities: %w", err)
	}
	for i, list := range answer.Lists[:pagesOfOwners] {
		views[i].takePage(list)
	}
	owners := slices.Clone(q.Owners)
	for _, in := range t.find(answer.Lists[pagesOfOwners:]) {
		v := r.audienceView(in.Owner, q.Kinds)
		v.takePage(in.page)
		views, owners = append(views, v), append(owners, in.Owner)
	}
	for _, v := range views {
		a.Degraded = appendDegraded(a.Degraded, v.Degraded...)
	}
	a.Degraded = appendDegraded(a.Degraded, t.degraded...)
	a.Hits = findUsers(q, views, owners)
	return a, nil
}

// appendDegraded appends what is not there yet.
func appendDegraded(to []Degraded, more ...Degraded) []Degraded {
	for _, d := range more {
		if !slices.Contains(to, d) {
			to = append(to, d)
		}
	}
	return to
}

// findUsers returns the hits on the users of a query. The views are of the owners.
func findUsers(q AudienceQuery, views []*View, owners []Owner) (hits []Hit) {
	v := views[0]
	s := v.newSearch()
	defer s.release(v)
	s.begin(User)
	for _, id := range q.Users {
		s.hashes.Add(id, nil)
	}
	s.end()
	for _, v := range views {
		s.test(v, q.Deciding)
	}
	for n, found := range s.found {
		if !found {
			continue
		}
		for i := range q.Kinds {
			for place, v := range views {
				m := v.kinds[i].match(s.hashes.all[n])
				if m == None {
					continue
				}
				h := Hit{Candidate: n, Kind: &q.Kinds[i], ID: owners[place].ID, Place: place, Match: m}
				if place >= len(q.Owners) {
					h.Place = -1
				}
				hits = append(hits, h)
			}
		}
	}
	return hits
}

// audienceView returns a View that looks for users who have the activities with the owner.
func (r *reader) audienceView(owner Owner, kinds []Kind) *View {
	v := r.newView(owner.ID, kinds)
	for i := range v.kinds {
		l := &v.kinds[i]
		l.facet, l.phrases = User, nil // phrases are owners here
		if l.kind.Reverse == "" || owner.Facet != User {
			l.sides = None // what the owner did is no reason for the other
		}
		if _, mirror, ok := l.kind.rows("", owner.ID); ok && l.kind.Target == owner.Facet {
			l.sides |= Reverse
			l.reverse = r.startOf(&mirror)
			v.userHash = r.ownerHash(l.kind, &mirror)
		}
	}
	return v
}

// audienceText is a text, in which those phrases are found that anybody has of some kinds.
type audienceText struct {
	cut      pages.PhraseSearch
	kinds    []*Kind
	lookups  []pages.PhraseLookup // of each kind, without a page
	heads    []uint64             // hashes that place the distinct heads of phrases in the text
	pageOf   map[uint64]int       // index in heads
	degraded []Degraded
}

// ownerInText is a phrase in a text, and the page of its head.
type ownerInText struct {
	Owner

	page pages.Answer
}

// newAudienceText cuts the text of a query.
func (r *reader) newAudienceText(q AudienceQuery) *audienceText {
	t := new(audienceText)
	t.cut.Seed = r.source.Identity().Seed
	for i := range q.Kinds {
		k := &q.Kinds[i]
		if mirror := k.Mirror(); k.InText() && mirror != "" {
			t.kinds = append(t.kinds, k)
			of := pages.PhrasesOf(t.cut.Seed, mirror, "", string(k.Target), r.weights[mirror])
			t.lookups = append(t.lookups, pages.PhraseLookup{Phrases: of})
		}
	}
	if len(t.kinds) == 0 || q.Text == "" {
		return t
	}
	if !cutText(&t.cut.CutText, q.Text) {
		for _, k := range t.kinds {
			t.degraded = append(t.degraded, Degraded{Kind: k.Name, Reason: cutOffReason})
		}
	}
	t.pageOf = make(map[uint64]int)
	for at := range t.cut.End {
		head, _, ok := t.cut.HeadAt(at)
		if _, known := t.pageOf[head.H1]; ok && !known {
			t.pageOf[head.H1] = len(t.heads)
			t.heads = append(t.heads, head.H1)
		}
	}
	return t
}

// find returns the phrases in the text that anybody has, each once, given the pages of the heads.
func (t *audienceText) find(answers []pages.Answer) (found []ownerInText) {
	known := make(map[Owner]bool)
	for at := range t.cut.End {
		head, _, ok := t.cut.HeadAt(at)
		if !ok {
			break
		}
		answer := answers[t.pageOf[head.H1]]
		switch {
		case answer.Page == nil:
			continue
		case answer.Page.Header().Shape.Uniform:
			for _, k := range t.kinds {
				t.degraded = appendDegraded(t.degraded, Degraded{Kind: k.Name, Reason: earlierFormat})
			}
			continue
		}
		for i := range t.lookups {
			t.lookups[i].Page = answer.Page
		}
		t.cut.Find(t.lookups, at, func(lookup, n int) {
			owner := Owner{Facet: t.kinds[lookup].Target, ID: string(t.cut.Phrase(at, n))}
			if !known[owner] {
				known[owner] = true
				found = append(found, ownerInText{owner, answer})
			}
		})
	}
	return found
}
