package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// topologies are those on which faults are caused.
func topologies() []topology { return []topology{embedded, oneRedis, redisCluster} }

// TestGrantsArePromised looks for the sentence of each grant in docs/RELIABILITY.md, and for a
// fault of each name.
func TestGrantsArePromised(t *testing.T) {
	text, err := os.ReadFile("../docs/RELIABILITY.md")
	must(t, err)
	document := strings.Join(strings.Fields(string(text)), " ")
	promised := func(fault, sentence string) {
		if len(sentence) < 20 || !strings.Contains(document, sentence) {
			t.Errorf("%s: RELIABILITY.md does not say %q", fault, sentence)
		}
	}
	for _, on := range topologies() {
		for name, all := range grants(on, true) {
			if !slices.ContainsFunc(slices.Concat(processFaults(), postgresFaults(), redisFaults(), clusterFaults()),
				func(f fault) bool { return f.name == name }) {
				t.Errorf("there is no fault %q", name)
			}
			for _, g := range all {
				promised(name, g.because)
			}
		}
	}
	promised("a page", refusedBecause)
	for _, sentence := range replicasBecause() {
		promised("replicas", sentence)
	}
}

// TestGrants checks when and where a grant holds.
func TestGrants(t *testing.T) {
	from := time.Now().Add(-time.Hour)
	at := func(seconds int) time.Time { return from.Add(time.Duration(seconds) * time.Second) }
	y := newTally(nil)
	y.faults = []occurrence{{
		victim: 1, from: from, until: at(10), repaired: at(11),
		grants: []grant{
			{refused: []string{callWrite}, degraded: []string{"seen"}, after: 2 * time.Second, alone: true},
			{late: true}, {forgets: true, reach: 3 * time.Second},
		},
	}}
	for _, c := range []struct {
		what                          string
		instance, sent, done          int
		refuse, degrade, lack, forget bool
	}{
		{callWrite, 1, -2, -1, false, false, false, false},
		{callWrite, 1, -2, 1, true, true, true, true},
		{callWrite, 1, -4, 1, true, true, true, false},
		{callWrite, 1, 5, 6, true, true, true, true},
		{callWrite, 0, 5, 6, false, false, true, true},
		{callFeed, 1, 5, 6, false, true, true, true},
		{callWrite, 1, 11, 12, true, true, false, false},
		{callWrite, 1, 13, 14, false, false, false, false},
	} {
		got := []bool{
			y.mayRefuse(c.what, c.instance, at(c.sent), at(c.done)), y.mayDegrade("seen", c.instance, at(c.sent), at(c.done)),
			y.mayLack(c.instance, at(c.sent), at(c.done)), y.mayForget(c.instance, at(c.sent), at(c.done)),
		}
		if want := []bool{c.refuse, c.degrade, c.lack, c.forget}; !slices.Equal(got, want) {
			t.Errorf("%+v: got %v", c, got)
		}
		if y.mayDegrade("block", c.instance, at(c.sent), at(c.done)) {
			t.Errorf("%+v: may degrade blocks", c)
		}
	}
	for repaired, want := range map[int]bool{11: false, 15: true, 0: true} {
		if y.faults[0].repaired = at(repaired); repaired == 0 {
			y.faults[0].repaired = time.Time{}
		}
		if got := y.mayRefuse(callWrite, 1, at(13), at(14)); got != want {
			t.Errorf("repaired after %d s: may refuse %v 3 s after the end", repaired, got)
		}
	}
	if y.mayRefuse(callWrite, 1, at(10).Add(repairLimit), at(50)) {
		t.Errorf("never repaired: may refuse %v after the end", repairLimit)
	}
}

// TestReplicasLag judges feeds of instances that read replicas. They may lack what others wrote for
// the staleness bound, without a fault.
func TestReplicasLag(t *testing.T) {
	for lag, want := range map[time.Duration]string{withinBound: "", beyondBound: "lost"} {
		synctest.Test(t, func(t *testing.T) {
			f := flaw{name: "reads replicas", inject: learnsIn(lag), want: want, also: "undone vanished explain", replicas: true}
			if want == "" {
				f.also, f.uses = "", "late"
			}
			f.judged(t)
		})
	}
}

