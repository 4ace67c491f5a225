package integration

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// flaw is a service that is correct but for one thing.
type flaw struct {
	name   string
	during string                // the fault that is present meanwhile, at the first instance; "": none
	inject func(i *fakeInstance) // is called for each instance
	want   string                // the broken promise; "": none, the service is as correct as promised
	also   string                // promises that it breaks besides

	because  string // why feeds are refused, by the log; "": somebody left page 0, which is true
	uses     string // a count of what a grant excuses, which the service makes use of
	replicas bool   // feeds read replicas
}

// TestLongChaosFindsFaults puts the load on a correct service in memory, and on ones with one fault
// each. The load must name each fault, and find none where the service keeps its promises.
//
// Each fault applies to each n-th call of its kind, and the load makes thousands. Time is that of a
// synctest bubble, so no result depends on the machine.
func TestLongChaosFindsFaults(t *testing.T) {
	for _, f := range slices.Concat(promised(), wrongWrites(), wrongFeeds(), wrongAnswers(), unexplained()) {
		name := f.name
		if f.during != "" {
			name += " while " + f.during
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f.judged(t) })
		})
	}
}

// The load of a flaw: rounds follow until the flaw was found, or its grant was used.
const (
	flawUsers  = 8
	flawFeeds  = 100 // a second, with checks
	flawTime   = 3 * time.Second
	flawRounds = 12
)

// What the log says of a feed that was refused for its page.
const (
	leftPage   = "somebody left page %d, or it was replaced, since the last poll, 3s ago"
	lacksWrite = "page %d is behind at 1, and 2 is required"
)

// pageOf returns the page of a user in the first layout of a filter with the seed 0.
func pageOf(user string) uint32 {
	return ledger.Identity{Pages: chaosPages}.PageIn(chaosPages, pages.UserHash(0, user))
}

// judged checks what the load finds.
func (f flaw) judged(t *testing.T) {
	t.Helper()
	ledger := newFakeLedger()
	l := &chaosLoad{
		model: newChaosModel(flawUsers, 7), tally: newTally(grants(oneRedis, true)), seed: 7, writers: loadWriters,
		pace: rate.NewLimiter(flawFeeds, 1), excuses: newExcuses(),
	}
	var flawed [2]*fakeInstance
	for n := range flawed {
		flawed[n] = ledger.instance(n)
		if f.inject != nil {
			f.inject(flawed[n])
		}
		g := newTarget(n, "http://fake")
		// It is found for each request without an id.
		g.log.add([]byte(cmp.Or(f.because, fmt.Sprintf(leftPage, 0))))
		g.readsReplicas = f.replicas
		l.targets = append(l.targets, g)
	}
	for l.seed < 7+flawRounds {
		for n, g := range l.targets {
			g.client = &http.Client{Transport: flawed[n]}
		}
		f.round(t, l, ledger)
		l.seed++
		found, _ := l.tally.violations()
		if (f.want == "" || found[f.want] > 0) && (f.uses == "" || l.tally.of(f.uses) > 0) {
			break
		}
	}
	f.conclude(t, l)
}

// round puts load on the instances once.
func (f flaw) round(t *testing.T, l *chaosLoad, ledger *fakeLedger) {
	t.Helper()
	if f.during != "" {
		l.tally.begin(f.during, 0)
	}
	loaded, cancel := context.WithTimeout(t.Context(), flawTime)
	defer cancel()
	l.run(loaded)
	if f.during != "" { // the fault ends, and what the service did of it
		for n, g := range l.targets {
			g.client.Transport = ledger.instance(n)
		}
		l.tally.healed()
		l.tally.repaired()
	}
	l.checkAtRest(t.Context())
	l.checkRates()
	l.excuses.note(map[uint32]uint64{0: l.seed}, nil)
	l.checkExcuses()
}

