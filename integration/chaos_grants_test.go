package integration

import (
	"slices"
	"time"
)

// grant is what users may notice of a fault. Each grant names the sentence of docs/RELIABILITY.md
// that says so. What no grant excuses is a violation.
type grant struct {
	because string // a sentence of docs/RELIABILITY.md, or a part of it

	refused  []string // requests that may get 503
	degraded []string // kinds that feeds may name as degraded
	late     bool     // feeds of other processes may lack a write for the staleness bound
	forgets  bool     // what was recorded as seen before the end of the fault may be lost

	// after is how long after the end of the fault it holds at least; 0: it ends with the fault. It
	// holds until every instance answers all calls again, which repairLimit bounds.
	after time.Duration
	alone bool // it holds at one instance only
	// reach is how long before the fault what it forgets may have been recorded; 0: at any time.
	reach time.Duration
}

// occurrence is one time that a fault happened.
type occurrence struct {
	name        string
	grants      []grant
	victim      int       // the instance that it disturbs, if it disturbs only one
	from, until time.Time // until is zero while it lasts
	whole       time.Time // when it had begun everywhere; zero before
	repaired    time.Time // when the service had recovered; zero before
}

// reconnects is how long after the end of an outage processes may still treat a server as gone at
// least: they try a suspended one once a second.
const reconnects = 2 * time.Second

// requests of the load, as counts and grants name them.
const (
	callFeed    = "feeds"
	callExact   = "exact feeds"
	callExplain = "explanations"
	callWrite   = "writes"
	callBatch   = "batches"
	callSeen    = "seen"
	callRest    = "feeds at rest"
	callPages   = "changes of the number of pages"
)

// grants lists what users may notice, by fault. Of a fault that is not listed they notice nothing:
// every request gets 200, and every feed has every write acknowledged before it. own is set if
// faults of the network cut one instance off from Redis, not all from one server.
func grants(on topology, own bool) map[string][]grant {
	ledgerGone := grant{
		because: "writes get 503; feeds from the pages. Exact feeds and explanations get 503, after 5 s at most; kinds that keep are `degraded`, after 2 s at most.",
		refused: []string{callWrite, callBatch, callExact, callExplain, callPages}, degraded: []string{"follow"}, after: reconnects,
	}
	ledgerGoneForOne := ledgerGone
	ledgerGoneForOne.alone = true
	ledgerGoneForOne.because = "its writes, exact feeds and explanations get 503; other feeds from the pages, and kinds that keep are `degraded`."
	redisGone := grant{
		because: "feeds from the ledger; writes take one staleness bound; no `seen`",
		refused: []string{callSeen}, degraded: []string{"seen"}, after: reconnects,
	}
	redisGoneForOne := redisGone
	redisGoneForOne.because, redisGoneForOne.alone = "the same, for its requests; its feeds miss nothing", true
	network := redisGone
	if own {
		network = redisGoneForOne
	}
	shardGone := redisGone
	shardGone.because = "as without Redis, for its pages only"
	lost := grant{because: "Redis lost the write: in a failover, a flush, or a restart from an old dump;", late: true}
	oldPrimary := grant{because: "or the process still reads an old primary.", late: true}
	forgotten := grant{because: "**`seen`.** It is lost with Redis.", forgets: true}
	both := grant{
		because: "Either Redis or the ledger is enough.", degraded: []string{"seen", "follow"}, after: reconnects,
		refused: []string{callFeed, callExact, callExplain, callWrite, callBatch, callSeen, callPages},
	}
	all := map[string][]grant{
		"postgres killed":                     {ledgerGone},
		"postgres stopped":                    {ledgerGone},
		"postgres cut off from one":           {ledgerGoneForOne},
		"postgres stalled for one":            {ledgerGoneForOne},
		"redis killed":                        {redisGone, lost, forgotten},
		"redis killed and then postgres":      {both, lost, forgotten},
		"redis stopped":                       {redisGone},
		"redis stopped and replaced":          {redisGone, lost, oldPrimary, forgotten},
		"redis flushed":                       {lost, forgotten},
		"redis set back":                      {redisGone, lost, forgotten},
		"redis refuses one":                   {redisGoneForOne},
		"network cut":                         {network},
		"network stalled":                     {network},
		"failover":                            {shardGone, oldPrimary},
		"takeover":                            {shardGone, lost, oldPrimary, forgotten},
		"replica promoted that missed writes": {shardGone, lost, forgotten},
		"shard gone":                          {shardGone, lost, forgotten},
	}
	if on == embedded {
		killed := grant{because: "`kill -9` loses about two seconds", forgets: true, reach: 3 * time.Second}
		all["instance killed"], all["kinds changed"] = []grant{killed}, []grant{killed}
	}
	return all
}

