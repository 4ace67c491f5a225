package pages

import (
	"log/slog"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// The tests of this file build one part on those below it, and none above.

// Hashes at the ends of the pages of a layout.
const (
	hashLeast = uint64(0)
	hashMost  = ^uint64(0)
)

// newPart returns what parts share, and a rebuilder, on a ledger of two pages and an empty store.
func newPart(t *testing.T) (core, *rebuilder) {
	t.Helper()
	return newPartWith(t, time.Minute)
}

func newPartWith(t *testing.T, bound time.Duration) (core, *rebuilder) {
	t.Helper()
	c := Config{
		Ledger: newLedger(t, 2), Store: &favfilter.Memory{}, Kinds: testKinds(), KeyRate: testKeyRate,
		StalenessBound: bound, MaxSharedKeys: MinSharedKeys, ListCache: DefaultListCache,
		Logger: slog.New(slog.DiscardHandler),
	}
	rebuilds := newRebuilds(nil)
	shared := newCore(t.Context(), c, rebuilds.endPauses)
	t.Cleanup(shared.life.Close)
	b := newRebuilder(shared, rebuilds, c)
	must(t, b.declare(t.Context()))
	return shared, b
}

// hides returns a change in which the user of a hash hides a post.
func hides(hash uint64, post string) ledger.Change {
	return ledger.Change{Rows: []ledger.Row{{Hash: hash, Owner: "u", Kind: "hide", Target: post}}}
}

// commits records changes in the ledger, and in no page.
func commits(t *testing.T, l *ledger.Ledger, changes ...ledger.Change) ledger.Receipt {
	t.Helper()
	receipt, err := l.Record(t.Context(), time.Now(), changes)
	must(t, err)
	return receipt
}

// wantHides fails unless the page in the store is sound, and has just these hides.
func wantHides(t *testing.T, b *rebuilder, number uint32, posts ...string) {
	t.Helper()
	loaded, err := b.storage.load(t.Context(), []favfilter.PageID{b.layout.PageID(number)})
	must(t, err)
	page := loaded[0].Page
	if page == nil || int(page.Header().Count) != len(posts) {
		t.Fatalf("page %d: %+v, want %d keys", number, loaded[0], len(posts))
	}
	start := KeyStart(b.storage.identity.Seed, "hide", "u", ledger.Post)
	for _, post := range posts {
		if !page.Contains(start.With(favfilter.HashKey(b.storage.identity.Seed, post))) {
			t.Errorf("page %d lacks %s", number, post)
		}
	}
}

// A poll learns the sequences of pages and the users with a dedicated page, and lists the pages
// that others changed as due.
func TestPollerAlone(t *testing.T) {
	p, _ := newPart(t)
	must(t, p.known.PollSince(t.Context(), p.life.Elapsed()))
	commits(t, p.ledger, hides(hashLeast, "a"), hides(hashMost, "b"))
	commits(t, p.ledger, hides(hashMost, "c"))
	_, err := p.ledger.Move(t.Context(), hashMost, true)
	must(t, err)
	must(t, p.known.PollSince(t.Context(), p.life.Elapsed()))
	if at := p.sequences.Of(0).Required.Load(); at != 1 {
		t.Errorf("page 0 is required at %d, want 1", at)
	}
	page := p.layout.PageOf(hashMost)
	if page != ledger.DedicatedPages || p.sequences.Of(page).Required.Load() == 0 {
		t.Errorf("the user who moved is on page %d, required at %d", page, p.sequences.Of(page).Required.Load())
	}
	if due, reason := p.due.take(p.life.Elapsed() + int64(time.Hour)); reason != reasonChanged || len(due) < 2 {
		t.Errorf("due: pages %d, %q", due, reason)
	}
}

// A rebuild makes the ledger's page, and tells of users with too many keys for a shared one.
func TestRebuilderAlone(t *testing.T) {
	_, b := newPart(t)
	var heavy []uint64
	b.heavy = func(hash uint64) { heavy = append(heavy, hash) }
	commits(t, b.ledger, hides(hashLeast, "a"), hides(hashLeast, "b"))
	must(t, b.remake(t.Context(), 0, 1, PageMissing))
	wantHides(t, b, 0, "a", "b")
	if err := b.remake(t.Context(), 0, 9, PageBehind); dependency(err) != "ledger" {
		t.Errorf("a page that the ledger does not have: %v", err)
	}
	var many []ledger.Change
	for n := range MinSharedKeys + 1 {
		many = append(many, hides(hashMost, string(rune('a'+n))))
	}
	commits(t, b.ledger, many...)
	must(t, b.remake(t.Context(), 1, 1, PageMissing))
	b.life.Close()
	if len(heavy) != 1 || heavy[0] != hashMost {
		t.Errorf("heavy users: %x, want %x", heavy, hashMost)
	}
}

// The applier changes a page as a transaction did, and rebuilds one that lacks earlier changes.
func TestApplierAlone(t *testing.T) {
	_, b := newPart(t)
	a := newApplier(b)
	apply := func(r ledger.Receipt) {
		t.Helper()
		if failed := a.applyAll(t.Context(), r.Pages, nil); len(failed) > 0 {
			t.Fatal(failed)
		}
	}
	commits(t, b.ledger, hides(hashLeast, "a"))
	apply(commits(t, b.ledger, hides(hashLeast, "b")))
	wantHides(t, b, 0, "a", "b")
	removal := hides(hashLeast, "a")
	removal.Remove = true
	apply(commits(t, b.ledger, removal, hides(hashLeast, "c")))
	wantHides(t, b, 0, "b", "c")
	if reasons, _ := b.rebuilds.counts(); len(reasons) != 1 || reasons[favfilter.Missing.String()] != 1 {
		t.Errorf("rebuilds: %v", reasons)
	}
	if at := b.sequences.Of(0); at.Required.Load() != 3 || at.Stored.Load() != 3 {
		t.Errorf("required at %d, stored at %d, want 3", at.Required.Load(), at.Stored.Load())
	}
}

// The committer makes writes durable, and acknowledges them once their pages have them.
func TestCommitterAlone(t *testing.T) {
	_, b := newPart(t)
	cm := newCommitter(newApplier(b))
	b.life.Go(cm.commitLoop)
	for _, change := range []ledger.Change{hides(hashLeast, "a"), hides(hashMost, "b"), hides(hashLeast, "c")} {
		w := newWrite(t.Context(), []ledger.Change{change})
		must(t, cm.write(t.Context(), w))
		if !w.result.Changed[0] {
			t.Errorf("%+v changed nothing", change)
		}
	}
	wantHides(t, b, 0, "a", "c")
	wantHides(t, b, 1, "b")
}

// The scrub rebuilds pages that differ from the ledger, and counts them.
func TestScrubberAlone(t *testing.T) {
	p, b := newPart(t)
	sc := newScrubber(newApplier(b))
	commits(t, p.ledger, hides(hashLeast, "a"), hides(hashMost, "b"))
	must(t, p.known.PollSince(t.Context(), p.life.Elapsed()))
	survey := newSurvey()
	for round, want := range []int{2, 0} {
		found, compared := sc.compare([]uint32{0, 1}, survey)
		if failed := sc.repair(found, time.Minute, 2); compared != 2 || len(found) != want || failed > 0 {
			t.Errorf("round %d: %d pages compared, %+v at fault, %d not repaired, want %d at fault", round, compared, found, failed, want)
		}
	}
	wantHides(t, b, 0, "a")
	wantHides(t, b, 1, "b")
}

// The grower builds the pages of the next layout, and closes those of the last one.
func TestGrowerAlone(t *testing.T) {
	p, b := newPartWith(t, 0) // no other process, so there is nothing to wait for
	gr := newGrower(newScrubber(newApplier(b)))
	commits(t, p.ledger, hides(hashLeast, "a"), hides(hashMost, "b"))
	must(t, p.known.PollSince(t.Context(), p.life.Elapsed()))
	must(t, gr.growTo(t.Context(), 4))
	must(t, p.known.PollSince(t.Context(), p.life.Elapsed()))
	wantHides(t, b, p.layout.PageOf(hashLeast), "a")
	wantHides(t, b, p.layout.PageOf(hashMost), "b")
	closed, err := b.storage.load(t.Context(), []favfilter.PageID{{Number: 0}, {Number: 1}})
	must(t, err)
	for n, l := range closed {
		if l.Page == nil || !isClosed(l.Page.Header()) {
			t.Errorf("page %d of the first layout is open: %+v", n, l)
		}
	}
}

// The reader returns a page that has every change that the process knows of, from the store or
// rebuilt.
func TestReaderAlone(t *testing.T) {
	p, b := newPart(t)
	r := newReader(b, nil)
	must(t, p.known.PollSince(t.Context(), p.life.Elapsed()))
	for want, post := range []string{"a", "b"} {
		commits(t, p.ledger, hides(hashLeast, post))
		must(t, p.known.PollSince(t.Context(), p.life.Elapsed()))
		a, err := r.read(t.Context(), Query{User: hashLeast, Page: true})
		must(t, err)
		if got := int(a.Page.Header().Count); a.Number != 0 || got != want+1 {
			t.Errorf("page %d with %d keys, want %d", a.Number, got, want+1)
		}
	}
}

// The inspector compares a page with the ledger, key by key.
func TestInspectorAlone(t *testing.T) {
	p, b := newPart(t)
	in := newInspector(b)
	commits(t, p.ledger, hides(hashLeast, "a"))
	inside, err := in.InspectPage(t.Context(), 0)
	must(t, err)
	if inside.State != PageMissing || inside.Lacks["hide"] != 1 {
		t.Errorf("before a rebuild: %s, lacks %v", inside.State, inside.Lacks)
	}
	must(t, b.remake(t.Context(), 0, 1, PageMissing))
	inside, err = in.InspectPage(t.Context(), 0)
	must(t, err)
	if !inside.Agrees() || inside.Ledger.Keys != 1 {
		t.Errorf("after it: %+v", inside)
	}
}
