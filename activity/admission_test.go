package activity

import (
	"context"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// hanging is a ledger that does not answer while it hangs.
type hanging struct {
	hangs atomic.Bool
	asked atomic.Int64 // number of calls that did not get an answer
}

func (h *hanging) around(ctx context.Context, _ *ledger.Call, next func(ctx context.Context) error) error {
	if !h.hangs.Load() {
		return next(ctx)
	}
	h.asked.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// takeProcessors takes all processors but for one, and returns a function that frees them.
func takeProcessors(t *testing.T, l *admission.Limiter) (free func()) {
	t.Helper()
	var all []func()
	for {
		done, ok := admission.Run(l.Begin(t.Context()))
		if !ok {
			break
		}
		all = append(all, done)
	}
	all[0]()
	return func() {
		for _, done := range all[1:] {
			done()
		}
	}
}

// While the ledger hangs, no call of a request holds a processor. Each that waits counts as one
// that waits for the ledger, unless it waits for a poll or a ping, which others share. Arguments
// are those of every method with a context: a new one needs some here.
func TestCallsThatWaitHoldNoProcessor(t *testing.T) {
	kinds := BuiltinKinds()
	hide, _ := kinds.Named("hide")
	block, _ := kinds.Named("block")
	seen, _ := kinds.Named(Seen)
	claims := []Claim{{Kind: &hide, Target: "p", Sides: Direct}}
	arguments := map[string][]any{
		"Audience":    {AudienceQuery{Owners: []Owner{{Facet: User, ID: "2"}}, Kinds: []Kind{block}, Deciding: 1, Users: []string{"1"}}},
		"Await":       {Freshness{After: "app 2/1"}},
		"Confirm":     {"1", claims},
		"Counts":      {"1"},
		"DeleteUser":  {"1"},
		"Export":      {"1", func(Activity) error { return nil }},
		"Follow":      {"other", "one", []string{"hide"}, time.Hour, false},
		"Get":         {"1", "hide", "p"},
		"Incoming":    {"1", "block", "", 10},
		"List":        {"1", "hide", "", 10},
		"Phrases":     {"1", &hide, 10},
		"Preview":     {"1", "hide", []string{"p"}},
		"Ready":       {},
		"RebuildPage": {uint32(0)},
		"Record":      {[]Activity{add("1", "hide", "q")}},
		"Release":     {"block"},
		"Repair":      {pages.PageAt{}},
		"Truth":       {"1", pages.PageAt{}, claims},
		"View":        {"1", []Kind{hide}},
		"Window":      {seen, "1"}, // from the store
	}
	waitsWithOthers := []string{"Audience", "Await", "Ready", "View"}
	contextType := reflect.TypeFor[context.Context]()
	var names []string
	for m := range reflect.TypeFor[*Recorder]().Methods() {
		if m.Type.NumIn() > 1 && m.Type.In(1) == contextType {
			names = append(names, m.Name)
		}
	}
	if known := slices.Sorted(maps.Keys(arguments)); !slices.Equal(names, known) {
		t.Fatalf("methods %q, arguments of %q", names, known)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang, limiter := &hanging{}, admission.NewLimiter()
				g := openKinds(t, openLedger(t, filepath.Join(t.TempDir(), "ledger.db"), 1).Around(hang.around), &favfilter.Memory{}, kinds)
				_, err := g.Follow(t.Context(), "app", "one", []string{"block"}, time.Hour, false)
				must(t, err)
				defer takeProcessors(t, limiter)()
				hang.hangs.Store(true)
				call := func(ctx context.Context) {
					values := []reflect.Value{reflect.ValueOf(ctx)}
					for _, a := range arguments[name] {
						values = append(values, reflect.ValueOf(a))
					}
					reflect.ValueOf(g.Recorder).MethodByName(name).Call(values)
				}
				ctx, cancel := context.WithCancel(t.Context())
				request := limiter.Begin(ctx)
				done, ok := admission.Run(request)
				if !ok {
					t.Fatal("no processor is free")
				}
				limiter.SetMaxWaiting(1)
				var calls sync.WaitGroup
				calls.Go(func() { call(request) })
				synctest.Wait()
				if waits := hang.asked.Load() > 0; waits == (name == "Window") {
					t.Fatalf("waits for the ledger: %v", waits)
				}
				if name != "Window" {
					other, ok := admission.Run(limiter.Begin(t.Context()))
					if !ok {
						t.Fatal("it holds a processor")
					}
					_, uncounted := admission.PauseForLedger(limiter.Begin(t.Context()))
					if shares := slices.Contains(waitsWithOthers, name); shares != uncounted {
						t.Errorf("it counts as one that waits for the ledger: %v, want %v", !uncounted, !shares)
					}
					other()
				}
				cancel()
				calls.Wait()
				done()
				hang.hangs.Store(false)
			})
		})
	}
}
