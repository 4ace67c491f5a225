package activity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// A feed waits for a position of a source: not for less, and not for more. By the clock of a bubble
// polls take no time. A call that ends before the next poll would say what the last one has found.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		g := newRig(t, &favfilter.Memory{}, 4)
		g.afterTimeout = 20 * time.Millisecond
		source, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
		must(t, err)
		want := func(after, want string) {
			t.Helper()
			err := g.Await(ctx, Freshness{After: after})
			got := "reached"
			if refused, ok := errors.AsType[*InvalidError](err); ok {
				got = refused.Code
			} else if late, ok := errors.AsType[*NotYetError](err); ok {
				got = "not yet: " + late.Error()
			} else if err != nil {
				got = err.Error()
			}
			if got != want && !(want == "not yet" && strings.HasPrefix(got, "not yet: ")) {
				t.Errorf("after %q: %s, want %s", after, got, want)
			}
		}
		want("", "reached")
		far := func(reason string) string {
			return `not yet: source "app" has not been followed that far yet: ` + reason
		}
		want("0/1", far("it has to be read whole first"))
		must(t, source.Record(ctx, "1/A 1f2e3d4c 2@1/FF", nil))
		want("1/1A", far("it is at 1/A, 16 bytes before the position"))
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
		if err := g.Await(ended, Freshness{After: "app 2/1"}); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller has gone: %v", err)
		}
	})
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
		must(t, source.Record(ctx, ledger.Position(position), []SourceChange{{User: "1", Kind: "block", Target: fmt.Sprint("a", i), At: time.Now(), Added: []ledger.Span{{}}}}))
		must(t, g.Await(ctx, Freshness{After: position}))
		g.want(t, "1", "block", fmt.Sprint("a", i), Direct)
	}
	down := &faulttest.Faults{}
	g.open(t, g.ledger.Around(down.Around), g.store)
	_, err = g.Follow(ctx, "second", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	g.afterTimeout = time.Minute
	if err := g.Await(ctx, Freshness{After: "third 0/10"}); !invalid(err, CodeNotFollowed) {
		t.Errorf("no such source: %v", err)
	}
	down.Every = true
	if _, ok := errors.AsType[*UnavailableError](g.Await(ctx, Freshness{After: "app 0/50"})); !ok {
		t.Errorf("the ledger is down: %v", err)
	}
}

// A source that is not known is asked for by a poll that began after the call. One in progress may
// have read the ledger before the source was there.
func TestAwaitJoinsNoEarlierPoll(t *testing.T) {
	ctx := t.Context()
	g := newRig(t, &favfilter.Memory{}, 4)
	var armed atomic.Bool
	read, release := make(chan struct{}), make(chan struct{})
	hold := func(ctx context.Context, c *ledger.Call, next func(context.Context) error) error {
		err := next(ctx)
		if c.Operation == "changed" && armed.CompareAndSwap(true, false) {
			close(read)
			<-release
		}
		return err
	}
	g.open(t, g.ledger.Around(hold), g.store)
	var calls sync.WaitGroup
	reach := func(reached func([]ledger.Source) (bool, error)) {
		calls.Go(func() {
			if err := g.pages.Reach(ctx, reached); err != nil {
				t.Error(err)
			}
		})
	}
	polled := false
	armed.Store(true)
	reach(func([]ledger.Source) (done bool, err error) {
		done, polled = polled, true
		return done, nil
	})
	<-read
	_, err := g.ledger.Lease(ctx, "late", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	goOn := sync.OnceFunc(func() { close(release) })
	reach(func(sources []ledger.Source) (bool, error) {
		defer goOn()
		if len(sources) == 0 {
			return false, errors.New("no such source")
		}
		return true, nil
	})
	calls.Wait()
}

// TestFollowedWithin: an answer that has to be as fresh as some seconds waits until the sources of
// its kinds were followed that recently. A kind whose source was not followed for longer than the
// bound is named.
func TestFollowedWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		g := newRig(t, &favfilter.Memory{}, 4)
		g.afterTimeout = 20 * time.Millisecond
		polled := func() { // the second answer after the first is of a poll that began after this call
			t.Helper()
			answers := 0
			must(t, g.pages.Reach(ctx, func([]ledger.Source) (bool, error) {
				answers++
				return answers > 2, nil
			}))
		}
		within := func(kinds ...string) string {
			t.Helper()
			polled()
			want := Freshness{Within: time.Minute}
			for _, name := range kinds {
				k, _ := g.kinds.Named(name)
				want.Kinds = append(want.Kinds, k)
			}
			err := g.Await(ctx, want)
			late, ok := errors.AsType[*NotYetError](err)
			switch {
			case err == nil:
				return "fresh"
			case ok && late.Field == "within":
				return late.Source + " " + strings.SplitN(late.Reason, " at ", 2)[0]
			case invalid(err, CodeNotFollowed):
				return CodeNotFollowed
			default:
				return err.Error()
			}
		}
		behind := func() (all string) {
			polled()
			for _, d := range g.Behind(g.kinds.All()) {
				all += d.Kind + ": " + d.Reason + "\n"
			}
			return all
		}
		check := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		check("nothing is followed", within(), CodeNotFollowed)
		check("nothing is followed", behind(), "")
		app, err := g.Follow(ctx, "app", "one", []string{"block"}, time.Hour, false)
		must(t, err)
		check("not read yet", within(), "app nobody has followed it yet")
		check("not read yet", behind(), "block: its source \"app\" has not been read yet\n")
		must(t, app.Record(ctx, "0/1", nil))
		check("by a version that does not tell", within("block"), "app nobody has followed it yet")
		check("by a version that does not tell", behind(), "")
		must(t, app.Renew(ctx, time.Hour, g.Now().Add(-2*time.Minute)))
		check("two minutes ago", within("block"), "app it was last followed")
		check("two minutes ago", behind(), "block: its source \"app\" has not been followed for 2m0s\n")
		check("two minutes ago, of another kind", within("hide", "like"), "fresh")
		app.Followed = g.Now().Add(-50 * time.Second)
		must(t, app.Record(ctx, "0/2", nil))
		check("50 seconds ago", within("block"), "fresh")
		check("50 seconds ago", behind(), "block: its source \"app\" has not been followed for 50s\n")
		_, err = g.Follow(ctx, "other", "one", []string{"hide"}, time.Hour, false)
		must(t, err)
		must(t, app.Renew(ctx, time.Hour, g.Now().Add(-20*time.Second)))
		check("another source", within("block"), "fresh")
		check("another source", within("like", "hide"), "other nobody has followed it yet")
		check("another source", within(), "other nobody has followed it yet")
		check("another source", behind(), "hide: its source \"other\" has not been read yet\n")
		g.followedWithin = -1
		check("without a bound", behind(), "")
	})
}
