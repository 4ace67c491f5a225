package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// lookSpec is one candidate of a viewer's feed. The feed must drop or annotate it while any of its
// keys is live. It has two keys if two users may block each other. A candidate of the kind "follow"
// must be dropped while the first of its two keys is live, and must be kept while both are.
type lookSpec struct {
	kind, target string
	keys         []*chaosKey
}

// look is a lookSpec in one feed request. It holds the state of the keys before the request.
type look struct {
	lookSpec
	versions [2]uint64 // of the keys
	live     [2]bool
	decided  bool // all keys are decided, and no write is in flight
	undos    int  // sum over the keys
	id       string
	control  string // the id of a candidate without activities; "": none
}

// wanted reports whether the candidate must be dropped or annotated.
func (l *look) wanted() bool {
	if l.kind == "follow" {
		return l.live[0] && !l.live[1]
	}
	return l.live[0] || l.live[1]
}

// chaosFeed is a feed request and its looks, or a fan-out: its looks have viewers for ids.
type chaosFeed struct {
	viewer  int
	request feedRequest
	fanout  *fanoutRequest // nil: a feed
	exact   bool           // the ledger confirms what it reports
	looks   []look
	seen    []seenLook
	sent    time.Time
}

// fanoutRequest is the body of POST /v1/fanout/filter.
type fanoutRequest struct {
	Author  string              `json:"author"`
	Facets  map[string][]string `json:"facets,omitempty"`
	Text    string              `json:"text,omitempty"`
	Viewers []string            `json:"viewers"`
	Exact   bool                `json:"exact,omitempty"`
}

// call returns the path and the body of the request.
func (f *chaosFeed) call() (path string, body any) {
	if f.fanout != nil {
		return "/v1/fanout/filter", f.fanout
	}
	return "/v1/feed/filter", f.request
}

// String returns whose feed or fan-out f is.
func (f *chaosFeed) String() string {
	if f.fanout != nil {
		return fmt.Sprintf("fan-out of %s %v %q", f.fanout.Author, f.fanout.Facets, f.fanout.Text)
	}
	return "feed of " + f.request.Viewer
}

