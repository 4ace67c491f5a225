package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	loadWriters = 6
	// waitingWriters is loadWriters for instances that hold pages. There a write waits until the
	// other instances cannot use old pages any more, for about a second.
	waitingWriters = 36
	loadFeeders    = 6
	loadCheckers   = 2

	batchLines = 12 // maximum lines in a batch
	feedLooks  = 48 // maximum looks in a feed
	fanoutEach = 10 // one of so many feeds is a fan-out

	// feedLimit is how much longer a feed may take than a request that asks nobody. That is the two
	// seconds of docs/RELIABILITY.md for a server that hangs, and one for all else.
	feedLimit = 3 * time.Second
)

// These are the indexes of target.busy.
const (
	writing = iota
	feeding
	checking
)

// chaosLoad writes and reads through all instances. The model judges their answers. Writers write
// at full speed. The feeds are paced: at full speed they would leave the writes too little
// processor time.
type chaosLoad struct {
	model   *chaosModel
	targets []*target
	tally   *tally
	excuses *excuses
	seed    uint64
	pace    *rate.Limiter // feeds per second
	writers int
}

// run runs the load until ctx ends, and returns after the last answer.
func (l *chaosLoad) run(ctx context.Context) {
	requests := context.WithoutCancel(ctx) // requests in flight get their answers after ctx ends
	var wg sync.WaitGroup
	for w := range l.writers {
		rng := rand.New(rand.NewPCG(l.seed, 100+uint64(w)))
		wg.Go(func() {
			for ctx.Err() == nil {
				if g := l.pick(ctx, rng, writing); g != nil {
					l.write(requests, g, w, rng)
					g.busy[writing].Add(-1)
				}
			}
		})
	}
	for f := range loadFeeders {
		rng := rand.New(rand.NewPCG(l.seed, 200+uint64(f)))
		wg.Go(func() {
			for l.pace.Wait(ctx) == nil {
				if g := l.pick(ctx, rng, feeding); g != nil {
					l.feed(requests, g, rng)
					g.busy[feeding].Add(-1)
				}
			}
		})
	}
	for c := range loadCheckers {
		rng := rand.New(rand.NewPCG(l.seed, 300+uint64(c)))
		wg.Go(func() {
			for l.pace.Wait(ctx) == nil {
				if g := l.pick(ctx, rng, checking); g != nil {
					l.check(requests, g, rng)
					g.busy[checking].Add(-1)
				}
			}
		})
	}
	wg.Wait()
}

// pick returns a random running instance. A slow instance gets at most half of the load, so that
// the others stay busy. If no instance is available, pick waits a little, or until one starts or
// ctx ends, and returns nil.
func (l *chaosLoad) pick(ctx context.Context, rng *rand.Rand, what int) *target {
	limit := [...]int32{writing: int32(l.writers), feeding: loadFeeders, checking: loadCheckers}[what]
	if len(l.targets) > 1 {
		limit /= 2
	}
	var down <-chan struct{}
	for _, i := range rng.Perm(len(l.targets)) {
		g := l.targets[i]
		if up := g.up(); up != nil {
			down = up
			continue
		}
		if g.busy[what].Add(1) <= limit {
			return g
		}
		g.busy[what].Add(-1)
	}
	var retry <-chan time.Time
	if down == nil {
		retry = time.After(5 * time.Millisecond) // concurrent picks have brought all to their limit
	}
	select {
	case <-down:
	case <-retry:
	case <-ctx.Done():
	}
	return nil
}

// answered checks the rules for every answer, and reports whether the status is 200.
func (l *chaosLoad) answered(ctx context.Context, g *target, what string, r reply) bool {
	y := l.tally
	switch {
	case r.err != nil:
		y.count(what+" cut", 1)
		if !g.mayBreak(r.sent, r.done) {
			y.violatedf("answer", "%s at instance %d, sent %s: %v", what, g.index, r.sent.Format(clock), r.err)
		}
		return false
	case r.status == http.StatusServiceUnavailable:
		y.refused(what)
		if r.retryAfter == "" {
			y.violatedf("status", "%s: 503 without Retry-After: %s", what, r.body)
		}
		if y.mayRefuse(what, g.index, r.sent, r.done) {
			return false
		}
		why := g.log.about(ctx, r.id)
		text := fmt.Sprintf("%s at instance %d, sent %s: 503 after %v: %s\n%s",
			what, g.index, r.sent.Format(clock), r.done.Sub(r.sent), r.body, why)
		lost, ok := y.refuses(callWrite, g.index, r.sent, r.done)
		if ok && what == callFeed && l.excuses.noteRefused(why, lost, r, text) {
			y.count(excusedFeeds, 1)
			return false
		}
		y.violatedf("refused", "%s", text)
		return false
	case r.status != http.StatusOK:
		y.violatedf("status", "%s: %d %s", what, r.status, r.body)
		return false
	}
	if what == callFeed && !g.mayBreak(r.sent, r.done) {
		took, idle := r.done.Sub(r.sent), g.idle.within(r.sent, r.done)
		y.took(took - idle)
		if took-idle > feedLimit {
			y.violatedf("slow", "a feed at instance %d, sent %s, took %v, %v of it for want of a processor",
				g.index, r.sent.Format(clock), took, idle)
		}
	}
	return true
}

