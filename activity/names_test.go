package activity

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// TestEitherName: every call takes the name or the plural of a kind. The ledger, counts and the
// activities of a batch have the name; the caller's own activities stay as they are.
func TestEitherName(t *testing.T) {
	ctx := t.Context()
	keep := Kind{Name: "follow", Plural: "follows", Target: User, Effect: Keep, Over: []string{"hides", Lists, "seen"}}
	kinds, err := NewKinds(append(builtinKinds(), keep)...)
	must(t, err)
	for _, k := range kinds.All() {
		for _, name := range []string{k.Name, k.Plural} {
			if got, ok := kinds.Named(name); !ok || !got.Equal(k) {
				t.Errorf("%s is %+v, want %+v", name, got, k)
			}
		}
	}
	if k, _ := kinds.Named("follows"); !slices.Equal(k.Over, []string{"hide", Lists, "seen"}) || keep.Over[0] != "hides" {
		t.Errorf("the kind is over %v, and was made over %v", k.Over, keep.Over)
	}

	g := newRig(t, &favfilter.Memory{}, 4)
	given := []Activity{
		{User: "1", Kind: "blocks", Target: "2"}, {User: "1", Kind: "block", Target: "2"}, {User: "1", Kind: "hides", Target: "p"},
		{User: "1", Kind: "likes", Target: "p"}, {User: "1", Kind: "like", Target: "p", Remove: true},
	}
	before := slices.Clone(given)
	outcomes, err := g.Record(ctx, given)
	if want := []Outcome{Changed, Unchanged, Changed, Changed, Changed}; err != nil || !slices.Equal(outcomes, want) || !slices.Equal(given, before) {
		t.Errorf("outcomes %v, %v, want %v; the caller's activities are %v", outcomes, err, want, given)
	}
	batch := g.NewBatch()
	must(t, batch.Add(Activity{User: "1", Kind: "hides", Target: "q"}))
	if err := batch.Add(Activity{User: "1", Kind: "hidess", Target: "q"}); !invalid(err, CodeUnknownKind) {
		t.Errorf("an unknown kind: %v", err)
	}
	if got := batch.Activities(); len(got) != 1 || got[0].Kind != "hide" {
		t.Errorf("the batch has %v", got)
	}
	rows := make(map[string]int)
	must(t, g.Export(ctx, "1", func(a Activity) error { rows[a.Kind]++; return nil }))
	if want := map[string]int{"block": 1, "hide": 1}; !maps.Equal(rows, want) {
		t.Errorf("the ledger has %v, want %v", rows, want)
	}
	if counts := g.Stats().Recorded; counts["block"] != 1 || counts["hide"] != 1 || counts["like"] != 2 || len(counts) != 3 {
		t.Errorf("recorded %v", counts)
	}
	for _, name := range []string{"block", "blocks"} {
		g.want(t, "2", "block", "1", Reverse)
		if list, err := g.List(ctx, "1", name, "", 10); err != nil || len(list.Items) != 1 {
			t.Errorf("list of %s: %v, %v", name, list, err)
		}
		if p, err := g.Preview(ctx, "1", name, []string{"2", "3"}); err != nil || p.New != 1 || p.Present != 1 || p.Total != 2 {
			t.Errorf("preview of %s: %+v, %v", name, p, err)
		}
		source, err := g.Follow(ctx, "app", "one", []string{name}, time.Hour, false)
		must(t, err)
		must(t, source.Record(ctx, ledger.Position("10"+name), []SourceChange{{User: "4", Kind: name, Target: "5", At: time.Now(), Added: []ledger.Span{{}}}}))
		g.want(t, "4", "block", "5", Direct)
		for _, kind := range []string{"block", "blocks"} {
			if _, err := g.Record(ctx, []Activity{{User: "1", Kind: kind, Target: "3"}}); !invalid(err, "followed") {
				t.Errorf("%s is written while %s is followed: %v", kind, name, err)
			}
		}
		must(t, g.Release(ctx, name))
		if outcomes, err := g.Record(ctx, []Activity{{User: "1", Kind: "block", Target: "6", Remove: true}}); err != nil || outcomes[0] != Unchanged {
			t.Errorf("after the release of %s: %v, %v", name, outcomes, err)
		}
	}

	plain, err := OpenPlain(ctx, PlainConfig{Store: &favfilter.Memory{}, Pages: 1})
	must(t, err)
	defer plain.Close()
	for _, kind := range []string{"blocks", "block"} {
		outcomes, err = plain.Record(ctx, []Activity{{User: "1", Kind: kind, Target: "2"}})
		if err != nil || (outcomes[0] == Changed) != (kind == "blocks") {
			t.Errorf("without a ledger, %s is %v, %v", kind, outcomes, err)
		}
	}
}
