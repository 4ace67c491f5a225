package pages

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// formatTwo plays a process of the previous version, which writes pages of format version 2. That
// version hashes starts and ids of keys under one seed.
type formatTwo struct {
	g      *rig
	client *redis.Client
}

// hash is the hash of a key in format version 2.
func (o *formatTwo) hash(kind, owner, facet, id string) favfilter.Hash {
	seed := o.g.storage.identity.Seed
	start := favfilter.HashKeyBytes(seed, appendKeyStart(nil, kind, owner, facet))
	return favfilter.Start(start).With(favfilter.HashKey(seed, id))
}

// rebuild puts in place the page that the previous version makes from the ledger.
func (o *formatTwo) rebuild(t testing.TB, number uint32) {
	t.Helper()
	rows, state, err := o.g.ledger.Keys(t.Context(), number)
	must(t, err)
	kinds, err := o.g.RowKinds(t.Context(), rows)
	must(t, err)
	var hashes []favfilter.Hash
	for _, row := range rows {
		hashes = append(hashes, o.hash(row.Kind, row.Owner, kinds[row.Kind].Target, row.Target))
	}
	page, err := o.g.rebuilder.imageOf(number, [][]favfilter.Hash{hashes}, state)
	must(t, err)
	o.put(t, fmt.Sprintf("fav:{feed/%d}:", number), page)
}

func (o *formatTwo) put(t testing.TB, prefix string, page *favfilter.Page) {
	t.Helper()
	raw, collisions := page.Encode()
	must(t, o.client.Set(t.Context(), prefix+"bits", storetest.AsFormat(raw, 2), 0).Err())
	if collisions != nil {
		must(t, o.client.Set(t.Context(), prefix+"regions", collisions, 0).Err())
	}
}

func newFormatTwo(t *testing.T, pages uint32) (*rig, *formatTwo) {
	t.Helper()
	server := redistest.Start(t)
	g := newRig(t, redisStore(t, server), pages)
	return g, &formatTwo{g, server.Client()}
}

// Readers, writers and the scrub rebuild pages of format version 2. None of them trusts such a
// page.
func TestPagesOfFormatTwo(t *testing.T) {
	g, old := newFormatTwo(t, 4)
	var log bytes.Buffer
	g.storage.log = slog.New(slog.NewTextHandler(&log, nil))
	for i := range 40 {
		g.record(t, true, add(fmt.Sprint(i), "block", fmt.Sprint("b", i)))
		g.record(t, true, add(fmt.Sprint(i), "hide", fmt.Sprint("p", i)))
	}
	rebuildAll := func() {
		for page := range g.storage.identity.Pages {
			old.rebuild(t, page)
		}
	}
	rebuildAll()
	for i := range 40 { // Views rebuild them
		g.want(t, fmt.Sprint(i), "block", fmt.Sprint("b", i), true)
		g.want(t, fmt.Sprint("b", i), "blocked-by", fmt.Sprint(i), true)
		g.want(t, fmt.Sprint(i), "hide", fmt.Sprint("p", i), true)
	}
	g.wantWhole(t)
	rebuildAll()
	for i := range 40 { // writes rebuild them: undone, and added one by one and in a batch
		g.record(t, true, undo(fmt.Sprint(i), "hide", fmt.Sprint("p", i)))
		g.record(t, true, add(fmt.Sprint(i), "hide", fmt.Sprint("q", i)))
	}
	rebuildAll()
	_, err := g.Record(t.Context(), someActivities(1))
	must(t, err)
	g.wantWhole(t)
	g.checkRate(t, g.countFound(t, "1", "hide", posts("never"), 1000), 1000)
	rebuildAll()
	g.storage.stats.faults = nil
	g.scrubAll()
	g.wantWhole(t)
	if s := g.Stats(); s.Found["foreign"] != 4 || len(s.Found) != 1 {
		t.Errorf("the scrub found %v, want 4 pages foreign", s.Found)
	}
	old.rebuild(t, 0)
	g.scrubber.verify(0)
	g.wantWhole(t)
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}

// A process of the previous version runs at the same time. Before and after each write, each
// process rebuilds what the other has built.
func TestBesideFormatTwo(t *testing.T) {
	g, old := newFormatTwo(t, 1)
	blocked := make(map[string]bool)
	for round := range 60 {
		user, target := fmt.Sprint(round%3), fmt.Sprint("b", round%7)
		key := user + " " + target
		a := add(user, "block", target)
		a.Remove = blocked[key]
		if round%2 == 0 {
			old.rebuild(t, 0)
		}
		g.record(t, true, a)
		blocked[key] = !a.Remove
		if round%3 == 0 {
			old.rebuild(t, 0) // at the sequence of the write, or of the write that the next reader waits for
		}
		for user := range 3 {
			for target := range 7 {
				want := blocked[fmt.Sprint(user, " b", target)]
				if got := g.check(t, fmt.Sprint(user), "block", fmt.Sprint("b", target)); got != want {
					t.Fatalf("round %d: block of %d with b%d: %v, want %v", round, user, target, got, want)
				}
				if target == round%7 {
					old.rebuild(t, 0)
				}
			}
		}
	}
}

// A reader does not trust a replica's page of format version 2, and asks the primary.
func TestReplicaOfFormatTwo(t *testing.T) {
	server := redistest.Start(t)
	primary := redisStore(t, server)
	copies, err := redisstore.NewReader(server.Client(), "copy")
	must(t, err)
	g := newRig(t, primary, 1)
	g.record(t, true, add("1", "hide", "p"))
	old := &formatTwo{g, server.Client()}
	rows, state, err := g.ledger.Keys(t.Context(), 0)
	must(t, err)
	if len(rows) != 1 {
		t.Fatalf("rows %v", rows)
	}
	page, err := g.rebuilder.imageOf(0, [][]favfilter.Hash{{old.hash("hide", "1", ledger.Post, "p")}}, ledger.PageState{Sequence: state.Sequence})
	must(t, err)
	old.put(t, "fav:{copy/0}:", page)
	g.reader.replica = copies
	g.want(t, "1", "hide", "p", true)
	g.want(t, "1", "hide", "q", false)
	if n := g.storage.stats.pastReplica.Load(); n != 2 {
		t.Errorf("%d of 2 feeds were read past the replica", n)
	}
}
