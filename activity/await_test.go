package activity

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// A feed waits for a position of a source: not for less, and not for more.
func TestAwait(t *testing.T) {
	ctx := t.Context()
	g := newRig(t, &favfilter.Memory{}, 4)
	g.afterTimeout = 20 * time.Millisecond
	source, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	want := func(after, want string) {
		t.Helper()
		err := g.Await(ctx, after)
		got := "reached"
		if refused, ok := errors.AsType[*InvalidError](err); ok {
			got = refused.Code
		} else if errors.Is(err, ErrNotYet) {
			got = "not yet"
		} else if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("after %q: %s, want %s", after, got, want)
		}
	}
	want("", "reached")
	want("0/1", "not yet") // it was not read whole
	must(t, source.Record(ctx, "1/A 1f2e3d4c 2@1/FF", nil))
	for after, reached := range map[string]string{
		"1/A": "reached", "1/9": "reached", "1/B": "not yet", "2/1": "not yet", "0/FFFFFFFF": "reached", "1/FF": "not yet",
		"app 1/A": "reached", "app 1/B": "not yet", "other 1/A": CodeNotFollowed,
		"1": CodeInvalidPosition, "1/x": CodeInvalidPosition, "/": CodeInvalidPosition, "100000000/1": CodeInvalidPosition,
	} {
		want(after, reached)
	}
	_, err = g.Follow(ctx, "second", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	want("1/A", "reached") // as far as this process knows
	want("second 0/1", "not yet")
	want("1/A", CodeNotFollowed) // which of the two?
	want("app 1/A", "reached")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := g.Await(ended, "app 2/1"); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller has gone: %v", err)
	}
}

// A process that knows no source yet asks the ledger before it says so. While the ledger does not
// answer, positions are not known.
func TestAwaitAsks(t *testing.T) {
	ctx := t.Context()
	g := newRig(t, &favfilter.Memory{}, 4)
	source, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	for i := range 10 {
		position := fmt.Sprintf("0/%X", 16+i)
		must(t, source.Record(ctx, position, []SourceChange{{User: "1", Kind: "block", Target: fmt.Sprint("a", i), At: time.Now(), Added: []ledger.Span{{}}}}))
		must(t, g.Await(ctx, position))
		g.want(t, "1", "block", fmt.Sprint("a", i), Direct)
	}
	down := &faulttest.Faults{}
	g.open(t, g.ledger.Around(down.Around), g.store)
	_, err = g.Follow(ctx, "second", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	g.afterTimeout = time.Minute
	if err := g.Await(ctx, "third 0/10"); !invalid(err, CodeNotFollowed) {
		t.Errorf("no such source: %v", err)
	}
	down.Every = true
	if _, ok := errors.AsType[*UnavailableError](g.Await(ctx, "app 0/50")); !ok {
		t.Errorf("the ledger is down: %v", err)
	}
}
