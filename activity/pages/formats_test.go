package pages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// A process that builds pages of format version 3 and one that builds version 4 share pages. Both
// read and change what the other built, and neither rebuilds it for that.
func TestBothFormatsTogether(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		old := newRig(t, store, 4)
		fresh := newRigWith(t, store, old.ledger)
		old.storage.uniform.Store(true)
		rng, processes := rand.New(rand.NewPCG(1, 2)), []*rig{old, fresh}
		has := map[act]bool{}
		for i := range 300 {
			kind := []string{"hide", "block"}[rng.IntN(2)]
			a := add(fmt.Sprint(rng.IntN(10)), kind, fmt.Sprint("x", rng.IntN(20)))
			writer := processes[rng.IntN(2)]
			if has[a] {
				writer.record(t, true, undo(a.User, a.Kind, a.Target))
			} else {
				writer.record(t, true, a)
			}
			has[a] = !has[a]
			for _, reader := range processes {
				reader.want(t, a.User, a.Kind, a.Target, has[a])
			}
			if i%100 == 50 {
				for number := range uint32(4) {
					h, by := fresh.header(t, number), processes[number%2]
					must(t, by.rebuilder.remake(t.Context(), number, h.Sequence, "test"))
					if got := fresh.header(t, number).Shape.Uniform; got != (by == old) {
						t.Fatalf("page %d has format version 3: %v", number, got)
					}
				}
			}
		}
		rebuilds := 0
		for _, p := range processes {
			for reason, n := range p.Stats().Rebuilds {
				if reason != PageMissing && reason != PageOverfull && reason != "jammed" && reason != reasonOversized && reason != "test" {
					rebuilds += int(n)
				}
			}
		}
		if rebuilds > 0 {
			t.Errorf("%d rebuilds: %v and %v", rebuilds, old.Stats().Rebuilds, fresh.Stats().Rebuilds)
		}
	})
}

// The scrub rebuilds pages of format version 3, one by one, without counting them as faults.
func TestScrubRaisesTheFormat(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4*maxOutdated)
	g.storage.uniform.Store(true)
	var acts []act
	for i := range 2000 {
		acts = append(acts, add(fmt.Sprint(i), "hide", "p"), add(fmt.Sprint(i), "block", "b"))
	}
	_, err := g.Record(t.Context(), acts)
	must(t, err)
	g.scrubAll()
	if n := g.Stats().Rebuilds[reasonFormat]; n > 0 {
		t.Fatalf("%d pages were rebuilt before the format is raised", n)
	}
	g.storage.uniform.Store(false)
	outdated := func() (pages int) {
		statuses, err := g.store.Peek(t.Context(), idsOf(g, g.allPages(t)))
		must(t, err)
		for _, st := range statuses { // a page that nobody is on may be missing
			if !st.Missing && st.Header.Shape.Uniform {
				pages++
			}
		}
		return pages
	}
	before := outdated()
	for range 20 {
		g.scrubAll()
	}
	// A few were rebuilt for another reason, such as a comparison key by key.
	if n := int(g.Stats().Rebuilds[reasonFormat]); before < 200 || n < before-20 || outdated() > 0 {
		t.Errorf("of %d pages of version 3, %d were rebuilt for the format, %d are left", before, n, outdated())
	}
	if s := g.Stats(); len(s.Found) > 0 || s.Alarms > 0 {
		t.Errorf("found %v, %d alarms", s.Found, s.Alarms)
	}
	g.wantWhole(t)
}

func idsOf(g *rig, pages []uint32) (ids []favfilter.PageID) {
	for _, number := range pages {
		ids = append(ids, g.layout.PageID(number))
	}
	return ids
}

// The pages of a file get the latest format at once. Passive Pages leave a ledger as it is.
func TestFormatOfAFile(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	downgrade(t, g)
	g.open(t, g.ledger, g.store)
	wantFormat(t, g, true, 3)
	must(t, g.format.learn(t.Context(), false))
	wantFormat(t, g, false, ledger.PageFormat)
	g.open(t, g.ledger, g.store)
	wantFormat(t, g, false, ledger.PageFormat)
}