// newFanout makes a request for a post that some of the users may not get. It is by one of them, or
// from a domain, or from a domain and by somebody whom users follow.
func (m *chaosModel) newFanout(rng *rand.Rand) *chaosFeed {
	users := m.users[:len(m.users)-len(chaosLists())]
	kind, target := "block", users[rng.IntN(len(users))]
	f := &chaosFeed{fanout: &fanoutRequest{Author: target, Viewers: users}}
	switch x := rng.IntN(4); x {
	case 1, 2:
		kind, target = "domain-mute", fmt.Sprintf("d%d", rng.IntN(keyFollow))
		f.fanout.Author, f.fanout.Facets = "author-of-"+target, map[string][]string{"domain": {target}}
		if x == 1 {
			kind, target = "follow", "f"+target[1:]
			f.fanout.Author = target
		}
	case 3:
		i := rng.IntN(keyWords)
		kind, target = "word-mute", m.own[0][slices.IndexFunc(m.own[0], func(k *chaosKey) bool { return k.kind == "word-mute" })+i].target
		f.fanout.Author, f.fanout.Text = "author-of-"+target, textOf(target)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for v, viewer := range users {
		for _, spec := range m.looks[v] {
			if spec.kind == kind && spec.target == target {
				l := lookOf(spec)
				l.id = viewer
				f.looks = append(f.looks, l)
			}
		}
	}
	f.sent = time.Now()
	return f
}

// lookOf returns a look with the present state of the keys. The caller holds the model's lock.
func lookOf(spec lookSpec) look {
	l := look{lookSpec: spec, decided: true}
	for i, k := range spec.keys {
		l.versions[i], l.live[i] = k.version, k.live && !k.undecided
		l.decided = l.decided && !k.undecided && !k.busy
		l.undos += k.undos
	}
	return l
}

// newFeed makes a request for a feed with up to size looks of the viewer, and records the states of
// their keys. Each undone key has a control. Every feed that asks for an undone key also asks for
// its control, so both are exposed to the same pages equally often. The control is the same in
// every absence of the key. A false positive depends on the other keys of the page and on the
// viewer's window; both last longer than an absence.
func (m *chaosModel) newFeed(viewer, size int, rng *rand.Rand) *chaosFeed {
	f := &chaosFeed{viewer: viewer, request: feedRequest{Viewer: m.users[viewer], Annotate: []string{"like"}, Lists: chaosLists()}}
	specs := m.looks[viewer]
	order := rng.Perm(len(specs))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range order[:min(size, len(order))] {
		f.add(specs[i])
	}
	m.addSeen(f, rng)
	rng.Shuffle(len(f.request.Posts), func(i, j int) {
		f.request.Posts[i], f.request.Posts[j] = f.request.Posts[j], f.request.Posts[i]
	})
	f.sent = time.Now()
	return f
}

// add adds one look to the request. The caller holds the model's lock.
func (f *chaosFeed) add(spec lookSpec) {
	l := lookOf(spec)
	var p post
	p, l.id = f.candidate(spec.kind, spec.target)
	f.request.Posts = append(f.request.Posts, p)
	if l.decided && l.live == [2]bool{} && l.undos > 0 && l.kind != "follow" {
		p, l.control = f.candidate(spec.kind, "never-"+spec.target)
		f.request.Posts = append(f.request.Posts, p)
	}
	f.looks = append(f.looks, l)
}

// textOf returns a text with the phrase, and with no other of the load. In that of a control, which
// begins with "never-", the first word differs.
func textOf(phrase string) string {
	return "Before, and then: " + strings.ReplaceAll(strings.ToUpper(phrase), "NEVER-", "never") + " — after."
}

// candidate returns a post that the service can drop only because of the target, and the post's id.
func (f *chaosFeed) candidate(kind, target string) (p post, id string) {
	switch kind {
	case "block":
		p = post{ID: "by-" + target, Author: target}
	case "domain-mute":
		p = post{ID: "from-" + target, Author: "author-of-" + target, Facets: map[string][]string{"domain": {target}}}
	case "word-mute":
		p = post{ID: "says-" + target, Author: "author-of-" + target, Text: textOf(target)}
	case "follow":
		p = post{ID: "kept-for-" + target, Author: target, Facets: map[string][]string{"domain": {"d" + target[1:]}}}
	case "repost-mute":
		p = post{ID: "reposted-by-" + target, Author: "author-of-" + target, Actors: []any{map[string]string{"id": target, "role": "repost"}}}
	default:
		p = post{ID: target, Author: "author-of-" + target}
		if kind == "hide" && strings.HasSuffix(target, "2") { // some as the original of a repost
			p.ID, p.Related = "repost-of-"+target, []string{target}
		}
	}
	return p, p.ID
}

// reported holds the ids of the candidates that a feed reports, each with the kind that reports it.
type reported map[string]string

// readFanout is read for a fan-out.
func (f *chaosFeed) readFanout(a feedAnswer) (dropped reported, wrong string) {
	dropped = reported{}
	for _, d := range a.Dropped {
		if d.Viewer == "" || d.Kind == "" || dropped[d.Viewer] != "" {
			return nil, fmt.Sprintf("viewer %q is dropped twice, or has no name, or is dropped for no kind", d.Viewer)
		}
		dropped[d.Viewer] = d.Kind
	}
	return dropped, ""
}

// read returns which candidates the answer drops, and which it annotates as liked. wrong describes
// an invalid answer; it is "" for a valid one.
func (f *chaosFeed) read(a feedAnswer) (dropped, liked reported, wrong string) {
	if f.fanout != nil {
		dropped, wrong = f.readFanout(a)
		return dropped, nil, wrong
	}
	dropped, liked = reported{}, reported{}
	for _, d := range a.Dropped {
		dropped[d.ID] = d.Kind
	}
	next := 0
	for _, p := range f.request.Posts {
		if dropped[p.ID] != "" {
			continue
		}
		if next == len(a.Posts) || a.Posts[next].ID != p.ID {
			return nil, nil, fmt.Sprintf("post %q is neither kept in its place nor dropped", p.ID)
		}
		if a.Posts[next].Like == nil {
			return nil, nil, fmt.Sprintf("post %q is not annotated", p.ID)
		}
		if *a.Posts[next].Like {
			liked[p.ID] = "like"
		}
		next++
	}
	if len(a.Posts)+len(a.Dropped) != len(f.request.Posts) {
		return nil, nil, fmt.Sprintf("%d kept and %d dropped of %d", len(a.Posts), len(a.Dropped), len(f.request.Posts))
	}
	return dropped, liked, ""
}

// missed is a live key that a feed did not report.
type missed struct {
	id     string // id of the candidate
	key    *chaosKey
	age    time.Duration // from the acknowledgement to the request
	same   bool          // the answering process itself acknowledged the write
	late   bool          // the miss is within the promise of the service
	again  bool          // an earlier miss of the key has been described
	detail string
}

// lackFunc reports whether another process than the one that acknowledged a write at that time may
// lack it.
type lackFunc func(acknowledged time.Time) bool

// judgement is the result of one feed.
type judgement struct {
	looks    int // candidates judged
	missed   []missed
	lateUndo int // reported, but another instance may have undone the key within the bound
	wrong    []violation
}

// violation is a broken promise, and a description.
type violation struct{ promise, text string }

// judge compares an answer with the states of the keys when the feed was sent. It skips keys that
// were written since. keeps is false if the kind that keeps is degraded. mayLack reports whether
// another process than the one that acknowledged a write at that time may lack it for the
// staleness bound.
func (m *chaosModel) judge(
	f *chaosFeed, dropped, liked reported, keeps bool, by source, mayLack lackFunc,
) judgement {
	m.mu.Lock()
	defer m.mu.Unlock()
	var j judgement
	for i := range f.looks {
		l := &f.looks[i]
		if !l.untouched() {
			continue
		}
		hit, control := dropped[l.id] != "", dropped[l.control] != ""
		if l.kind == "like" {
			hit, control = hit || liked[l.id] != "", control || liked[l.control] != ""
		}
		j.looks++
		live := l.wanted()
		switch {
		case live && !hit:
			j.missed = append(j.missed, l.miss(f, by, mayLack))
		case l.kind == "follow" && l.live[1] && dropped[l.id] == overruled && keeps && !l.fresh(f.sent, by, mayLack):
			j.wrong = append(j.wrong, violation{"vanished", fmt.Sprintf("it drops %q, although %v is live\n%s", l.id, l.keys[1], l.keys[1].past())})
		case f.exact:
			j.wrong = append(j.wrong, l.inexact(dropped, liked)...)
		case l.kind == "follow" && l.live[1] && dropped[l.id] != overruled:
			m.exposeKept(l, hit)
		case !live && l.control != "" && !l.fresh(f.sent, by, mayLack):
			m.expose(f.viewer, l, hit, control)
		case !live && l.control != "" && hit:
			j.lateUndo++
		}
	}
	return j
}

// untouched reports whether all keys were decided before the request, and no write of them began
// since.
func (l *look) untouched() bool {
	if !l.decided {
		return false
	}
	for i, k := range l.keys {
		if k.version != l.versions[i] {
			return false
		}
	}
	return true
}

// acknowledged reports whether that process itself acknowledged the key's present state.
func (k *chaosKey) acknowledged(by source) bool {
	life, ok := k.acks[by.instance]
	return ok && life == by.life
}

// fresh reports whether that process may still be unaware of the key's present state in a feed that
// was sent at that time.
func (k *chaosKey) fresh(sent time.Time, by source, mayLack lackFunc) bool {
	return !k.acknowledged(by) && sent.Sub(k.since) <= stalenessBound+boundSlack && mayLack(k.since)
}

// fresh reports whether one of the keys is.
func (l *look) fresh(sent time.Time, by source, mayLack lackFunc) bool {
	return slices.ContainsFunc(l.keys, func(k *chaosKey) bool { return k.fresh(sent, by, mayLack) })
}

// miss describes the live key that was acknowledged first.
func (l *look) miss(f *chaosFeed, by source, mayLack lackFunc) missed {
	x := missed{id: l.id, late: true}
	detail := ""
	for i, k := range l.keys {
		detail += k.past()
		if !l.live[i] {
			continue
		}
		x.same = x.same || k.acknowledged(by)
		x.late = x.late && k.fresh(f.sent, by, mayLack)
		if age := f.sent.Sub(k.since); x.key == nil || age > x.age {
			x.key, x.age = k, age
		}
	}
	if x.late {
		return x
	}
	x.again, x.key.missed = x.key.missed, true
	x.detail = fmt.Sprintf("the %v, sent %s and answered by %d.%d, keeps %q: %v is live for %v (this instance acknowledged it: %v)\n%s",
		f, f.sent.Format(clock), by.instance, by.life, l.id, x.key, x.age.Round(time.Millisecond), x.same, detail)
	return x
}
