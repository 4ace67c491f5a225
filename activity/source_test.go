package activity

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// What a source says is in every feed. Nobody else can write it, or write it twice.
func TestSource(t *testing.T) {
	ctx := t.Context()
	g := newRig(t, &favfilter.Memory{}, 4)
	source, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	change := SourceChange{User: "1", Kind: "block", Target: "2", At: time.Now(), Added: []ledger.Span{{}}}
	must(t, source.Record(ctx, "10", []SourceChange{change}))
	g.want(t, "1", "block", "2", Direct)
	g.want(t, "2", "block", "1", Reverse)
	if _, err := g.Record(ctx, []Activity{{User: "1", Kind: "block", Target: "3"}}); !invalid(err, "followed") {
		t.Errorf("others write a followed kind: %v", err)
	}
	second, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	if err := source.Record(ctx, "11", []SourceChange{change}); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("after another took the lease: %v", err)
	}
	if second.Position != "10" {
		t.Errorf("position %q", second.Position)
	}
	must(t, second.Record(ctx, "12", []SourceChange{{User: "1", Kind: "block", Target: "2", At: time.Now(), Removed: []ledger.Span{{}}}}))
	g.want(t, "1", "block", "2", None)
	must(t, second.StartOver(ctx))
	must(t, second.Record(ctx, "13", nil))
}

func invalid(err error, code string) bool {
	refused, ok := errors.AsType[*InvalidError](err)
	return ok && refused.Code == code
}

// A deletion leaves what a source alone writes, on either side, and says so.
func TestDeleteUserOfSource(t *testing.T) {
	ctx := t.Context()
	g := newRig(t, &favfilter.Memory{}, 4)
	source, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	must(t, source.Record(ctx, "10", []SourceChange{
		{User: "1", Kind: "block", Target: "2", At: time.Now(), Added: []ledger.Span{{}}},
		{User: "3", Kind: "block", Target: "1", At: time.Now(), Added: []ledger.Span{{}}},
	}))
	_, err = g.Record(ctx, []Activity{{User: "1", Kind: "hide", Target: "p"}})
	must(t, err)
	for _, want := range []int{1, 0} {
		deleted, left, err := g.DeleteUser(ctx, "1")
		if deleted != want || !slices.Equal(left, []string{"block"}) || err != nil {
			t.Fatalf("deleted %d, left %v, %v, want %d and block", deleted, left, err, want)
		}
	}
	g.want(t, "1", "hide", "p", None)
	g.want(t, "1", "block", "2", Direct)
	g.want(t, "1", "block", "3", Reverse)
	must(t, g.Release(ctx, "block"))
	if deleted, left, err := g.DeleteUser(ctx, "1"); deleted != 2 || left != nil || err != nil {
		t.Errorf("after the release: deleted %d, left %v, %v", deleted, left, err)
	}
	g.want(t, "1", "block", "2", None)
}