// conclude compares what was found with what is wrong.
func (f flaw) conclude(t *testing.T, l *chaosLoad) {
	t.Helper()
	found, messages := l.tally.violations()
	t.Logf("%d rounds, %d feeds, %d exact, %d explained, %d acknowledged, %d late, %d keys reported in more absences, %d in fewer: found %v",
		l.seed-7, l.tally.of(callFeed), l.tally.of(callExact), l.tally.of(callExplain), l.tally.of("acknowledged"), l.tally.of("late"),
		l.model.rates().UndoneMore, l.model.rates().ControlMore, found)
	if f.uses != "" && l.tally.of(f.uses) == 0 {
		t.Errorf("nothing was excused: no %s", f.uses)
	}
	allowed := append(strings.Fields(f.also), f.want)
	wrong := f.want != "" && found[f.want] == 0
	for promise := range maps.Keys(found) {
		wrong = wrong || !slices.Contains(allowed, promise)
	}
	if wrong {
		t.Errorf("found %v, want %q, and maybe %q\n%s", found, f.want, f.also, strings.Join(messages[:min(len(messages), 12)], "\n"))
	}
	for what, least := range map[string]int{callFeed: 150, callExact: 20, callExplain: 20, "acknowledged": 500, "seen looks": 50} {
		if n := l.tally.of(what); n < least && f.during == "" && f.want == "" {
			t.Errorf("%d %s, want at least %d", n, what, least)
		}
	}
}

// nth returns a function that reports true at each n-th call.
func nth(n int) func() bool {
	calls := 0
	return func() bool {
		calls++
		return calls%n == 0
	}
}

// requests reports whether a request is of that sort, as the load counts them.
func requests(r *http.Request, what string) bool {
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/feed/filter"), r.URL.Path == "/v1/fanout/filter":
		exact := strings.Contains(peek(r), `"exact":true`)
		return what == callExact && exact || what == callFeed && !exact
	case r.URL.Path == "/v1/feed/explain":
		return what == callExplain
	case r.URL.Path == "/v1/activities":
		return what == callBatch
	case r.Method == http.MethodPost:
		return what == callSeen
	case r.Method == http.MethodPut, r.Method == http.MethodDelete:
		return what == callWrite
	}
	return false
}

// peek returns the body of a request, which can be read again.
func peek(r *http.Request) string {
	if r.Body == nil {
		return ""
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body)
}

