package activity

import (
	"errors"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// What a source says is in every feed. Nobody else can write it, or write it twice.
func TestSource(t *testing.T) {
	ctx := t.Context()
	g := newRig(t, &favfilter.Memory{}, 4)
	source, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour)
	must(t, err)
	change := SourceChange{User: "1", Kind: "block", Target: "2", At: time.Now(), Added: []ledger.Span{{}}}
	must(t, source.Check(change))
	must(t, source.Record(ctx, "10", []SourceChange{change}))
	g.want(t, "1", "block", "2", Direct)
	g.want(t, "2", "block", "1", Reverse)
	if _, err := g.Record(ctx, []Activity{{User: "1", Kind: "block", Target: "3"}}); !invalid(err, "followed") {
		t.Errorf("others write a followed kind: %v", err)
	}
	second, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour)
	must(t, err)
	if err := source.Record(ctx, "11", []SourceChange{change}); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("after another took the lease: %v", err)
	}
	if second.Position() != "10" {
		t.Errorf("position %q", second.Position())
	}
	must(t, second.Record(ctx, "12", []SourceChange{{User: "1", Kind: "block", Target: "2", At: time.Now(), Removed: []ledger.Span{{}}}}))
	g.want(t, "1", "block", "2", None)
}

func invalid(err error, code string) bool {
	refused, ok := errors.AsType[*InvalidError](err)
	return ok && refused.Code == code
}