// replicasBecause are the sentences for feeds that read replicas.
func replicasBecause() []string {
	return []string{"the same holds for every write", "feeds may miss posts just recorded as `seen`"}
}

// begin records that a fault begins, at that instance if it disturbs only one.
func (y *tally) begin(fault string, victim int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.fault = fault
	y.faults = append(y.faults, occurrence{name: fault, grants: y.grants[fault], victim: victim, from: time.Now()})
}

// begun records that the last fault has begun everywhere.
func (y *tally) begun() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.faults[len(y.faults)-1].whole = time.Now()
}

// healed records that the last fault has ended, and repaired that the service has recovered.
func (y *tally) healed() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.faults[len(y.faults)-1].until = time.Now()
}

func (y *tally) repaired() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.fault = ""
	y.faults[len(y.faults)-1].repaired = time.Now()
}

// end returns when a grant of the fault ends.
func (o *occurrence) end(g *grant) time.Time {
	switch {
	case o.until.IsZero():
		return time.Now()
	case g.after == 0:
		return o.until
	case o.repaired.IsZero():
		return o.until.Add(max(g.after, repairLimit))
	case o.repaired.After(o.until.Add(g.after)):
		return o.repaired
	}
	return o.until.Add(g.after)
}

// granted reports whether a grant that matches held at an instance at some time between from and
// until, and counts what it is used for. began is the time in which that fault began.
func (y *tally) granted(
	instance int, from, until time.Time, matches func(g *grant, o *occurrence) bool,
) (began span, ok bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i := range y.faults {
		o := &y.faults[i]
		for n := range o.grants {
			g := &o.grants[n]
			if matches(g, o) && until.After(o.from) && from.Before(o.end(g)) && (!g.alone || o.victim == instance) {
				if !o.until.IsZero() {
					y.afterEnd = max(y.afterEnd, from.Sub(o.until))
				}
				began := span{o.from, o.whole}
				if o.whole.IsZero() {
					began.until = time.Now()
				}
				return began, true
			}
		}
	}
	return span{}, false
}

// mayRefuse reports whether the instance may answer such a request with 503.
func (y *tally) mayRefuse(what string, instance int, from, until time.Time) bool {
	_, ok := y.refuses(what, instance, from, until)
	return ok
}

// refuses is mayRefuse, and returns the time in which the fault began for which it may.
func (y *tally) refuses(what string, instance int, from, until time.Time) (began span, ok bool) {
	return y.granted(instance, from, until, func(g *grant, _ *occurrence) bool { return slices.Contains(g.refused, what) })
}

// mayDegrade reports whether an answer of the instance may name the kind as degraded.
func (y *tally) mayDegrade(kind string, instance int, from, until time.Time) bool {
	_, ok := y.granted(instance, from, until, func(g *grant, _ *occurrence) bool { return slices.Contains(g.degraded, kind) })
	return ok
}

// mayLack reports whether another process than the one that acknowledged a write may lack it in a
// feed with that answer.
func (y *tally) mayLack(instance int, acknowledged, answered time.Time) bool {
	_, ok := y.granted(instance, acknowledged, answered, func(g *grant, _ *occurrence) bool { return g.late })
	return ok
}

// mayForget reports whether what was recorded as seen at that time may be missing in a feed.
func (y *tally) mayForget(instance int, recorded, answered time.Time) bool {
	_, ok := y.granted(instance, recorded, answered, func(g *grant, o *occurrence) bool {
		return g.forgets && (g.reach == 0 || recorded.After(o.from.Add(-g.reach)))
	})
	return ok
}