// onCall answers each n-th request of that sort in another way.
func onCall(what string, n int, answer func(w http.ResponseWriter, r *http.Request, next http.Handler)) func(*fakeInstance) {
	return func(i *fakeInstance) {
		due, next := nth(n), i.wire
		i.wire = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i.ledger.mu.Lock()
			now := requests(r, what) && due()
			i.ledger.mu.Unlock()
			if now {
				answer(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// refused answers each n-th request of that sort with 503.
func refused(what string, n int) func(*fakeInstance) {
	return onCall(what, n, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { refuse(w) })
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "busy", http.StatusServiceUnavailable)
}

// changedAnswers changes each n-th answer of that sort.
func changedAnswers(what string, n int, change func(q, answer map[string]any)) func(*fakeInstance) {
	return onCall(what, n, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		q := decoded[map[string]any](strings.NewReader(cmp.Or(peek(r), "{}")))
		right := httptest.NewRecorder()
		next.ServeHTTP(right, r)
		answer := decoded[map[string]any](right.Body)
		change(q, answer)
		encode(w, answer)
	})
}

// degrades names a kind as degraded in each n-th feed and explanation, that many times.
func degrades(kind string, n, times int) func(*fakeInstance) {
	name := func(_, answer map[string]any) {
		degraded := []any{}
		for range times {
			degraded = append(degraded, map[string]string{"kind": kind, "reason": "it is"})
		}
		answer["degraded"] = degraded
	}
	return together(changedAnswers(callFeed, n, name), changedAnswers(callExact, n, name), changedAnswers(callExplain, n, name))
}

// atFirst injects a fault into the first instance, which is the one that a fault of the world
// disturbs; atSecond into the other.
func atFirst(inject func(*fakeInstance)) func(*fakeInstance)  { return at(0, inject) }
func atSecond(inject func(*fakeInstance)) func(*fakeInstance) { return at(1, inject) }

func at(index int, inject func(*fakeInstance)) func(*fakeInstance) {
	return func(i *fakeInstance) {
		if i.index == index {
			inject(i)
		}
	}
}

func together(all ...func(*fakeInstance)) func(*fakeInstance) {
	return func(i *fakeInstance) {
		for _, inject := range all {
			inject(i)
		}
	}
}

// blind reads no window, as without Redis. It tells if named.
func blind(named bool) func(*fakeInstance) {
	return func(i *fakeInstance) {
		i.sees = func(fakeKey) bool { return false }
		if named {
			degrades("seen", 1, 1)(i)
		}
	}
}

// undecided lets no kind keep a post, as without the ledger. It tells if named.
func undecided(named bool) func(*fakeInstance) {
	return func(i *fakeInstance) {
		reads := i.reads
		i.reads = func(k fakeKey) bool { return k.kind != "follow" && reads(k) }
		if named {
			degrades("follow", 1, 1)(i)
		}
	}
}

// learnsIn learns of what another instance records or undoes after that time.
func learnsIn(d time.Duration) func(*fakeInstance) {
	return func(i *fakeInstance) { i.lag(d, true); i.lag(d, false) }
}

// forgets loses what was seen.
func forgets(i *fakeInstance) {
	record, due := i.record, nth(5)
	i.record = func(k fakeKey) {
		record(k)
		if due() {
			clear(i.ledger.seen)
		}
	}
}

// appliesLater refuses each n-th write, which takes effect a little later.
func appliesLater(n int) func(*fakeInstance) {
	return onCall(callWrite, n, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		again := r.Clone(context.WithoutCancel(r.Context()))
		go func() {
			time.Sleep(300 * time.Millisecond)
			next.ServeHTTP(httptest.NewRecorder(), again)
		}()
		refuse(w)
	})
}

const withinBound, beyondBound = 900 * time.Millisecond, 1500 * time.Millisecond

// promised are services that do only what docs/RELIABILITY.md says of a fault, or of none.
func promised() []flaw {
	return []flaw{
		{name: "does all"},
		{name: "refuses writes that take effect later", during: "postgres killed", inject: appliesLater(20), uses: "undecided"},
		{name: "refuses writes", during: "postgres stopped", inject: refused(callWrite, 20), uses: "writes 503, postgres stopped"},
		{name: "refuses batches", during: "postgres stopped", inject: refused(callBatch, 20), uses: "batches 503, postgres stopped"},
		{name: "refuses exact feeds", during: "postgres killed", inject: refused(callExact, 5), uses: "exact feeds 503, postgres killed"},
		{name: "refuses explanations", during: "postgres killed", inject: refused(callExplain, 5), uses: "explanations 503, postgres killed"},
		{name: "refuses some feeds after moves", during: "postgres killed", inject: atFirst(refused(callFeed, 120)), uses: excusedFeeds},
		{
			name: "refuses some feeds of a page that lacks a write", during: "postgres killed", uses: excusedFeeds,
			because: fmt.Sprintf(lacksWrite, pageOf(newChaosModel(flawUsers, 7).users[0])),
			inject:  together(refused(callWrite, 1), atFirst(refused(callFeed, 120))),
		},
		{
			name: "degrades what keeps", during: "postgres killed", uses: "follow degraded",
			inject: together(undecided(true), refused(callExplain, 1), refused(callExact, 1)),
		},
		{name: "refuses to record what was seen", during: "redis stopped", inject: refused(callSeen, 5), uses: "seen 503, redis stopped"},
		{name: "degrades seen", during: "redis stopped", inject: blind(true), uses: "seen degraded"},
		{name: "forgets what was seen", during: "redis flushed", inject: forgets, uses: "seen forgotten"},
		{name: "learns within the bound", during: "redis flushed", inject: learnsIn(withinBound), uses: "late"},
		{name: "refuses feeds", during: "redis killed and then postgres", inject: refused(callFeed, 9), uses: "feeds 503, redis killed and then postgres"},
		{name: "refuses writes at one", during: "postgres cut off from one", inject: atFirst(refused(callWrite, 20)), uses: "writes 503, postgres cut off from one"},
	}
}

// unexplained are services that do the same without that fault, or beyond what it explains.
func unexplained() []flaw {
	return []flaw{
		{name: "refuses writes", inject: refused(callWrite, 50), want: "refused", also: "rest"},
		{name: "refuses writes", during: "redis stopped", inject: refused(callWrite, 50), want: "refused", also: "rest"},
		{name: "refuses batches", inject: refused(callBatch, 20), want: "refused", also: "rest"},
		{name: "refuses writes at another instance", during: "postgres cut off from one", inject: atSecond(refused(callWrite, 20)), want: "refused", also: "rest"},
		{name: "refuses feeds", inject: refused(callFeed, 20), want: "refused", also: "rest"},
		{name: "refuses feeds", during: "redis killed", inject: refused(callFeed, 20), want: "refused", also: "rest"},
		{name: "refuses feeds of a page that nobody left", during: "postgres killed", inject: atFirst(refused(callFeed, 20)), because: fmt.Sprintf(leftPage, 1), want: "refused", also: "rest"},
		{
			name: "refuses feeds of a page that lacks no write", during: "postgres killed", want: "refused", also: "rest",
			because: fmt.Sprintf(lacksWrite, ledger.DedicatedPages), inject: together(refused(callWrite, 1), atFirst(refused(callFeed, 20))),
		},
		{name: "refuses feeds of a moved page without a cause", during: "redis killed", inject: refused(callFeed, 20), want: "refused", also: "rest"},
		{name: "refuses exact feeds", during: "redis killed", inject: refused(callExact, 5), want: "refused", also: "rest"},
		{name: "refuses explanations", inject: refused(callExplain, 5), want: "refused", also: "rest"},
		{name: "refuses to record what was seen", during: "postgres killed", inject: refused(callSeen, 5), want: "refused", also: "rest"},
		{name: "degrades what keeps", inject: undecided(true), want: "degraded", also: "rest explain vanished"},
		{name: "degrades what keeps", during: "redis killed", inject: undecided(true), want: "degraded", also: "rest explain vanished"},
		{name: "degrades seen", inject: degrades("seen", 20, 1), want: "degraded", also: "rest explain vanished"},
		{name: "degrades seen", during: "postgres killed", inject: degrades("seen", 20, 1), want: "degraded", also: "rest explain vanished"},
		{name: "degrades seen at another instance", during: "network cut", inject: atSecond(blind(true)), want: "degraded", also: "seen rest"},
		{name: "degrades blocks", during: "redis killed and then postgres", inject: degrades("block", 20, 1), want: "degraded", also: "rest explain vanished"},
		{name: "names a degraded kind twice", during: "redis killed", inject: degrades("seen", 20, 2), want: "degraded", also: "rest explain vanished"},
		{name: "leaves what keeps out of degraded", during: "postgres killed", inject: undecided(false), want: "vanished", also: "explain"},
		{name: "leaves seen out of degraded", during: "network cut", inject: atFirst(blind(false)), want: "seen"},
		{name: "forgets what was seen", inject: forgets, want: "seen"},
		{name: "forgets what was seen", during: "bits deleted", inject: forgets, want: "seen"},
		{name: "learns within the bound", inject: learnsIn(withinBound), want: "lost", also: "undone vanished explain"},
		{name: "learns within the bound", during: "redis stopped", inject: learnsIn(withinBound), want: "lost", also: "undone vanished explain"},
		{name: "learns within the bound", during: "bits deleted", inject: learnsIn(withinBound), want: "lost", also: "undone vanished explain"},
		{name: "learns within the bound", during: "regions deleted", inject: learnsIn(withinBound), want: "lost", also: "undone vanished explain"},
		{name: "holds a page too long", during: "redis flushed", inject: learnsIn(beyondBound), want: "lost", also: "undone vanished explain"},
		{name: "holds a page without an undo too long", during: "redis flushed", inject: func(i *fakeInstance) { i.lag(beyondBound, false) }, want: "undone", also: "lost"},
	}
}

// wrongWrites are services that acknowledge what they do not do.
func wrongWrites() []flaw {
	return []flaw{
		{name: "loses writes", want: "lost", also: "rest changed explain vanished", inject: ledgerLoses(10, true)},
		{name: "loses undos", want: "undone", also: "rest changed explain lost vanished", inject: ledgerLoses(10, false)},
		{name: "takes undos back", want: "rest", also: "undone changed explain lost vanished", inject: undoesLater(10)},
		{name: "takes undos back at a restart", want: "undone", also: "rest changed explain lost vanished", inject: comesBack},
		{name: "loses writes of one side of a block in a page", want: "lost", also: "explain", inject: pageLoses(func(k fakeKey, by string) bool {
			return k.kind == "block" && by != k.user && strings.HasSuffix(k.target, "3")
		})},
		{name: "loses undos in a page", want: "undone", also: "explain", inject: pageKeeps(3)},
		{name: "acknowledges before it records", want: "lost", also: "undone changed explain vanished rest", inject: recordsLater},
		{name: "records half of a batch", want: "lost", also: "undone rest changed explain vanished", inject: halfBatches},
		{name: "says changed", want: "changed", inject: changedAnswers(callWrite, 100, func(_, answer map[string]any) { answer["changed"] = answer["changed"] != true })},
		{name: "answers a batch in another order", want: "changed", inject: changedAnswers(callBatch, 1, func(_, answer map[string]any) {
			results, _ := answer["results"].([]any)
			slices.Reverse(results)
		})},
		{name: "does not record what was seen", want: "seen", inject: func(i *fakeInstance) {
			record, due := i.record, nth(10)
			i.record = func(k fakeKey) {
				if !due() {
					record(k)
				}
			}
		}},
	}
}

// ledgerLoses acknowledges each n-th recording, or undo, that changes something, and does nothing.
func ledgerLoses(n int, add bool) func(*fakeInstance) {
	return func(i *fakeInstance) {
		write, due := i.write, nth(n)
		i.write = func(k fakeKey, adds bool) bool {
			if adds == add && i.ledger.has(k) != add && due() {
				return true
			}
			return write(k, adds)
		}
	}
}

// undoesLater lets each n-th undone activity come back after 100 of the instance's writes.
func undoesLater(n int) func(*fakeInstance) {
	return func(i *fakeInstance) {
		write, due, later := i.write, nth(n), []fakeKey(nil)
		i.write = func(k fakeKey, add bool) bool {
			changed := write(k, add)
			if changed && !add && due() {
				if later = append(later, k); len(later) > 10 {
					write(later[0], true)
					later = later[1:]
				}
			}
			return changed
		}
	}
}

// comesBack has all undone activities once, in the middle of the load. A service that starts from
// an old copy of its ledger does that.
func comesBack(i *fakeInstance) {
	write, due := i.write, nth(200)
	i.write = func(k fakeKey, add bool) bool {
		if i.index == 0 && due() {
			for undone, c := range maps.All(i.ledger.last) {
				if undone != k && !c.add {
					i.ledger.last[undone] = fakeChange{at: c.at, add: true}
				}
			}
		}
		return write(k, add)
	}
}

// pageKeeps leaves each n-th undone activity in the pages.
func pageKeeps(n int) func(*fakeInstance) {
	kept := make(map[fakeKey]bool) // by all instances
	return func(i *fakeInstance) {
		write, reads, due := i.write, i.reads, nth(n)
		i.write = func(k fakeKey, add bool) bool {
			changed := write(k, add)
			if changed && !add && due() {
				kept[k] = true
			}
			return changed
		}
		i.reads = func(k fakeKey) bool { return kept[k] || reads(k) }
	}
}

// pageLoses lacks activities in pages that a user reads.
func pageLoses(lost func(k fakeKey, reader string) bool) func(*fakeInstance) {
	return func(i *fakeInstance) {
		reads := i.reads
		i.reads = func(k fakeKey) bool { return reads(k) && !lost(k, i.reader) }
	}
}

// recordsLater acknowledges each tenth write 20 ms before it records it.
func recordsLater(i *fakeInstance) {
	write, due := i.write, nth(10)
	i.write = func(k fakeKey, add bool) bool {
		if due() {
			go func() {
				time.Sleep(20 * time.Millisecond)
				i.ledger.mu.Lock()
				defer i.ledger.mu.Unlock()
				write(k, add)
			}()
			return i.ledger.has(k) != add
		}
		return write(k, add)
	}
}

// halfBatches records only the first half of each third batch.
func halfBatches(i *fakeInstance) {
	onCall(callBatch, 3, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		lines := decoded[map[string][]batchLine](r.Body)["activities"]
		i.ledger.mu.Lock()
		defer i.ledger.mu.Unlock()
		i.batch(lines[:len(lines)/2])
		results := []map[string]bool{}
		for _, line := range lines {
			results = append(results, map[string]bool{"changed": i.ledger.has(fakeKey{line.User, line.Kind, line.Target}) != (line.Op == "add")})
		}
		encode(w, map[string]any{"results": results})
	})(i)
}

