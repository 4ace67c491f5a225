package migrate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestImport(t *testing.T) {
	app := redistest.Start(t).Client()
	sadd(t, app, "1", "2", "3")
	sadd(t, app, "2", "1")
	app.ZAdd(t.Context(), "blocks:4", redis.Z{Score: 1_700_000_000, Member: "1"})
	w := newWorld(t, 0)
	w.record(t, "1 block 3", "1 hide p")
	source := sets(t, app)
	source.Scores = migrate.Seconds
	sum := w.importAll(t, "block", source)
	if want := (migrate.Imported{Groups: 3, Read: 4, Changed: 3}); sum != want {
		t.Errorf("imported %+v, want %+v", sum, want)
	}
	wantLines(t, "recorded", w.recorded(t), []string{"1 block 2", "1 block 3", "1 hide p", "2 block 1", "4 block 1"})
	if sum := w.importAll(t, "block", source); sum.Changed != 0 || sum.Read != 4 {
		t.Errorf("again: %+v", sum)
	}
	if list, err := w.service(t, "block").List(t.Context(), "4"); err != nil || len(list) != 1 || !list["1"].IsZero() {
		t.Errorf("the list is %v, %v", list, err)
	}
}

// TestImportMany imports with several requests.
func TestImportMany(t *testing.T) {
	app := redistest.Start(t).Client()
	var want []string
	for u := range 7 {
		var members []any
		for i := range 300 {
			members = append(members, fmt.Sprint("m", i))
			want = append(want, fmt.Sprintf("%d block m%d", u, i))
		}
		sadd(t, app, fmt.Sprint(u), members...)
	}
	w := newWorld(t, 0)
	w.importAll(t, "block", sets(t, app))
	slices.Sort(want)
	if got := w.recorded(t); !slices.Equal(got, want) {
		t.Errorf("%d activities are recorded, want %d", len(got), len(want))
	}
}

// TestImportLongIDs checks that a request with the longest ids, all escaped, is within the limit.
func TestImportLongIDs(t *testing.T) {
	app := redistest.Start(t).Client()
	long := strings.Repeat(`"`, 250)
	var members []any
	for i := range 1000 {
		members = append(members, fmt.Sprintf("%s%06d", long, i))
	}
	app.SAdd(t.Context(), "blocks:"+long, members...)
	w := newWorld(t, 0)
	if sum := w.importAll(t, "block", sets(t, app)); sum.Changed != 1000 {
		t.Errorf("%+v", sum)
	}
	if sum, found := w.compare(t, "block", sets(t, app)); found != nil || sum.Activities != 1000 {
		t.Errorf("%+v %.2q", sum, found)
	}
}

// TestImportUndoneMeanwhile checks that the import undoes activities that the app undoes in both
// places during the import. If the app records one again, it stays.
func TestImportUndoneMeanwhile(t *testing.T) {
	for again, want := range map[bool][]string{
		false: {"1 block 2 ends", "1 block 3"},
		true:  {"1 block 2", "1 block 3"},
	} {
		app := redistest.Start(t).Client()
		sadd(t, app, "1", "2", "3")
		w := newWorld(t, 0)
		block := w.service(t, "block")
		source := hooked(t, app, func(call int) {
			switch {
			case call == 1:
				app.SRem(t.Context(), "blocks:1", "2") // the removal reached the service before the import recorded it
			case call == 3: // the block is in force until its end, and longer after a new block
				ends, err := block.List(t.Context(), "1")
				if left := time.Until(ends["2"]); err != nil || left < 30*time.Second || left > time.Minute {
					t.Errorf("between two checks the block ends in %v, %v", left, err)
				}
				if !again {
					return
				}
				sadd(t, app, "1", "2") // the block reached the service before this set
			}
		})
		if sum := w.importAll(t, "block", source); sum.Undone != 1 {
			t.Errorf("%+v, want one undone", sum)
		}
		wantLines(t, fmt.Sprint("again ", again), w.recorded(t), want)
	}
}

// TestImportUndoneAfterwards checks that the import does not bring back an activity, with an end,
// that the app undid in the service.
func TestImportUndoneAfterwards(t *testing.T) {
	app := redistest.Start(t).Client()
	sadd(t, app, "1", "2", "3")
	w := newWorld(t, 0)
	source := hooked(t, app, func(call int) {
		if call == 1 {
			app.SRem(t.Context(), "blocks:1", "2")
			w.record(t, "-1 block 2")
		}
	})
	w.importAll(t, "block", source)
	wantLines(t, "recorded", w.recorded(t), []string{"1 block 3"})
}

func TestImportBadMembers(t *testing.T) {
	app := redistest.Start(t).Client()
	sadd(t, app, "1", "2", "1", strings.Repeat("x", 257), "a\nb", "")
	w := newWorld(t, 0)
	var bad []string
	im := w.newImport(t, "block", sets(t, app))
	im.Bad = func(problem error) { bad = append(bad, problem.Error()) }
	sum, err := im.Run(t.Context())
	if want := (migrate.Imported{Groups: 1, Read: 5, Changed: 1, Skipped: 4}); err != nil || sum != want || len(bad) != 4 {
		t.Errorf("skipping: %+v, %v, %q, want %+v", sum, err, bad, want)
	}
	wantLines(t, "recorded", w.recorded(t), []string{"1 block 2"})
}

// TestImportPhrases: members that are no phrase are skipped. What the app undoes meanwhile is
// undone, unless another member of the set has the same canonical form.
func TestImportPhrases(t *testing.T) {
	app := redistest.Start(t).Client()
	app.SAdd(t.Context(), "words:1", "Climate Change", "climate-change", "Spoilers!", "#Go", "!?", "a b c d e f", strings.Repeat("x", 257))
	w := newWorld(t, 0)
	var bad []string
	im := w.newImport(t, "word-mute", phraseSets(t, app, func(call int) {
		if call == 2 { // after the import has recorded them
			app.SRem(t.Context(), "words:1", "Climate Change", "Spoilers!")
		}
	}))
	im.Bad = func(problem error) { bad = append(bad, problem.Error()) }
	sum, err := im.Run(t.Context())
	if want := (migrate.Imported{Groups: 1, Read: 7, Changed: 3, Skipped: 3, Undone: 1}); err != nil || sum != want {
		t.Errorf("imported %+v, %v, want %+v", sum, err, want)
	}
	wantLines(t, "recorded", w.recorded(t), []string{"1 word-mute #go", "1 word-mute climate change", "1 word-mute spoilers ends"})
	slices.Sort(bad)
	if want := `user "1", target "!?" cannot be recorded: target: not a phrase: no word in it`; len(bad) != 3 || bad[0] != want {
		t.Errorf("bad members %q, the first should be %s", bad, want)
	}
}

func TestImportLimit(t *testing.T) {
	app := redistest.Start(t).Client()
	sadd(t, app, "1", "2", "3", "4")
	w := newWorld(t, 2)
	if sum := w.importAll(t, "block", sets(t, app)); sum.OverLimit != 1 || sum.Changed != 2 {
		t.Errorf("%+v", sum)
	}
	if sum, _ := w.compare(t, "block", sets(t, app)); sum.Missing != 1 {
		t.Errorf("%+v, want the refused activities to be missing", sum)
	}
}
