package activity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
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

// A source reads back what the ledger has, in order of the hash of the owners: activities with
// their users, and mirrors with their targets. It begins at any hash.
func TestSourceExport(t *testing.T) {
	ctx := t.Context()
	g := newRig(t, &favfilter.Memory{}, 4)
	source, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	if !source.Mirrored("block") || source.Mirrored("hide") {
		t.Error("only a block has a mirror")
	}
	_, err = g.Record(ctx, []Activity{{User: "u1", Kind: "hide", Target: "p"}})
	must(t, err)
	type place struct {
		hash             uint64
		user, kind, with string
		mirror           bool
	}
	want := []place{{source.HashOf("u1"), "u1", "hide", "p", false}}
	var changes []SourceChange
	for n := range 1500 { // more than an export reads at a time
		user, target := fmt.Sprint("u", n), fmt.Sprint("v", n%3)
		changes = append(changes, SourceChange{User: user, Kind: "block", Target: target, At: time.Now(), Added: []ledger.Span{{}}})
		want = append(want, place{source.HashOf(user), user, "block", target, false}, place{source.HashOf(target), user, "block", target, true})
	}
	must(t, source.Record(ctx, "10", changes))
	less := func(a, b place) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), strings.Compare(a.user, b.user), strings.Compare(a.kind, b.kind))
	}
	slices.SortFunc(want, less)
	for _, from := range []uint64{0, want[1000].hash, want[1000].hash + 1, math.MaxUint64} {
		var got []place
		must(t, source.Export(ctx, from, func(a Activity, mirror bool) error {
			owner := a.User
			if mirror {
				owner = a.Target
			}
			got = append(got, place{source.HashOf(owner), a.User, a.Kind, a.Target, mirror})
			return nil
		}))
		if !slices.IsSortedFunc(got, func(a, b place) int { return cmp.Compare(a.hash, b.hash) }) {
			t.Errorf("from %x: not in order of the hash", from)
		}
		slices.SortFunc(got, less)
		if rest := want[slices.IndexFunc(append(want, place{hash: math.MaxUint64}), func(p place) bool { return p.hash >= from }):]; !slices.Equal(got, rest) {
			t.Errorf("from %x: %d, want %d", from, len(got), len(rest))
		}
	}
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

// A deletion finds who is the target of one-way kinds of a source, too.
func TestDeleteTargetOfSource(t *testing.T) {
	ctx := t.Context()
	kinds, err := NewKinds(append(builtinKinds(), Kind{Name: "mute", Plural: "mutes", Target: User, Effect: Drop})...)
	must(t, err)
	g := openKinds(t, openLedger(t, t.TempDir()+"/ledger.db", 4), &favfilter.Memory{}, kinds)
	source, err := g.Follow(ctx, "app", "one", []string{"mute"}, time.Hour, false)
	must(t, err)
	must(t, source.Record(ctx, "10", []SourceChange{{User: "1", Kind: "mute", Target: "2", At: time.Now(), Added: []ledger.Span{{}}}}))
	if deleted, left, err := g.DeleteUser(ctx, "2"); deleted != 0 || !slices.Equal(left, []string{"mute"}) || err != nil {
		t.Errorf("deleted %d, left %v, %v", deleted, left, err)
	}
	must(t, g.Release(ctx, "mute"))
	if deleted, left, err := g.DeleteUser(ctx, "2"); deleted != 1 || left != nil || err != nil {
		t.Errorf("after the release: deleted %d, left %v, %v", deleted, left, err)
	}
}

// Others write while a source does; each has its own transaction.
func TestSourceBesideOthers(t *testing.T) {
	ctx := t.Context()
	g := newRig(t, &favfilter.Memory{}, 4)
	source, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	const writes = 30
	var writing sync.WaitGroup
	for i := range writes {
		writing.Go(func() {
			for n := range writes {
				if _, err := g.Record(ctx, []Activity{{User: fmt.Sprint(i), Kind: "hide", Target: fmt.Sprint(n)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range writes {
		change := SourceChange{User: "a", Kind: "block", Target: fmt.Sprint("b", n), At: time.Now(), Added: []ledger.Span{{}}}
		must(t, source.Record(ctx, ledger.Position(fmt.Sprint(n)), []SourceChange{change}))
	}
	writing.Wait()
	must(t, source.Reach(ctx))
	for n := range writes {
		g.want(t, "a", "block", fmt.Sprint("b", n), Direct)
		g.want(t, fmt.Sprint(n), "hide", fmt.Sprint(n), Direct)
	}
}