// wrongFeeds are services whose feeds, fan-outs or explanations do not apply what was recorded.
func wrongFeeds() []flaw {
	return []flaw{
		{name: "answers from the page of another user", want: "lost", also: "undone vanished seen explain reason", inject: otherViewer(10)},
		{name: "leaves lists out", want: "lost", also: "explain", inject: leaves(func(k fakeKey) bool { return slices.Contains(chaosLists(), k.user) })},
		{name: "leaves a kind out", want: "lost", also: "explain", inject: leaves(func(k fakeKey) bool { return k.kind == "repost-mute" })},
		{name: "annotates no likes", want: "lost", also: "explain", inject: leaves(func(k fakeKey) bool { return k.kind == "like" })},
		{name: "keeps nothing", want: "vanished", also: "explain", inject: undecided(false)},
		{name: "keeps everything", want: "lost", also: "explain", inject: func(i *fakeInstance) {
			reads := i.reads
			i.reads = func(k fakeKey) bool { return k.kind != overruled && reads(k) }
		}},
		{name: "leaves fan-outs out", want: "lost", inject: fanouts(1, func(answer map[string]any) { answer["dropped"] = []any{} })},
		{name: "leaves one viewer out of fan-outs", want: "lost", inject: fanouts(5, func(answer map[string]any) {
			if dropped, _ := answer["dropped"].([]any); len(dropped) > 0 {
				answer["dropped"] = dropped[1:]
			}
		})},
		{name: "drops what nobody has blocked", want: "undone", also: "explain reason", inject: falsePositives},
		{name: "confirms nothing", want: "undone", inject: together(pageKeeps(3), func(i *fakeInstance) {
			next := i.wire
			i.wire = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(peek(r), `"exact":true`, `"exact":false`)))
				next.ServeHTTP(w, r)
			})
		}), also: "explain"},
		{name: "confirms an undone hide", want: "undone", inject: changedAnswers(callExact, 2, func(_, answer map[string]any) { dropsFirst(answer, "h") })},
		{name: "confirms a hide of nobody", want: "undone", inject: changedAnswers(callExact, 2, func(_, answer map[string]any) { dropsFirst(answer, "never-h") })},
		{name: "names another kind", want: "reason", also: "vanished", inject: changedAnswers(callExact, 5, func(_, answer map[string]any) {
			dropped, _ := answer["dropped"].([]any)
			for _, d := range dropped {
				if one, _ := d.(map[string]any); one["kind"] == "block" {
					one["kind"] = "hide"
				}
			}
		})},
		{name: "sees what nobody has seen", want: "undone", also: "vanished explain", inject: func(i *fakeInstance) {
			sees := i.sees
			i.sees = func(k fakeKey) bool {
				return sees(k) || strings.HasSuffix(k.target, "7") && strings.HasPrefix(k.target, "never-s")
			}
		}},
		{name: "explains nothing", want: "explain", inject: changedAnswers(callExplain, 5, func(_, answer map[string]any) {
			answer["dropped"], answer["reasons"] = false, []any{}
		})},
		{name: "explains what is not there", want: "explain", inject: changedAnswers(callExplain, 5, func(_, answer map[string]any) {
			reasons, _ := answer["reasons"].([]any)
			answer["dropped"] = true
			answer["reasons"] = append(reasons, map[string]any{"kind": "hide", "effect": "drop", "list": "nobody", "certainty": "certain"})
		})},
		{name: "explains that a post is not dropped", want: "explain", inject: changedAnswers(callExplain, 5, func(_, answer map[string]any) {
			answer["dropped"] = answer["dropped"] != true
		})},
		{name: "explains no false positives", want: "explain", also: "undone", inject: together(pageKeeps(1), changedAnswers(callExplain, 1, func(_, answer map[string]any) {
			reasons, _ := answer["reasons"].([]any)
			reasons = slices.DeleteFunc(reasons, func(r any) bool { one, _ := r.(map[string]any); return one["certainty"] == "false" })
			answer["reasons"] = reasons
			answer["dropped"] = slices.ContainsFunc(reasons, func(r any) bool {
				one, _ := r.(map[string]any)
				return one["effect"] == "drop" && (one["overruled_by"] == nil || one["overruled_by"] == "")
			})
		}))},
	}
}

