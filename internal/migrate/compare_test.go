package migrate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// until records a block with an end.
func (w *world) until(t *testing.T, user, target string, end time.Duration) {
	t.Helper()
	_, err := w.service(t, "block").Record(t.Context(), []client.Activity{{User: user, Target: target, Until: time.Now().Add(end)}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCompare(t *testing.T) {
	app := redistest.Start(t).Client()
	w := newWorld(t, 0)
	sadd(t, app, "1", "2", "3", "1")                   // 3 is missing; the second 1 is invalid
	sadd(t, app, "4", "5")                             // missing, though 5 blocks 4
	sadd(t, app, "6", "7", "8")                        // they end in the ledger, early or at the app's time
	w.record(t, "1 block 2", "5 block 4", "1 block 9") // 9 is extra
	sadd(t, app, "5", "4")
	w.until(t, "6", "7", 30*time.Second)
	w.until(t, "6", "8", time.Hour)
	w.until(t, "6", "9", 30*time.Second) // not in the set, but it ends soon

	sum, found := w.compare(t, "block", sets(t, app))
	wantLines(t, "found", found, []string{"missing 1 3", "extra 1 9", "missing 4 5", "missing 6 7"})
	if want := (migrate.Compared{Groups: 4, Activities: 6, Invalid: 1, Missing: 3, Extra: 1}); sum != want {
		t.Errorf("compared %+v, want %+v", sum, want)
	}

	w.record(t, "1 block 3", "4 block 5", "6 block 7", "-1 block 9") // like an import of the differences
	if sum, found = w.compare(t, "block", sets(t, app)); found != nil {
		t.Errorf("after the import: %+v %q", sum, found)
	}
}

// TestCompareKinds compares kinds of posts and of a facet, and kinds that annotate.
func TestCompareKinds(t *testing.T) {
	app := redistest.Start(t).Client()
	for _, kind := range []string{"hide", "like", "shun"} {
		w := newWorld(t, 0)
		s := sets(t, app)
		s.Keys = pattern(t, kind+":{user}")
		app.SAdd(t.Context(), kind+":1", "p1", "p2", "1")
		app.SAdd(t.Context(), kind+":2", "p1", "p3")
		w.record(t, "1 "+kind+" p1", "1 "+kind+" 1", "2 "+kind+" p1", "2 "+kind+" p9", "3 "+kind+" p9")
		sum, found := w.compare(t, kind, s)
		wantLines(t, kind, found, []string{"missing 1 p2", "missing 2 p3", "extra 2 p9"})
		if sum.Activities != 5 {
			t.Errorf("%s: %+v", kind, sum)
		}
	}
}

// TestComparePhrases: sets have phrases as people typed them, the ledger has their canonical form.
func TestComparePhrases(t *testing.T) {
	app := redistest.Start(t).Client()
	w := newWorld(t, 0)
	app.SAdd(t.Context(), "words:1", "Climate Change", "climate-change", "#Go", "Ärger", "!?")
	app.SAdd(t.Context(), "words:2", "late", "Going", "Coming")
	w.record(t, "1 word-mute climate_change", "1 word-mute go", "2 word-mute late", "2 word-mute going")
	source := phraseSets(t, app, func(call int) {
		if call == 3 { // the first of the second look
			app.SRem(t.Context(), "words:2", "Going", "Coming")
			w.record(t, "-2 word-mute going", "2 word-mute came")
			app.SAdd(t.Context(), "words:2", "Came")
		}
	})
	sum, found := w.compare(t, "word-mute", source)
	wantLines(t, "found", found, []string{"missing 1 #go", "extra 1 go", "missing 1 ärger"})
	if want := (migrate.Compared{Groups: 2, Activities: 7, Invalid: 1, Missing: 2, Extra: 1}); sum != want {
		t.Errorf("compared %+v, want %+v", sum, want)
	}
	w.record(t, "1 word-mute #go", "1 word-mute ärger", "-1 word-mute go")
	if sum, found = w.compare(t, "word-mute", source); found != nil {
		t.Errorf("after the import: %+v %q", sum, found)
	}
}

// TestCompareOnItsWay checks that a write which has reached only one side is not a difference.
func TestCompareOnItsWay(t *testing.T) {
	app := redistest.Start(t).Client()
	sadd(t, app, "1", "2", "3", "4")
	w := newWorld(t, 0)
	w.record(t, "1 block 4", "1 block 5")
	source := hooked(t, app, func(call int) {
		switch call {
		case 1:
			w.record(t, "1 block 2") // the write arrives
			app.SRem(t.Context(), "blocks:1", "3")
		case 2:
			w.record(t, "-1 block 5") // this removal, too
		}
	})
	c := w.comparison(t, "block", source)
	c.Settle = time.Minute
	if sum, found := run(t, c); found != nil {
		t.Errorf("%+v %q", sum, found)
	}
}

// TestCompareMany compares a user with more activities than a part of a set or of a list has.
func TestCompareMany(t *testing.T) {
	app := redistest.Start(t).Client()
	w := newWorld(t, 0)
	var recorded, want []string
	for i := range 2000 {
		target := fmt.Sprintf("m%04d", i)
		sadd(t, app, "1", target)
		if i%2 == 0 {
			recorded = append(recorded, "1 block "+target)
		} else {
			want = append(want, "missing 1 "+target)
		}
	}
	w.record(t, recorded...)
	sum, found := w.compare(t, "block", sets(t, app))
	if !slices.Equal(found, want) || sum.Activities != 2000 {
		t.Errorf("%d differences, want %d: %+v", len(found), len(want), sum)
	}
}
