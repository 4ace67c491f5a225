package integration

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// fakeKey is an activity.
type fakeKey struct{ user, kind, target string }

// fakeChange is the last change of an activity.
type fakeChange struct {
	at    time.Time
	add   bool
	known uint // a bit for each instance that has acknowledged it
}

// fakeLedger is what all instances of a correct service in memory share: activities and windows.
// Its time is that of a synctest bubble.
type fakeLedger struct {
	mu   sync.Mutex
	last map[fakeKey]fakeChange
	seen map[fakeKey]bool
}

func newFakeLedger() *fakeLedger {
	return &fakeLedger{last: make(map[fakeKey]fakeChange), seen: make(map[fakeKey]bool)}
}

// has reports whether the ledger has an activity.
func (s *fakeLedger) has(k fakeKey) bool { return s.last[k].add }

// fakeInstance is one instance. It implements the part of the API that the load uses. A test
// injects a fault by wrapping one of its functions. All but wire are called under the ledger's
// lock.
type fakeInstance struct {
	ledger *fakeLedger
	index  int
	reader string // the user whose page a feed reads at present

	// write records or removes an activity, and reports whether that changed anything.
	write func(k fakeKey, add bool) (changed bool)
	// reads reports whether the pages that the instance reads for a feed have an activity.
	reads func(k fakeKey) bool
	// record records a post as seen, and sees reports whether the window of a user has one.
	record func(k fakeKey)
	sees   func(k fakeKey) bool
	// wire answers a request.
	wire http.Handler
}

// instance returns a correct instance.
func (s *fakeLedger) instance(index int) *fakeInstance {
	i := &fakeInstance{
		ledger: s, index: index, reads: s.has,
		record: func(k fakeKey) { s.seen[k] = true },
		sees:   func(k fakeKey) bool { return s.seen[k] },
	}
	i.write = func(k fakeKey, add bool) bool {
		c := s.last[k]
		changed := c.add != add
		if changed {
			c = fakeChange{at: time.Now(), add: add}
		}
		c.known |= 1 << index
		s.last[k] = c
		return changed
	}
	i.wire = http.HandlerFunc(i.serve)
	return i
}

// lag makes the instance learn of what others record, or undo, after that time only.
func (i *fakeInstance) lag(d time.Duration, add bool) {
	reads := i.reads
	i.reads = func(k fakeKey) bool {
		c, known := i.ledger.last[k]
		if known && c.add == add && c.known&(1<<i.index) == 0 && !c.at.IsZero() && time.Since(c.at) < d {
			return !add
		}
		return reads(k)
	}
}

// fakeDelay is the time of a call before it takes effect, and again after that.
const fakeDelay = 8 * time.Millisecond

// RoundTrip is the network between a client and the instance.
func (i *fakeInstance) RoundTrip(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if fault := recover(); fault == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			res, err = nil, errors.New("connection reset")
		} else if fault != nil {
			panic(fault)
		}
	}()
	time.Sleep(fakeDelay)
	answer := httptest.NewRecorder()
	i.wire.ServeHTTP(answer, r)
	time.Sleep(fakeDelay)
	return answer.Result(), nil
}

// serve answers a request.
func (i *fakeInstance) serve(w http.ResponseWriter, r *http.Request) {
	i.ledger.mu.Lock()
	defer i.ledger.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var answer any
	switch {
	case r.URL.Path == "/v1/feed/filter":
		answer = i.feed(decoded[feedRequest](r.Body))
	case r.URL.Path == "/v1/fanout/filter":
		answer = i.fanout(decoded[fanoutRequest](r.Body))
	case r.URL.Path == "/v1/feed/explain":
		answer = i.explain(decoded[explainRequest](r.Body))
	case r.URL.Path == "/v1/activities":
		answer = i.batch(decoded[map[string][]batchLine](r.Body)["activities"])
	case r.URL.Path == "/v1/ops/scrub":
		answer = map[string]bool{"running": false}
	case len(parts) == 5:
		answer = map[string]bool{"changed": i.write(fakeKey{parts[2], strings.TrimSuffix(parts[3], "s"), parts[4]}, r.Method == http.MethodPut)}
	case r.Method == http.MethodGet:
		answer = i.list(parts[2], strings.TrimSuffix(parts[3], "s"))
	default:
		for _, id := range decoded[map[string][]string](r.Body)["posts"] {
			i.record(fakeKey{parts[2], "seen", id})
		}
		answer = map[string]int{"recorded": 1}
	}
	encode(w, answer)
}

