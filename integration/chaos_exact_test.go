package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// check makes a call that asks the ledger: an exact feed or fan-out, whose answer must equal the
// model, or an explanation of one post of a feed.
func (l *chaosLoad) check(ctx context.Context, g *target, rng *rand.Rand) {
	viewers := len(l.model.users) - len(chaosLists())
	switch rng.IntN(8) {
	case 0:
		f := l.model.newFanout(rng)
		f.exact, f.fanout.Exact = true, true
		l.ask(ctx, g, f, callExact)
	case 1, 2, 3:
		f := l.model.newFeed(rng.IntN(viewers), 1+rng.IntN(feedLooks), rng)
		f.exact, f.request.Exact = true, true
		l.ask(ctx, g, f, callExact)
	default:
		l.explain(ctx, g, l.model.newFeed(rng.IntN(viewers), 1, rng))
	}
}

// inexact returns what an exact feed reports of a candidate although the ledger does not have it. A
// window cannot be confirmed, so the kind seen may be a false positive.
func (l *look) inexact(dropped, liked reported) (wrong []violation) {
	kind, want := dropped[l.id], l.kind
	if want == "follow" {
		want = overruled
	}
	add := func(promise, id, because string) {
		wrong = append(wrong, violation{promise, fmt.Sprintf("it is exact, and reports %q as %s%s, but the ledger does not have that\n%s",
			id, dropped[id], liked[id], because)})
	}
	past := ""
	for _, k := range l.keys {
		past += k.past()
	}
	if c := l.control; dropped[c] != "" && dropped[c] != "seen" || liked[c] != "" {
		add("undone", c, past)
	}
	live := l.live[0] || l.live[1] && l.kind != "follow"
	switch {
	case kind == "seen", kind == "" && liked[l.id] == "":
	case !live:
		add("undone", l.id, past)
	case kind != "" && kind != want, liked[l.id] != "" && l.kind != "like":
		add("reason", l.id, past)
	}
	return wrong
}

// explainRequest is the body of POST /v1/feed/explain.
type explainRequest struct {
	Viewer string   `json:"viewer"`
	Post   post     `json:"post"`
	Lists  []string `json:"lists"`
}

// explanation is the answer of POST /v1/feed/explain.
type explanation struct {
	Dropped  bool           `json:"dropped"`
	Reasons  []reason       `json:"reasons"`
	Degraded []degradedKind `json:"degraded"`
}

type reason struct {
	Kind        string `json:"kind"`
	Effect      string `json:"effect"`
	Direction   string `json:"direction"`
	Certainty   string `json:"certainty"`
	OverruledBy string `json:"overruled_by"`
	List        string `json:"list"`
}

// explainTries is how often a feed and its explanation are asked for until they agree. A false
// positive may end between the two, with a rebuild of its page.
const explainTries = 3

// explain asks for a feed of one post and for its explanation. They must agree, and the explanation
// must be certain of what the model has, and of nothing else.
func (l *chaosLoad) explain(ctx context.Context, g *target, f *chaosFeed) {
	f.request.Posts, f.seen = f.request.Posts[:0], nil
	p, id := f.candidate(f.looks[0].kind, f.looks[0].target)
	f.request.Posts, f.looks[0].control = append(f.request.Posts, p), ""
	differs := ""
	for range explainTries {
		f.sent = time.Now()
		r := g.send(ctx, http.MethodPost, "/v1/feed/filter", f.request)
		l.tally.count(callFeed, 1)
		if !l.answered(ctx, g, callFeed, r) {
			return
		}
		l.judge(ctx, g, f, r)
		var shown feedAnswer
		if err := json.Unmarshal(r.body, &shown); err != nil {
			return // judge has recorded it
		}
		e := g.send(ctx, http.MethodPost, "/v1/feed/explain", explainRequest{f.request.Viewer, p, f.request.Lists})
		l.tally.count(callExplain, 1)
		if !l.answered(ctx, g, callExplain, e) {
			return
		}
		var why explanation
		if err := json.Unmarshal(e.body, &why); err != nil {
			l.tally.violatedf("answer", "an explanation: %v: %s", err, e.body)
			return
		}
		degraded := l.judgeDegraded(g, fmt.Sprintf("the explanation of %q for %s", id, f.request.Viewer), why.Degraded, e)
		if wrong := l.model.judgeExplanation(f, why, l.mayLackAt(g, e), e.by); wrong != "" {
			l.tally.violatedf("explain", "of %q for %s by instance %d, sent %s, answered %s: %s\n%s",
				id, f.request.Viewer, g.index, e.sent.Format(clock), e.done.Format(clock), wrong, e.body)
			return
		}
		if degraded["seen"] || len(shown.Degraded) > 0 || why.Dropped == (len(shown.Dropped) > 0) || !l.model.untouched(f) {
			return
		}
		differs = fmt.Sprintf("%q for %s at instance %d, answered %s: the feed says %s and the explanation %s",
			id, f.request.Viewer, g.index, e.done.Format(clock), r.body, e.body)
	}
	l.tally.violatedf("explain", "%s", differs)
}

// untouched reports whether no write of the keys of f began since the request was made.
func (m *chaosModel) untouched(f *chaosFeed) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f.looks[0].untouched()
}

// judgeExplanation compares an explanation with the model. It returns a description of a wrong one,
// or "".
func (m *chaosModel) judgeExplanation(f *chaosFeed, e explanation, mayLack lackFunc, by source) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &f.looks[0]
	dropped := slices.ContainsFunc(e.Reasons, func(r reason) bool { return r.Effect == "drop" && r.OverruledBy == "" })
	if dropped != e.Dropped {
		return fmt.Sprintf("dropped is %v, and the reasons say %v", e.Dropped, dropped)
	}
	if !l.untouched() {
		return ""
	}
	certain := 0
	for _, r := range e.Reasons {
		if r.Certainty == "certain" {
			certain++
		}
	}
	lag, live := l.fresh(f.sent, by, mayLack), 0
	for i, k := range l.keys {
		if l.live[i] {
			live++
		}
		found := slices.IndexFunc(e.Reasons, func(r reason) bool { return k.explains(f, r) })
		switch {
		case l.live[i] && found < 0 && !lag:
			return fmt.Sprintf("it lacks %v\n%s", k, k.past())
		case found >= 0 && k.kind == overruled && l.kind == "follow" && l.live[1] && !lag && e.Reasons[found].OverruledBy != "follow":
			return fmt.Sprintf("%v does not overrule %v", l.keys[1], k)
		}
	}
	if certain > live {
		return fmt.Sprintf("it is certain of %d reasons, the ledger has %d", certain, live)
	}
	return ""
}

// explains reports whether a reason is certain that the key is live.
func (k *chaosKey) explains(f *chaosFeed, r reason) bool {
	owner, direction := f.request.Viewer, "by_viewer"
	switch {
	case slices.Contains(chaosLists(), k.user):
		owner = k.user
	case k.user != owner:
		direction = "by_actor"
	}
	list := ""
	if owner != f.request.Viewer {
		list = owner
	}
	return r.Certainty == "certain" && r.Kind == k.kind && r.Direction == direction && r.List == list
}
