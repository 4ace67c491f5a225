package pages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// lagging is a replica with the pages of the last call of catchUp.
type lagging struct {
	partitioned

	primary favfilter.Store
}

func (s *lagging) catchUp(t *testing.T, page uint32) {
	t.Helper()
	ids := []favfilter.PageID{{Number: page}}
	from, err := s.primary.LoadWhole(t.Context(), ids)
	must(t, err)
	to, err := s.LoadWhole(t.Context(), ids)
	must(t, err)
	_, err = s.Replace(t.Context(), favfilter.Replacement{ID: ids[0], Page: from[0].Page, Seen: to[0].Version})
	must(t, err)
}

// withReplica returns a Recorder that reads the replica first.
func withReplica(t *testing.T, pages uint32) (*rig, *lagging) {
	t.Helper()
	replica := &lagging{partitioned: partitioned{Store: &favfilter.Memory{}}, primary: &favfilter.Memory{}}
	g := newRig(t, replica.primary, pages)
	g.reader.replica = replica
	return g, replica
}

func (g *rig) wantReads(t *testing.T, replica, past, rebuilds uint64) {
	t.Helper()
	s := g.Stats()
	made := uint64(0)
	for _, n := range s.Rebuilds {
		made += n
	}
	if s.FromReplica != replica || s.PastReplica != past || made != rebuilds {
		t.Errorf("%d views from replicas, %d past them, %d rebuilds; want %d, %d, %d", s.FromReplica, s.PastReplica, made, replica, past, rebuilds)
	}
}

// TestReplica checks that a copy is used if it has the required sequence. Otherwise the primary is
// used, and nothing is rebuilt.
func TestReplica(t *testing.T) {
	g, replica := withReplica(t, 1)
	want := func(id string, match bool) {
		t.Helper()
		if got := g.check(t, "1", "hide", id); got != match {
			t.Errorf("%s: %v, want %v", id, got, match)
		}
	}
	g.record(t, true, add("1", "hide", "p"))
	rebuilds := uint64(1) // the first write makes the page
	want("p", true)       // not copied yet
	g.wantReads(t, 0, 1, rebuilds)
	replica.catchUp(t, 0)
	want("p", true)
	g.wantReads(t, 1, 1, rebuilds)
	g.record(t, true, add("1", "hide", "q"))
	g.record(t, true, undo("1", "hide", "p"))
	want("q", true)
	want("p", false)
	g.wantReads(t, 1, 3, rebuilds)
	replica.catchUp(t, 0)
	replica.down.Store(true)
	want("q", true)
	g.wantReads(t, 1, 4, rebuilds)
	replica.down.Store(false)
	want("p", false) // the replica is not asked for a while
	g.wantReads(t, 1, 4, rebuilds)
	g.reader.replicaAfter.Store(0)
	want("p", false)
	g.wantReads(t, 2, 4, rebuilds)
}

// TestReplicaWithoutPage: what is read without a page comes from the replica. Nothing to read does
// not count.
func TestReplicaWithoutPage(t *testing.T) {
	g, _ := withReplica(t, 1)
	q := Query{User: g.hashOf("1")}
	_, err := g.Read(t.Context(), q)
	must(t, err)
	g.wantReads(t, 0, 0, 0)
	q.Others = []favfilter.PageID{{Part: "seen.1"}}
	a, err := g.Read(t.Context(), q)
	if err != nil || len(a.Others) != 1 || a.OthersErr != nil {
		t.Errorf("%+v, %v", a, err)
	}
	g.wantReads(t, 1, 0, 0)
}

// While the ledger cannot tell the required sequence, no copy is used.
func TestReplicaWithoutLedger(t *testing.T) {
	g, replica := withReplica(t, 1)
	g.record(t, true, add("1", "hide", "p"))
	replica.catchUp(t, 0)
	// This process does not hear of another process's write.
	other := newRigWith(t, g.store, g.ledger)
	other.record(t, true, add("1", "hide", "q"))
	fail := func(context.Context) error { return faulttest.ErrInjected }
	g.useAround(before(fail, "changed", "ping", "place", "sequence"))
	if got := g.check(t, "1", "hide", "q"); !got {
		t.Errorf("another process's write is missed")
	}
	g.wantReads(t, 0, 0, 1)
}

// Views with a replica that is behind are the same as without one.
func TestReplicaModel(t *testing.T) {
	const pages = 4
	g, replica := withReplica(t, pages)
	random := rand.New(rand.NewPCG(1, 2))
	model := make(map[act]bool)
	wrong := 0
	for range 3000 {
		a := add(fmt.Sprint(random.IntN(8)), "hide", fmt.Sprint(random.IntN(20)))
		switch random.IntN(4) {
		case 0:
			replica.catchUp(t, random.Uint32N(pages))
		case 1:
			had := model[a]
			model[a] = !had
			a.Remove = had
			g.record(t, true, a)
		default:
			switch got := g.check(t, a.User, "hide", a.Target); {
			case model[a] && !got:
				t.Fatalf("%+v is missed", a)
			case !model[a] && got:
				wrong++ // a false positive; the number of them is checked below
			}
		}
	}
	s := g.Stats()
	t.Logf("%d views from replicas, %d past them, %d false positives", s.FromReplica, s.PastReplica, wrong)
	if wrong > 15 {
		t.Errorf("%d of about 1,500 looks found an absent activity", wrong)
	}
	if s.FromReplica < 100 || s.PastReplica < 100 {
		t.Error("want at least 100 views of each")
	}
}