// TestChaosFindsNoRepair causes a fault after which an instance does not answer writes any more.
func TestChaosFindsNoRepair(t *testing.T) {
	for name, want := range map[string]int{"recovers": 0, "never recovers": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, topology: oneRedis, rng: rand.New(rand.NewPCG(1, 1)), tally: newTally(grants(oneRedis, true))}
				w.load = &chaosLoad{model: newChaosModel(2, 1), tally: w.tally, pace: rate.NewLimiter(rate.Inf, 1)}
				ledger, wrong := newFakeLedger(), ledgerOf(2)
				for n, i := range wrong(ledger) {
					g := newTarget(n, "http://fake")
					g.client = &http.Client{Transport: i}
					w.load.targets, w.instances = append(w.load.targets, g), append(w.instances, &instance{target: g})
				}
				broken := &fault{name: "postgres killed", begin: func(w *world) (func() error, error) {
					refused(callWrite, 1)(wrong(nil)[1])
					return func() error {
						if want == 0 {
							w.load.targets[1].client.Transport = ledger.instance(1)
						}
						return nil
					}, nil
				}}
				s := &scheduler{world: w, deck: []fault{*broken}, done: make(map[string]int)}
				must(t, s.once())
				if found, messages := w.tally.violations(); found["repair"] != want || len(found) != want {
					t.Errorf("found %v\n%s", found, messages)
				}
			})
		})
	}
}

// ledgerOf returns a function that makes so many instances of a ledger once, and returns them.
func ledgerOf(n int) func(*fakeLedger) []*fakeInstance {
	var all []*fakeInstance
	return func(s *fakeLedger) []*fakeInstance {
		for len(all) < n {
			all = append(all, s.instance(len(all)))
		}
		return all
	}
}

// TestRacesAreFound expects the report of the race detector, and no other line of the log.
func TestRacesAreFound(t *testing.T) {
	const sound = `{"msg":"listening"}` + "\n"
	const race = "WARNING: DATA RACE\nRead at 0x1 by goroutine 7:\n  main.main()\n"
	const end = "==================\n"
	for text, want := range map[string]string{sound: "", sound + end + race + end + sound: race} {
		i := &instance{target: newTarget(0, ""), races: &tailLog{max: 1000}}
		listening := make(chan bool, 1)
		i.follow(strings.NewReader(text), listening)
		if got := i.races.String(); got != want || !<-listening {
			t.Errorf("log %q: races %q, want %q", text, got, want)
		}
	}
}

// TestExcuses checks which refused feeds the state of their page explains.
func TestExcuses(t *testing.T) {
	begun := time.Now()
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	lost := span{at(10_000), at(10_200)} // when the instance lost the ledger
	user := "7"
	left, lacks := fmt.Sprintf(leftPage, 5), fmt.Sprintf(lacksWrite, pageOf(user))
	for _, c := range []struct {
		what   string
		logged string
		happen func(m *excuses)
		want   bool
	}{
		{"nothing", left, func(*excuses) {}, false},
		{"somebody left it after the last poll", left, func(m *excuses) { m.when[5] = []span{{at(9000), at(9100)}} }, true},
		{"somebody left it before the last poll", left, func(m *excuses) { m.when[5] = []span{{at(7000), at(7100)}} }, false},
		{"somebody left another page", left, func(m *excuses) { m.when[6] = []span{{at(9000), at(9100)}} }, false},
		{"its layout was replaced", left, func(m *excuses) { m.replaced[chaosPages] = []span{{at(9000), at(9100)}} }, true},
		{"no write was open", lacks, func(*excuses) {}, false},
		{"a write was open", lacks, func(m *excuses) { m.noteOpen(reply{sent: at(9000), done: at(10_001)}, "8", user) }, true},
		{"a write was open before", lacks, func(m *excuses) { m.noteOpen(reply{sent: at(9000), done: at(9999)}, user) }, false},
		{"somebody left it meanwhile", lacks, func(m *excuses) { m.when[pageOf(user)] = []span{{at(9900), at(12_000)}} }, true},
		{"a write was begun after", lacks, func(m *excuses) { m.noteOpen(reply{sent: at(10_300), done: at(10_400)}, user) }, false},
		{"a write to another page was open", lacks, func(m *excuses) { m.noteOpen(reply{sent: at(9000), done: at(10_001)}, "nobody") }, false},
		{"a write to the user's dedicated page was open", "page 3000000000 is behind at 1", func(m *excuses) {
			m.noteOpen(reply{sent: at(9000), done: at(10_001)}, user)
			m.noteOwners(map[uint32]int64{3_000_000_000: int64(pages.UserHash(0, user) ^ 1<<63)}, 0)
		}, true},
	} {
		m := newExcuses()
		if !m.noteRefused(c.logged, lost, reply{sent: at(11_000), done: at(11_100)}, c.what) {
			t.Errorf("%s: %q is not about a page", c.what, c.logged)
		}
		c.happen(m)
		if wrong := m.unexplained(); (len(wrong) == 0) != c.want {
			t.Errorf("%s: explained is not %v: %q", c.what, c.want, wrong)
		}
	}
	for _, logged := range []string{"", "page 7 is missing at 0", "somebody left page 7"} {
		if newExcuses().noteRefused(logged, lost, reply{}, "") {
			t.Errorf("%q excuses a feed", logged)
		}
	}
}