// The format is raised once nobody has been connected for a while who cannot read it. Until then,
// an error or such a process starts the wait again.
func TestFormatWaitsForOlderProcesses(t *testing.T) {
	url := pgtest.Start(t).Schema()
	a := newRigOn(t, &favfilter.Memory{}, url, 1)
	downgradeServer(t, url)
	must(t, a.format.learn(t.Context(), false))
	wantFormat(t, a, true, 3)
	b := newRigWith(t, a.store, a.ledger)
	must(t, b.ledger.Agree(t.Context(), time.Second))
	look := func(times int) {
		for range times {
			a.format.look(t.Context())
		}
	}
	look(formatLooks - 1)
	a.useAround(before(func(context.Context) error { return errors.New("down") }, "page_formats"))
	look(1)
	a.useAround(before(func(context.Context) error { return nil }))
	look(formatLooks - 1)
	older := connect(t, url)
	_, err := older.Exec(t.Context(), `SELECT pg_advisory_lock_shared(
			(l.classid::int8 - CASE WHEN l.classid::int8 < 2147483648 THEN 0 ELSE 4294967296 END)::int4, 1000000)
		FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objid = 1000000 LIMIT 1`)
	must(t, err)
	look(2 * formatLooks)
	_, err = older.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`)
	must(t, err)
	look(formatLooks - 1)
	wantFormat(t, a, true, 3)
	look(1)
	wantFormat(t, a, false, ledger.PageFormat)
	wantFormat(t, b, true, ledger.PageFormat)
	b.format.look(t.Context()) // the others take it over at once
	wantFormat(t, b, false, ledger.PageFormat)
}

func wantFormat(t *testing.T, g *rig, uniform bool, want int) {
	t.Helper()
	got, err := g.ledger.PageFormats(t.Context())
	if err != nil || got.Built != want || g.storage.uniform.Load() != uniform {
		t.Errorf("the ledger has version %d, %v, want %d; the process builds version 3: %v", got.Built, err, want, g.storage.uniform.Load())
	}
}

// downgrade makes the ledger of a rig one that an earlier version has made.
func downgrade(t *testing.T, g *rig) {
	t.Helper()
	g.Close()
	must(t, g.ledger.Close())
	db, err := sql.Open("sqlite", g.file)
	must(t, err)
	_, err = db.ExecContext(t.Context(), `DELETE FROM meta WHERE name = 'page_format'`)
	must(t, err)
	must(t, db.Close())
	g.ledger = openLedger(t, g.file, 0)
}

func downgradeServer(t *testing.T, url string) {
	t.Helper()
	_, err := connect(t, url).Exec(t.Context(), `DELETE FROM meta WHERE name = 'page_format'`)
	must(t, err)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// A page of the heaviest keys is as large as it must be, so it is not rebuilt to be smaller.
func TestHeaviestKeysAreNotOversized(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	rng := rand.New(rand.NewPCG(5, 6))
	random := func(n int, weight uint8) (hashes []favfilter.Hash) {
		for range n {
			hashes = append(hashes, favfilter.Hash{H1: rng.Uint64(), H2: rng.Uint64(), Extra: weight})
		}
		return hashes
	}
	for _, phrases := range []bool{false, true} {
		weight := Weight("domain", phrases)
		g.rebuilder.phrases.Store(phrases)
		for i := range 21 {
			rate, n := []float64{MaxKeyRate, 1e-4, 1e-9}[i%3], []int{1, 30, 60, 100, 300, 1000, 5000}[i/3]
			g.storage.keyRate = rate
			keys := rowKeys{hashes: random(n, weight)}
			if phrases {
				keys.marks = random(maxMarks*n, 0) // of users with one long phrase each
			}
			page, err := g.rebuilder.imageOf(0, []rowKeys{keys}, ledger.PageState{Sequence: 1})
			must(t, err)
			if h := page.Header(); g.rebuilder.oversized(h) || g.rebuilder.overfull(h) {
				t.Errorf("rate %g, %d keys: a new page of %d bits, %d set, is to be rebuilt", rate, n, h.Shape.Bits, h.Set)
			}
			for range n * 3 / 100 { // less than the headroom
				page.Insert(random(1, weight)[0])
			}
			if h := page.Header(); g.rebuilder.overfull(h) {
				t.Errorf("rate %g, %d keys: a new page of %d bits has no room for a few more", rate, n, h.Shape.Bits)
			}
		}
	}
}

// On a page at its limit, the weight of a facet's keys makes up for the look-ups that the comment
// of Weight names. It does so at every rate that a page may have.
func TestWeightsAreEnough(t *testing.T) {
	for rate := MaxKeyRate; rate > 1e-11; rate *= 0.97 {
		s, err := favfilter.ShapeFor(1000, rate)
		must(t, err)
		set := float64(s.Limit(rate)) / float64(s.Bits)
		for facet, lookups := range map[string]float64{ledger.Post: 17, ledger.User: 101, "domain": 1152, "phrase": 160_000} {
			bits := min(int(s.Hashes)+int(Weight(facet, facet == "phrase")), favfilter.MaxPositions)
			if got := lookups * math.Pow(set, float64(bits)); got > rate {
				t.Errorf("%s: %g look-ups in a page with %.1f %% of its bits set report %.3g, want %.3g", facet, lookups, 100*set, got, rate)
			}
		}
	}
}

// Few pages wait for a later format, however many need it, so the queue stays short.
func TestOutdatedPagesAreBounded(t *testing.T) {
	q := newDueQueue()
	for page := range uint32(10 * maxOutdated) {
		q.add(page, reasonFormat, 0)
		q.add(page%3, reasonResidue, 0)
	}
	if len(q.order) != maxOutdated+3 {
		t.Errorf("%d pages are due", len(q.order))
	}
	for len(q.order) > 0 {
		q.take(1)
	}
	q.add(7, reasonFormat, 0)
	if pages, reason := q.take(1); len(pages) != 1 || reason != reasonFormat {
		t.Errorf("took %v for %q", pages, reason)
	}
}