// dropsFirst drops the first post whose id begins so.
func dropsFirst(answer map[string]any, prefix string) {
	posts, _ := answer["posts"].([]any)
	dropped, _ := answer["dropped"].([]any)
	n := slices.IndexFunc(posts, func(p any) bool {
		one, _ := p.(map[string]any)
		id, _ := one["id"].(string)
		return strings.HasPrefix(id, prefix)
	})
	if n >= 0 {
		one, _ := posts[n].(map[string]any)
		answer["dropped"] = append(dropped, map[string]any{"id": one["id"], "kind": "hide"})
		answer["posts"] = slices.Delete(posts, n, n+1)
	}
}

// leaves lacks activities in all pages.
func leaves(lost func(k fakeKey) bool) func(*fakeInstance) {
	return pageLoses(func(k fakeKey, _ string) bool { return lost(k) })
}

// otherViewer answers each n-th feed as if another user had asked.
func otherViewer(n int) func(*fakeInstance) {
	return onCall(callFeed, n, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Body = io.NopCloser(strings.NewReader(strings.Replace(peek(r), `"viewer":"u`, `"viewer":"u1`, 1)))
		next.ServeHTTP(w, r)
	})
}

// fanouts changes each n-th answer to a fan-out.
func fanouts(n int, change func(answer map[string]any)) func(*fakeInstance) {
	due := nth(n)
	return changedAnswers(callFeed, 1, func(q, answer map[string]any) {
		if q["viewers"] != nil && due() {
			change(answer)
		}
	})
}