// TestIdleWaits checks how much of a request's time others wait, too.
func TestIdleWaits(t *testing.T) {
	begun := time.Now()
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	var w idleWaits
	w.end(span{at(0), begun.Add(idleLong)})
	w.end(span{at(1000), at(1500)})
	w.end(span{at(1600), at(2000)})
	w.begin(at(2300))
	for _, c := range []struct{ from, until, want int }{
		{0, 1000, 0},
		{0, 1200, 200},
		{1100, 1200, 100},
		{1400, 2400, 500},
		{900, 3000, 500 + 400 + 700},
		{3000, 3100, 100},
	} {
		if got := w.within(at(c.from), at(c.until)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("from %d to %d ms: waits of %v, want %d ms", c.from, c.until, got, c.want)
		}
	}
}

// TestGrown checks grown with memory that grows and memory that does not.
func TestGrown(t *testing.T) {
	for _, c := range []struct {
		name string
		mib  func(second int) int64
		want bool
	}{
		{"level", func(int) int64 { return 100 }, false},
		{"a leak", func(s int) int64 { return 100 + 5*int64(s) }, true},
		{"warming up", func(s int) int64 { return min(400, 100+50*int64(s)) }, false},
		{"a spike at a third", func(s int) int64 {
			if s == 20 {
				return 1
			}
			return 200
		}, false},
	} {
		var samples []sample
		for s := range 60 {
			samples = append(samples, sample{life: 2, age: time.Duration(s) * time.Second, rss: c.mib(s) << 20}, sample{life: 1, age: time.Minute / 3, rss: 1})
		}
		if _, got := grown(samples, sample{life: 2, age: time.Minute, rss: c.mib(60) << 20}); got != c.want {
			t.Errorf("%s: grown %v, want %v", c.name, got, c.want)
		}
	}
}

// TestSignTest checks signTest against probabilities that are easy to compute.
func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		a, b int
		want float64
	}{
		{0, 0, 1}, {0, 5, 1}, {1, 0, 0.5}, {1, 1, 0.75}, {10, 0, 1.0 / 1024}, {5, 5, 0.623046875},
	} {
		if got := signTest(c.a, c.b); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("signTest(%d, %d) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestRates checks that each of the rates is judged.
func TestRates(t *testing.T) {
	right := rates{Keys: 100, UndoneMore: 3, ControlMore: 2, Looks: 10_000, UndoneLooks: 10, ControlLooks: 9, squares: 1e6}
	if wrong := right.wrong(); wrong != "" {
		t.Errorf("right: %s", wrong)
	}
	for name, spoil := range map[string]func(r *rates){
		"undone keys more often": func(r *rates) { r.UndoneMore = 30 },
		"undone looks":           func(r *rates) { r.UndoneLooks = 1000 },
		"controls":               func(r *rates) { r.ControlLooks = 1000 },
		"kept":                   func(r *rates) { r.KeptLooks, r.KeptDropped = 1000, 100 },
		"not seen":               func(r *rates) { r.UnseenLooks, r.UnseenDropped = 1000, 100 },
	} {
		r := right
		spoil(&r)
		if r.wrong() == "" {
			t.Errorf("%s: nothing is wrong with %+v", name, r)
		}
	}
}