// decoded decodes JSON that the load or a fakeInstance wrote.
func decoded[T any](r io.Reader) (v T) {
	if err := json.NewDecoder(r).Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// encode writes an answer to a httptest.ResponseRecorder.
func encode(w io.Writer, answer any) {
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

func (i *fakeInstance) batch(lines []batchLine) any {
	results := []map[string]bool{}
	for _, line := range lines {
		results = append(results, map[string]bool{"changed": i.write(fakeKey{line.User, line.Kind, line.Target}, line.Op == "add")})
	}
	return map[string]any{"results": results}
}

func (i *fakeInstance) list(user, kind string) any {
	items := []map[string]string{}
	for k := range maps.Keys(i.ledger.last) {
		if k.user == user && k.kind == kind && i.ledger.has(k) {
			items = append(items, map[string]string{"target": k.target})
		}
	}
	return map[string]any{"items": items}
}

// fakeReason is an activity that pages have against a post or for it.
type fakeReason struct {
	fakeKey

	effect, direction, list string
}

// reasons returns what the pages have about a post and a viewer, kinds that drop first.
func (i *fakeInstance) reasons(viewer string, p post, lists []string) (found []fakeReason) {
	i.reader = viewer
	add := func(effect, direction, list string, k fakeKey) {
		if i.reads(k) {
			found = append(found, fakeReason{k, effect, direction, list})
		}
	}
	add("drop", "by_viewer", "", fakeKey{viewer, "block", p.Author})
	add("drop", "by_actor", "", fakeKey{p.Author, "block", viewer})
	for _, id := range append(slices.Clone(p.Related), p.ID) {
		add("drop", "by_viewer", "", fakeKey{viewer, "hide", id})
		for _, list := range lists {
			add("drop", "by_viewer", list, fakeKey{list, "hide", id})
		}
	}
	for _, domain := range p.Facets["domain"] {
		add("drop", "by_viewer", "", fakeKey{viewer, overruled, domain})
	}
	if _, after, ok := strings.Cut(p.Text, ": "); ok {
		phrase, _, _ := strings.Cut(after, " — ")
		add("drop", "by_viewer", "", fakeKey{viewer, "word-mute", strings.ToLower(phrase)})
	}
	for _, a := range p.Actors {
		if actor, ok := a.(map[string]any); ok {
			id, _ := actor["id"].(string)
			add("drop", "by_viewer", "", fakeKey{viewer, "repost-mute", id})
		}
	}
	add("keep", "by_viewer", "", fakeKey{viewer, "follow", p.Author})
	add("annotate", "by_viewer", "", fakeKey{viewer, "like", p.ID})
	return found
}

// keeps reports whether a reason keeps a post. The ledger confirms it.
func (i *fakeInstance) keeps(found []fakeReason) bool {
	return slices.ContainsFunc(found, func(r fakeReason) bool { return r.effect == "keep" && i.ledger.has(r.fakeKey) })
}

// decide returns the kind for which a feed drops a post, or "".
func (i *fakeInstance) decide(found []fakeReason, exact bool) string {
	keeps := i.keeps(found)
	for _, r := range found {
		overrules := keeps && r.kind == overruled
		if r.effect == "drop" && !overrules && (!exact || i.ledger.has(r.fakeKey)) {
			return r.kind
		}
	}
	return ""
}

func (i *fakeInstance) feed(q feedRequest) map[string]any {
	kept, dropped := []any{}, []any{}
	for _, p := range q.Posts {
		found := i.reasons(q.Viewer, p, q.Lists)
		kind := i.decide(found, q.Exact)
		if kind == "" && i.sees(fakeKey{q.Viewer, "seen", p.ID}) {
			kind = "seen"
		}
		if kind != "" {
			dropped = append(dropped, map[string]any{"id": p.ID, "kind": kind})
			continue
		}
		like := slices.ContainsFunc(found, func(r fakeReason) bool { return r.kind == "like" && (!q.Exact || i.ledger.has(r.fakeKey)) })
		kept = append(kept, map[string]any{"id": p.ID, "like": like})
	}
	return map[string]any{"posts": kept, "dropped": dropped, "degraded": []any{}}
}

func (i *fakeInstance) fanout(q fanoutRequest) map[string]any {
	dropped := []any{}
	for _, viewer := range q.Viewers {
		found := i.reasons(viewer, post{ID: "none", Author: q.Author, Facets: q.Facets, Text: q.Text}, nil)
		if kind := i.decide(found, q.Exact); kind != "" {
			dropped = append(dropped, map[string]any{"viewer": viewer, "kind": kind})
		}
	}
	return map[string]any{"dropped": dropped, "degraded": []any{}}
}

func (i *fakeInstance) explain(q explainRequest) map[string]any {
	found := i.reasons(q.Viewer, q.Post, q.Lists)
	keeps, reasons := i.keeps(found), []any{}
	for _, r := range found {
		by, certainty := "", "certain"
		if keeps && r.kind == overruled {
			by = "follow"
		}
		if !i.ledger.has(r.fakeKey) {
			certainty = "false"
		}
		reasons = append(reasons, map[string]any{
			"kind": r.kind, "effect": r.effect, "direction": r.direction, "certainty": certainty, "overruled_by": by, "list": r.list,
		})
	}
	dropped := i.decide(found, false) != ""
	if i.sees(fakeKey{q.Viewer, "seen", q.Post.ID}) {
		dropped = true
		reasons = append(reasons, map[string]any{"kind": "seen", "effect": "drop", "direction": "by_viewer", "certainty": "unconfirmed"})
	}
	return map[string]any{"dropped": dropped, "reasons": reasons, "degraded": []any{}}
}