// falsePositives blocks users, of whom some are never blocked, for everybody.
func falsePositives(i *fakeInstance) {
	reads := i.reads
	i.reads = func(k fakeKey) bool { return reads(k) || k.kind == "block" && strings.HasPrefix(k.target, "f") }
}

// wrongAnswers are services whose answers are malformed, missing or late.
func wrongAnswers() []flaw {
	answer := func(code int, text string) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { http.Error(w, text, code) }
	}
	first := func(change func(posts []any) []any) func(*fakeInstance) {
		return changedAnswers(callFeed, 10, func(_, answer map[string]any) {
			if posts, _ := answer["posts"].([]any); len(posts) > 1 {
				answer["posts"] = change(posts)
			}
		})
	}
	return []flaw{
		{name: "answers 500", want: "status", also: "rest", inject: onCall(callFeed, 20, answer(http.StatusInternalServerError, "oops"))},
		{name: "answers 500 to writes", want: "status", also: "rest", inject: onCall(callWrite, 50, answer(http.StatusInternalServerError, "oops"))},
		{name: "answers 503 without advice", during: "postgres killed", want: "status", also: "rest", inject: onCall(callWrite, 50, answer(http.StatusServiceUnavailable, "busy"))},
		{name: "answers no JSON", want: "answer", also: "rest", inject: onCall(callFeed, 20, answer(http.StatusOK, "fine"))},
		{name: "answers a write without a result", want: "answer", also: "changed lost rest undone vanished explain", inject: onCall(callWrite, 50, answer(http.StatusOK, "{}"))},
		{name: "cuts connections", want: "answer", also: "rest", inject: onCall(callFeed, 20, func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) })},
		{name: "leaves posts out", want: "answer", inject: first(func(posts []any) []any { return posts[1:] })},
		{name: "swaps posts", want: "answer", inject: first(func(posts []any) []any { posts[0], posts[1] = posts[1], posts[0]; return posts })},
		{name: "adds posts", want: "answer", inject: first(func(posts []any) []any { return append(posts, posts[0]) })},
		{name: "does not annotate", want: "answer", inject: first(func(posts []any) []any {
			if one, ok := posts[0].(map[string]any); ok {
				delete(one, "like")
			}
			return posts
		})},
		{name: "drops a viewer twice", want: "answer", inject: fanouts(1, func(answer map[string]any) {
			if dropped, _ := answer["dropped"].([]any); len(dropped) > 0 {
				answer["dropped"] = append(dropped, dropped[0])
			}
		})},
		{name: "is slow", want: "slow", inject: onCall(callFeed, 20, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			time.Sleep(feedLimit + time.Second)
			next.ServeHTTP(w, r)
		})},
		{name: "lists what nobody wrote", want: "rest", inject: func(i *fakeInstance) {
			i.wire = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/u3/hides") {
					i.ledger.last[fakeKey{"u3", "hide", "stray"}] = fakeChange{add: true}
				}
				i.serve(w, r)
			})
		}},
		{name: "lists what was undone", want: "rest", inject: func(i *fakeInstance) {
			next := i.wire
			i.wire = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && i.index == 1 {
					r.URL.Path = strings.Replace(r.URL.Path, "/hides", "/likes", 1)
				}
				next.ServeHTTP(w, r)
			})
		}},
	}
}