// write writes once, for users that only this writer uses.
func (l *chaosLoad) write(ctx context.Context, g *target, writer int, rng *rand.Rand) {
	mine := (len(l.model.users) - writer + l.writers - 1) / l.writers
	own := func() *chaosKey {
		keys := l.model.own[writer+l.writers*rng.IntN(mine)]
		return keys[rng.IntN(len(keys))]
	}
	switch x := rng.IntN(100); {
	case x < 5:
		l.recordSeen(ctx, g, rng)
	case x < 20:
		picked := make(map[*chaosKey]bool)
		for range 1 + rng.IntN(batchLines) {
			picked[own()] = true
		}
		l.writeBatch(ctx, g, picked, rng)
	default:
		l.writeOne(ctx, g, own(), rng)
	}
}

func (l *chaosLoad) writeOne(ctx context.Context, g *target, k *chaosKey, rng *rand.Rand) {
	o := l.model.begin(k, rng)
	method := http.MethodPut
	if !o.add {
		method = http.MethodDelete
	}
	r := g.send(ctx, method, "/v1/users/"+k.user+"/"+k.plural()+"/"+url.PathEscape(k.target), nil)
	var results []changedAnswer
	if l.answered(ctx, g, callWrite, r) {
		results = make([]changedAnswer, 1)
		if err := json.Unmarshal(r.body, &results[0]); err != nil {
			l.tally.violatedf("answer", "a write: %v: %s", err, r.body)
		}
	}
	l.finish([]op{o}, r, results)
}

type changedAnswer struct {
	Changed *bool `json:"changed"`
}

