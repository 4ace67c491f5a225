package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	seenIDs   = 200 // posts that a user may have seen
	seenKept  = 32  // the model keeps so many of a user's newest
	seenLooks = 2   // maximum seen posts in a feed
)

// seenPosts are posts that were recorded as seen for one user, the newest last.
type seenPosts struct {
	ids []string
	at  map[string]time.Time // when the last recording was acknowledged
}

// seenLook is a candidate of a feed that the viewer has seen, and one that nobody has.
type seenLook struct {
	id, control string
	at          time.Time
}

// recordSeen records two posts as seen.
func (l *chaosLoad) recordSeen(ctx context.Context, g *target, rng *rand.Rand) {
	user := rng.IntN(len(l.model.users))
	posts := []string{fmt.Sprint("s", rng.IntN(seenIDs)), fmt.Sprint("s", rng.IntN(seenIDs))}
	sent := time.Now()
	r := g.send(ctx, http.MethodPost, "/v1/users/"+l.model.users[user]+"/seen", map[string][]string{"posts": posts})
	if l.answered(ctx, g, callSeen, r) {
		l.model.recorded(user, posts, sent)
	}
}

// recorded notes that a recording that was sent at that time is acknowledged.
func (m *chaosModel) recorded(user int, posts []string, sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen[user]
	for _, id := range posts {
		if _, known := s.at[id]; !known {
			s.ids = append(s.ids, id)
		}
		s.at[id] = sent
	}
	for len(s.ids) > seenKept {
		delete(s.at, s.ids[0])
		s.ids = s.ids[1:]
	}
}

// addSeen adds posts that the viewer has seen to a feed, each with a control. The caller holds the
// model's lock.
func (m *chaosModel) addSeen(f *chaosFeed, rng *rand.Rand) {
	s := m.seen[f.viewer]
	for _, n := range rng.Perm(len(s.ids))[:min(seenLooks, len(s.ids))] {
		l := seenLook{id: s.ids[n], control: "never-" + s.ids[n], at: s.at[s.ids[n]]}
		for _, id := range []string{l.id, l.control} {
			f.request.Posts = append(f.request.Posts, post{ID: id, Author: "author-of-" + id})
		}
		f.seen = append(f.seen, l)
	}
}

// judgeSeen checks that a feed drops what its viewer has seen. It counts how many of the posts that
// nobody has seen the feed drops.
func (l *chaosLoad) judgeSeen(g *target, f *chaosFeed, dropped reported, r reply) {
	for _, s := range f.seen {
		l.tally.count("seen looks", 1)
		l.model.exposeUnseen(f.viewer, s.control, dropped[s.control] != "")
		switch {
		case dropped[s.id] != "":
		case l.tally.mayForget(g.index, s.at, r.done), g.readsReplicas && f.sent.Sub(s.at) <= stalenessBound+boundSlack:
			l.tally.count("seen forgotten", 1)
		default:
			l.tally.violatedf("seen", "the %v at instance %d, sent %s, keeps %s, which was recorded as seen at %s",
				f, g.index, f.sent.Format(clock), s.id, s.at.Format(clock))
		}
	}
}

// unseenID identifies a candidate that nobody has seen in the feeds of one viewer.
type unseenID struct {
	viewer int
	id     string
}

// exposeUnseen counts a look at a candidate that nobody has seen.
func (m *chaosModel) exposeUnseen(viewer int, id string, dropped bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.unseen[unseenID{viewer, id}]
	e.looks++
	if dropped {
		e.dropped++
	}
	m.unseen[unseenID{viewer, id}] = e
}