// batchLine is a line of POST /v1/activities.
type batchLine struct {
	User   string `json:"user"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Op     string `json:"op"`
	Until  string `json:"until,omitempty"`
}

func (l *chaosLoad) writeBatch(ctx context.Context, g *target, keys map[*chaosKey]bool, rng *rand.Rand) {
	var ops []op
	var lines []batchLine
	for k := range keys {
		o := l.model.begin(k, rng)
		ops = append(ops, o)
		line := batchLine{User: k.user, Kind: k.kind, Target: k.target, Op: "remove"}
		if o.add {
			line.Op = "add"
		}
		lines = append(lines, line)
	}
	r := g.send(ctx, http.MethodPost, "/v1/activities", map[string]any{"activities": lines})
	var answer struct {
		Results []changedAnswer `json:"results"`
	}
	if l.answered(ctx, g, callBatch, r) {
		if err := json.Unmarshal(r.body, &answer); err != nil || len(answer.Results) != len(ops) {
			l.tally.violatedf("answer", "a batch of %d: %v: %s", len(ops), err, r.body)
			answer.Results = nil
		}
	}
	l.finish(ops, r, answer.Results)
}

// finish reports the results of the writes to the model. results is nil if the writes were not
// acknowledged.
func (l *chaosLoad) finish(ops []op, r reply, results []changedAnswer) {
	for i, o := range ops {
		if results == nil {
			why := fmt.Sprintf("status %d", r.status)
			if r.err != nil {
				why = r.err.Error()
			}
			l.model.failed(o, r.by, why)
			l.excuses.noteOpen(r, o.key.pageOwners()...)
			l.tally.count("undecided", 1)
			continue
		}
		l.tally.count("acknowledged", 1)
		changed := results[i].Changed
		if changed == nil {
			l.tally.violatedf("answer", "the answer does not say what changed: %s", r.body)
			changed = new(bool)
		}
		if wrong := l.model.acknowledged(o, *changed, r.by); wrong != "" {
			l.tally.violatedf("changed", "%s", wrong)
		}
	}
}

// feed asks for the feed of one viewer, or now and then for a fan-out, and judges the answer.
func (l *chaosLoad) feed(ctx context.Context, g *target, rng *rand.Rand) {
	var f *chaosFeed
	if rng.IntN(fanoutEach) == 0 {
		f = l.model.newFanout(rng)
		l.tally.count("fan-outs", 1)
	} else {
		f = l.model.newFeed(rng.IntN(len(l.model.users)), 1+rng.IntN(feedLooks), rng)
	}
	l.ask(ctx, g, f, callFeed)
}

// ask asks for the feed or the fan-out, which counts as such a request, and judges the answer.
func (l *chaosLoad) ask(ctx context.Context, g *target, f *chaosFeed, what string) {
	path, body := f.call()
	r := g.send(ctx, http.MethodPost, path, body)
	if l.answered(ctx, g, what, r) {
		l.judge(ctx, g, f, r)
	}
	l.tally.count(what, 1)
}

func (l *chaosLoad) judge(ctx context.Context, g *target, f *chaosFeed, r reply) {
	var answer feedAnswer
	if err := json.Unmarshal(r.body, &answer); err != nil {
		l.tally.violatedf("answer", "a feed: %v: %s", err, r.body)
		return
	}
	dropped, liked, wrong := f.read(answer)
	if wrong != "" {
		l.tally.violatedf("answer", "the %v at instance %d: %s", f, r.by.instance, wrong)
		return
	}
	degraded := l.judgeDegraded(g, fmt.Sprint("the ", f), answer.Degraded, r)
	j := l.model.judge(f, dropped, liked, !degraded["follow"], r.by, l.mayLackAt(g, r))
	for _, w := range j.wrong {
		l.tally.violatedf(w.promise, "the %v, sent %s and answered by %d.%d: %s", f, f.sent.Format(clock), r.by.instance, r.by.life, w.text)
	}
	l.tally.count("looks", j.looks)
	l.tally.count("late undo", j.lateUndo)
	for _, x := range j.missed {
		switch {
		case x.late:
			l.tally.late(x.age)
			continue
		case x.again:
			l.tally.again("lost")
			continue
		}
		l.tally.violatedf("lost", "%s, answered %s\n%s", x.detail, r.done.Format(clock), l.lookAgain(ctx, f, x.id))
	}
	if !degraded["seen"] {
		l.judgeSeen(g, f, dropped, r)
	}
}

// mayLackAt returns which writes of others an answer of the instance may lack.
func (l *chaosLoad) mayLackAt(g *target, r reply) lackFunc {
	return func(acknowledged time.Time) bool {
		return g.readsReplicas || l.tally.mayLack(g.index, acknowledged, r.done)
	}
}

// judgeDegraded returns which kinds an answer names as degraded. Each needs a fault that explains
// it.
func (l *chaosLoad) judgeDegraded(g *target, what string, kinds []degradedKind, r reply) map[string]bool {
	named := make(map[string]bool)
	for _, d := range kinds {
		switch {
		case named[d.Kind]:
			l.tally.violatedf("degraded", "%s at instance %d names %s twice", what, g.index, d.Kind)
		case !l.tally.mayDegrade(d.Kind, g.index, r.sent, r.done):
			l.tally.violatedf("degraded", "%s at instance %d, sent %s and answered %s, names %s: %s",
				what, g.index, r.sent.Format(clock), r.done.Format(clock), d.Kind, d.Reason)
		}
		named[d.Kind] = true
		l.tally.count(d.Kind+" degraded", 1)
	}
	return named
}

// lookAgain asks every running instance for the feed again, and returns which of them report the
// candidate. It adds detail to the message about a missed key.
func (l *chaosLoad) lookAgain(ctx context.Context, f *chaosFeed, id string) string {
	text := "      asked again:"
	for _, g := range l.targets {
		if g.up() != nil {
			continue
		}
		var answer feedAnswer
		path, body := f.call()
		if err := g.send(ctx, http.MethodPost, path, body).ok(&answer); err != nil {
			text += fmt.Sprintf(" instance %d: %v;", g.index, err)
			continue
		}
		dropped, liked, wrong := f.read(answer)
		text += fmt.Sprintf(" instance %d reports it: %t %s;", g.index, dropped[id]+liked[id] != "", wrong)
	}
	return text
}
