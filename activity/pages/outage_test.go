package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/admission"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

// partitioned is a store that is unavailable while down is set.
type partitioned struct {
	favfilter.Store
	down atomic.Bool
}

func (s *partitioned) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	if s.down.Load() {
		return nil, nil, faulttest.ErrInjected
	}
	return s.Store.Load(ctx, ids, held...)
}

func (s *partitioned) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	if s.down.Load() {
		return faulttest.Down().Apply(ctx, batches)
	}
	return s.Store.Apply(ctx, batches)
}

func (s *partitioned) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if s.down.Load() {
		return false, faulttest.ErrInjected
	}
	return s.Store.Replace(ctx, r)
}

func (s *partitioned) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	if s.down.Load() {
		return nil, faulttest.ErrInjected
	}
	return s.Store.Peek(ctx, ids)
}

// A process without the store acknowledges a write only when all others know of it. From then on
// they see the write at once, even though the store never got it.
func TestWritesWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, shared := newLedger(t, 1), &favfilter.Memory{}
		const bound = time.Second
		cut := &partitioned{Store: shared}
		a := startProcess(t, l, cut, Config{StalenessBound: bound, ScrubRate: 1})
		b := startProcess(t, l, shared, Config{StalenessBound: bound, ScrubRate: 1})
		a.record(t, true, add("1", "hide", "p"))
		cut.down.Store(true)
		for i := range 30 {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			target, start := fmt.Sprint("q", i), time.Now()
			a.record(t, true, add("1", "hide", target))
			if took := time.Since(start); took < bound || took > bound+known.PollTimeout {
				t.Errorf("acknowledged after %v, want the bound of %v", took, bound)
			}
			b.want(t, "1", "hide", target, true)
			a.want(t, "1", "hide", target, true)
			a.record(t, true, undo("1", "hide", target))
			b.want(t, "1", "hide", target, false)
			a.want(t, "1", "hide", target, false)
		}
		if n := a.Stats().WithoutPage; n != 60 {
			t.Errorf("%d writes without a page, want 60", n)
		}
	})
}

// A write fails if both the store and the ledger's polls are unavailable, because other processes
// may not know of it.
func TestWritesWithoutEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		down := &slowLedger{}
		p := startProcess(t, l.Around(down.around), faulttest.Down(), Config{})
		down.fails.Store(true)
		_, err := p.Record(t.Context(), []act{add("1", "hide", "p")})
		if dependency(err) != "pages" || !errors.Is(err, faulttest.ErrInjected) {
			t.Errorf("error %v", err)
		}
		down.fails.Store(false)
		p.record(t, false, add("1", "hide", "p"))
		p.want(t, "1", "hide", "p", true)
	})
}

// The ledger fails within the bound after a commit, perhaps before other processes heard of the
// write. Without the store, such a write is not acknowledged.
func TestLedgerEndsWithinTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		ending := &slowLedger{}
		p := startProcess(t, l.Around(ending.around), faulttest.Down(), Config{StalenessBound: time.Second})
		time.Sleep(250 * time.Millisecond)
		go func() {
			time.Sleep(700 * time.Millisecond) // after the next poll
			ending.fails.Store(true)
		}()
		if _, err := p.Record(t.Context(), []act{add("1", "hide", "p")}); dependency(err) != "pages" {
			t.Errorf("error %v", err)
		}
	})
}

// While the store is down, a page made from the ledger is used only if the ledger can be read
// again. Otherwise a View fails at once: its answer might lack the writes of others.
func TestImagesNeedTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		ending := &slowLedger{}
		p := startProcess(t, l.Around(ending.around), faulttest.Down(), Config{StalenessBound: time.Second})
		p.record(t, true, add("1", "hide", "p"))
		p.want(t, "1", "hide", "p", true)
		ending.fails.Store(true)
		ending.unreadable.Store(true)
		for range 2 {
			start := time.Now()
			if _, err := p.view(t.Context(), "1"); dependency(err) != "ledger" {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took > 0 {
				t.Errorf("a feed took %v", took)
			}
			time.Sleep(3 * time.Second)
		}
		ending.unreadable.Store(false)
		ending.fails.Store(false)
		time.Sleep(time.Second)
		p.want(t, "1", "hide", "p", true)
	})
}

// hangingLedger does not answer while it hangs, until the caller's context ends.
type hangingLedger struct {
	hangs atomic.Bool
	polls atomic.Int64
}

func (l *hangingLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	switch c.Operation {
	case "changed":
		l.polls.Add(1)
		fallthrough
	case "sequence", "place", "ping", "keys":
		if l.hangs.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	return next(ctx)
}

// While the ledger is known to hang, feeds do not wait for it, even if others have changed the page
// since.
func TestFeedsWhileTheLedgerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		hanging := &hangingLedger{}
		a := startProcess(t, l.Around(hanging.around), store, Config{ScrubRate: 1})
		b := startProcess(t, l, store, Config{ScrubRate: 1})
		a.record(t, true, add("1", "hide", "p0"))
		time.Sleep(3 * time.Second)
		hanging.hangs.Store(true)
		b.record(t, true, add("1", "hide", "p1"))
		time.Sleep(10 * time.Second)
		for range 3 {
			start := time.Now()
			a.want(t, "1", "hide", "p1", true)
			if took := time.Since(start); took > 0 {
				t.Errorf("a feed took %v", took)
			}
		}
	})
}

// A feed whose page is not in the store waits for a rebuild only until it is clear that the ledger
// hangs. The page never had a key, so it is empty.
func TestFeedsWithoutAPageOnceTheLedgerHangs(t *testing.T) {
	for _, later := range []time.Duration{0, 200 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			hanging := &hangingLedger{}
			p := startProcess(t, newLedger(t, 1).Around(hanging.around), &favfilter.Memory{}, Config{ScrubRate: 1})
			hanging.hangs.Store(true)
			time.Sleep(later)
			start := time.Now()
			p.want(t, "1", "hide", "p", false)
			if took := time.Since(start); took > known.HangBound {
				t.Errorf("%v after the ledger hangs, a feed took %v", later, took)
			}
		})
	}
}

// The first write to a page needs a rebuild, for which the ledger hangs. The writer has had no
// answer, so feeds of the page do without the write.
func TestFeedsAfterAFirstWriteOnceTheLedgerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := &hangingLedger{}
		l := newLedger(t, 1).Around(func(ctx context.Context, c *ledger.Call, next func(context.Context) error) error {
			err := hanging.around(ctx, c, next)
			if c.Operation == "record" {
				hanging.hangs.Store(true)
			}
			return err
		})
		p := startProcess(t, l, &favfilter.Memory{}, Config{ScrubRate: 1})
		if _, err := p.Record(t.Context(), []act{add("1", "hide", "p")}); !ledgerDown(err) {
			t.Errorf("a write to a page that cannot be placed: %v", err)
		}
		if known := p.sequences.Of(0).Known.Load(); known != 1 {
			t.Fatalf("the ledger is known to have change %d, want 1", known)
		}
		start := time.Now()
		for _, user := range []string{"1", "2"} {
			p.want(t, user, "hide", "p", false)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("two feeds took %v", took)
		}
	})
}

// A process repeats a write that another process has acknowledged. So it knows of the write without
// a poll. Then the page is lost or set back, and the ledger hangs: nobody can tell what the page
// lacks.
func TestFeedsAfterARepeatedWriteOnceTheLedgerHangs(t *testing.T) {
	for _, before := range []int{0, 1} { // writes in the page that remains
		synctest.Test(t, func(t *testing.T) {
			hanging, repeats := &hangingLedger{}, false
			l := newLedger(t, 1).Around(func(ctx context.Context, c *ledger.Call, next func(context.Context) error) error {
				err := hanging.around(ctx, c, next)
				if c.Operation == "record" && repeats {
					hanging.hangs.Store(true)
				}
				return err
			})
			store := &favfilter.Memory{}
			a := startProcess(t, l, store, Config{ScrubRate: 1})
			b := startProcess(t, l, store, Config{ScrubRate: 1})
			lose := func() { a.losePages(t, 0) }
			if before > 0 {
				b.record(t, true, add("1", "hide", "before"))
				a.pollNow(t)
				lose = setBack(t, store, a.layout.PageID(0))
			}
			b.record(t, true, add("1", "hide", "p"))
			lose()
			repeats = true
			if _, err := a.Record(t.Context(), []act{add("1", "hide", "p")}); !ledgerDown(err) {
				t.Errorf("the repeated write: %v", err)
			}
			if _, err := a.view(t.Context(), "1"); !ledgerDown(err) {
				t.Errorf("a feed of a page that has %d of %d writes: %v", before, before+1, err)
			}
		})
	}
}

// The rebuild of a large page takes minutes. It outlasts a ledger that hangs for three seconds.
func TestLargeRebuildOutlastsAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		answers := make(chan struct{})
		l := newLedger(t, 1).Around(func(ctx context.Context, _ *ledger.Call, next func(context.Context) error) error {
			if hangs.Load() {
				select {
				case <-answers:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return next(ctx)
		})
		p := startProcess(t, l, &favfilter.Memory{}, Config{ScrubRate: 1})
		p.record(t, true, add("1", "hide", "p"))
		p.rebuilder.rebuilds.mu.Lock()
		p.rebuilder.rebuilds.failed[0] = failure{slow: true}
		p.rebuilder.rebuilds.mu.Unlock()
		hangs.Store(true)
		rebuilt := make(chan error)
		go func() {
			_, err := p.RebuildPage(t.Context(), 0)
			rebuilt <- err
		}()
		time.Sleep(3 * time.Second)
		if p.known.Access() != known.Unreachable {
			t.Error("the ledger hangs, and is not known to")
		}
		close(answers)
		must(t, <-rebuilt)
	})
}

// A page in the store that is newer than this process knows is used as soon as the ledger does not
// tell in time whether it was restored.
func TestNewerPageWhileTheLedgerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		hanging := &hangingLedger{}
		a := startProcess(t, l.Around(hanging.around), store, Config{ScrubRate: 1})
		b := startProcess(t, l, store, Config{ScrubRate: 1})
		a.record(t, true, add("1", "hide", "p0"))
		b.record(t, true, add("1", "hide", "p1"))
		hanging.hangs.Store(true)
		start := time.Now()
		a.want(t, "1", "hide", "p1", true)
		if took := time.Since(start); took > known.HangBound {
			t.Errorf("a feed took %v", took)
		}
	})
}

// Close drops rebuilds whose callers have canceled, and does not wait for the bound.
func TestCloseIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1024)
		hanging := &hangingLedger{}
		p := startProcess(t, l.Around(hanging.around), faulttest.Down(), Config{StalenessBound: time.Minute})
		undecided := make(chan error)
		go func() {
			_, err := p.Record(t.Context(), []act{add("1", "hide", "p")})
			undecided <- err
		}()
		synctest.Wait()
		hanging.hangs.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 2000 {
			go func() { _, _ = p.view(ctx, fmt.Sprint("u", i)) }()
		}
		synctest.Wait()
		cancel()
		start := time.Now()
		closed := make(chan struct{})
		go func() {
			p.Close()
			close(closed)
		}()
		if err := <-undecided; dependency(err) != "pages" {
			t.Errorf("error %v", err)
		}
		<-closed
		if took := time.Since(start); took > pageTimeout {
			t.Errorf("Close took %v", took)
		}
	})
}

// unversioned is a store that is down, and that cannot tell versions either.
type unversioned struct{ faulttest.Store }

func (s unversioned) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	if len(ids) == 0 {
		return nil, nil, nil
	}
	return s.Store.Load(ctx, ids, held...)
}

// A read of versions alone, which reports no error, does not make the store count as one that
// answers.
func TestVersionsSayNothingOfTheStore(t *testing.T) {
	s := &storage{life: lifecycle.New(t.Context()), store: unversioned{faulttest.Down()}, log: slog.New(slog.DiscardHandler)}
	if _, err := s.load(t.Context(), []favfilter.PageID{{}}); err == nil || !s.storeDown.Load() {
		t.Fatalf("the store that is down answers: %v", err)
	}
	if _, versions, err := s.loadWithin(t.Context(), time.Second, nil, []favfilter.PageID{{}}); err != nil || versions != nil {
		t.Errorf("versions %v, %v", versions, err)
	}
	if !s.storeDown.Load() {
		t.Error("the store counts as one that answers")
	}
}

// A process that is cut off from the store sees what others record there, although they do not wait
// for it. It uses no page that it rebuilt before, nor one whose rebuild began before.
func TestCutOffProcessSeesWritesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, shared := newLedger(t, 1), &favfilter.Memory{}
		cut, late := &partitioned{Store: shared}, &heldLedger{}
		a := startProcess(t, l.Around(late.around), cut, Config{StalenessBound: time.Second, ScrubRate: 1})
		b := startProcess(t, l, shared, Config{StalenessBound: time.Second, ScrubRate: 1})
		a.record(t, true, add("1", "hide", "p"))
		cut.down.Store(true)
		for i := range 30 {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			a.want(t, "1", "hide", "p", true) // on a page that stays in the process
			target, start := fmt.Sprint("q", i), time.Now()
			b.record(t, true, add("1", "hide", target))
			if took := time.Since(start); took != 0 {
				t.Errorf("a healthy process waited for %v", took)
			}
			a.want(t, "1", "hide", target, true)
			b.record(t, true, undo("1", "hide", target))
			a.want(t, "1", "hide", target, false)
		}
		for i := range 30 {
			target := fmt.Sprint("r", i)
			b.record(t, true, add("1", "hide", target)) // what is in the process is stale
			release := late.hold()
			var early, joined sync.WaitGroup
			early.Go(func() { a.want(t, "1", "hide", target, true) })
			synctest.Wait()
			b.record(t, true, undo("1", "hide", target))
			for range 3 {
				joined.Go(func() { a.want(t, "1", "hide", target, false) })
			}
			synctest.Wait()
			release()
			early.Wait()
			joined.Wait()
		}
		if s := a.Stats(); s.FromLedger <= s.Rebuilds["missing"] {
			t.Errorf("%d views while the store is down, and %v rebuilds: no held page was used", s.FromLedger, s.Rebuilds)
		}
	})
}

// A process without the store, whose polls and questions about a user's page fail, cannot tell
// whether a page that it rebuilt before is current. It rebuilds the page.
func TestHeldPageThatNobodyConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, shared := newLedger(t, 1), &favfilter.Memory{}
		cut := &partitioned{Store: shared}
		var failing atomic.Bool
		partly := l.Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
			if failing.Load() && (c.Operation == "changed" || c.Operation == "place") {
				return faulttest.ErrInjected
			}
			return next(ctx)
		})
		a := startProcess(t, partly, cut, Config{StalenessBound: time.Second, ScrubRate: 1})
		b := startProcess(t, l, shared, Config{StalenessBound: time.Second, ScrubRate: 1})
		b.record(t, true, add("1", "hide", "p"))
		cut.down.Store(true)
		a.want(t, "1", "hide", "p", true) // rebuilt, and held
		failing.Store(true)
		time.Sleep(3 * time.Second)
		for i := range 5 {
			target := fmt.Sprint("q", i)
			b.record(t, true, add("1", "hide", target))
			a.want(t, "1", "hide", target, true)
		}
	})
}

// A process without the store holds the page that a user has left since its last poll. It does not
// take that page for the user's.
func TestHeldPageThatItsUserLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, shared := newLedger(t, 1), &favfilter.Memory{}
		cut := &partitioned{Store: shared}
		a := startProcess(t, l, cut, Config{StalenessBound: time.Minute, ScrubRate: 1})
		b := startProcess(t, l, shared, Config{StalenessBound: time.Minute, ScrubRate: 1})
		for i := range 10 {
			b.record(t, true, add("1", "hide", fmt.Sprint("p", i)))
		}
		cut.down.Store(true)
		a.want(t, "1", "hide", "p0", true) // rebuilt, and held
		must(t, b.applier.dedicate(t.Context(), UserHash(b.storage.identity.Seed, "1")))
		b.record(t, true, add("1", "hide", "late"))
		a.want(t, "1", "hide", "late", true)
	})
}

// heldLedger reads the keys of a page, and returns them later while it is held.
type heldLedger struct {
	held atomic.Pointer[chan struct{}]
}

// hold delays reads that begin from now on until release is called.
func (l *heldLedger) hold() (release func()) {
	held := make(chan struct{})
	l.held.Store(&held)
	return func() {
		l.held.Store(nil)
		close(held)
	}
}

func (l *heldLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	err := next(ctx)
	if held := l.held.Load(); held != nil && c.Operation == "keys" {
		<-*held
	}
	return err
}

// While the ledger is known to hang, writes are refused at once. They work again as soon as it
// answers, however long the next poll in the background is away.
func TestWritesWhileTheLedgerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		hanging := &hangingLedger{}
		p := startProcess(t, l.Around(hanging.around), &favfilter.Memory{}, Config{ScrubRate: 1, StalenessBound: time.Minute})
		p.record(t, true, add("1", "hide", "p0"))
		hanging.hangs.Store(true)
		time.Sleep(2 * time.Minute)
		for range 3 {
			start := time.Now()
			if _, err := p.Record(t.Context(), []act{add("1", "hide", "p1")}); dependency(err) != "ledger" {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took > 0 {
				t.Errorf("a write took %v", took)
			}
		}
		hanging.hangs.Store(false)
		_, _ = p.Record(t.Context(), []act{add("1", "hide", "p1")}) // starts a poll
		synctest.Wait()
		time.Sleep(known.PollTimeout + known.PingTimeout) // of the poll that hangs
		_, _ = p.Record(t.Context(), []act{add("1", "hide", "p1")})
		synctest.Wait()
		p.record(t, false, add("1", "hide", "p1"))
	})
}

// A question that the ledger does not answer in time, such as one that needs a new connection,
// refuses no writes. Polls have a connection of their own, and it works.
func TestWritesAfterAnUnansweredQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		unanswered := &accessLedger{}
		a := startProcess(t, l.Around(unanswered.around), store, Config{ScrubRate: 1})
		b := startProcess(t, l, store, Config{ScrubRate: 1})
		a.record(t, true, add("1", "hide", "p0"))
		b.record(t, true, add("1", "hide", "p1"))
		unanswered.places.Store(true)
		a.want(t, "1", "hide", "p1", true) // asks for the sequence of its page
		a.record(t, true, add("1", "hide", "p2"))
	})
}

// A feed that waits for a rebuild holds no processor, and only so many feeds wait.
func TestRebuildsHoldNoProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		held := &heldLedger{}
		p := startProcess(t, l.Around(held.around), &favfilter.Memory{}, Config{ScrubRate: 1})
		release := held.hold()
		limiter := admission.NewLimiter()
		const most = 100 * 32 // more than there are processors
		limiter.SetMaxWaiting(most)
		errs := make(chan error, most+1)
		for range most + 1 {
			ctx := limiter.Begin(t.Context())
			done, ok := admission.Run(ctx)
			if !ok {
				t.Fatal("no processor is free")
			}
			go func() {
				_, err := p.view(ctx, "1")
				done()
				errs <- err
			}()
			synctest.Wait()
		}
		if err := <-errs; !errors.Is(err, ErrOverloaded) {
			t.Errorf("error %v, want ErrOverloaded", err)
		}
		release()
		for range most {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// A feed that waits for a poll holds no processor.
func TestPollsHoldNoProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		pass := make(chan struct{})
		l := newLedger(t, 1)
		p := newProcess(t, l.Around(after(func(context.Context) error {
			if slow.Load() {
				<-pass
			}
			return nil
		}, "changed")), &favfilter.Memory{})
		p.record(t, true, add("1", "hide", "p"))
		time.Sleep(2 * time.Minute)
		slow.Store(true)
		limiter := admission.NewLimiter()
		const feeds = 100 * 32 // more than there are processors
		errs := make(chan error, feeds)
		for range feeds {
			ctx := limiter.Begin(t.Context())
			done, ok := admission.Run(ctx)
			if !ok {
				close(pass)
				t.Fatal("no processor is free")
			}
			go func() {
				_, err := p.view(ctx, "1")
				done()
				errs <- err
			}()
			synctest.Wait()
		}
		close(pass)
		for range feeds {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// jammed is a store in which no removal has bits to clear, while on is set.
type jammed struct {
	favfilter.Store

	on atomic.Bool
}

func (s *jammed) Apply(ctx context.Context, batches []favfilter.Batch) (results []favfilter.Result) {
	if !s.on.Load() {
		return s.Store.Apply(ctx, batches)
	}
	for _, b := range batches {
		if len(b.Remove) == 0 {
			results = append(results, s.Store.Apply(ctx, []favfilter.Batch{b})...)
			continue
		}
		statuses, err := s.Peek(ctx, []favfilter.PageID{b.ID})
		res := favfilter.Result{State: favfilter.Jammed, Err: err}
		if err == nil {
			res.Header = statuses[0].Header
			if res.Header.Sequence != b.Sequence-1 {
				res.State = favfilter.Behind
			}
		}
		results = append(results, res)
	}
	return results
}

// endingLedger is a ledger of which all but transactions fail after the next of these.
type endingLedger struct{ ends, down atomic.Bool }

func (l *endingLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	if c.Operation != "record" && l.down.Load() {
		return faulttest.ErrInjected
	}
	err := next(ctx)
	if c.Operation == "record" && l.ends.Load() {
		l.down.Store(true)
	}
	return err
}

// The ledger ends after a commit, and the page needs a rebuild for the change. The write fails, and
// so do later ones that were committed. Feeds are answered without them.
func TestLedgerEndsBeforeARebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &jammed{Store: &favfilter.Memory{}}
		ending := &endingLedger{}
		a := startProcess(t, l.Around(ending.around), store, Config{StalenessBound: time.Second, ScrubRate: 1})
		a.record(t, true, add("1", "hide", "first"))
		a.record(t, true, add("1", "hide", "second"))
		store.on.Store(true)
		ending.ends.Store(true)
		var writes sync.WaitGroup
		for _, target := range []string{"first", "second"} {
			writes.Go(func() {
				if _, err := a.Record(t.Context(), []act{undo("1", "hide", target)}); err == nil {
					t.Errorf("the undo of %s was acknowledged", target)
				}
			})
			time.Sleep(time.Microsecond) // the second one is committed after the first, and is behind
		}
		writes.Wait()
		a.want(t, "1", "hide", "first", true)
		a.want(t, "1", "hide", "second", true)
		ending.ends.Store(false)
		ending.down.Store(false)
		store.on.Store(false)
		time.Sleep(10 * time.Second) // until a poll
		for _, target := range []string{"first", "second"} {
			a.record(t, false, undo("1", "hide", target))
			a.want(t, "1", "hide", target, false)
		}
	})
}

// The same, but another process has lost its change of the page before: nobody knows whether that
// was acknowledged. Feeds are refused.
func TestLedgerEndsBeforeARebuildForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, shared := newLedger(t, 1), &favfilter.Memory{}
		ending, cut := &endingLedger{}, &partitioned{Store: shared}
		a := startProcess(t, l.Around(ending.around), shared, Config{StalenessBound: time.Second, ScrubRate: 1})
		b := startProcess(t, l, cut, Config{StalenessBound: time.Second, ScrubRate: 1})
		a.record(t, true, add("1", "hide", "first"))
		cut.down.Store(true)
		go func() { _, _ = b.Record(context.WithoutCancel(t.Context()), []act{add("1", "hide", "lost")}) }()
		synctest.Wait()
		ending.ends.Store(true)
		if _, err := a.Record(t.Context(), []act{add("1", "hide", "second")}); err == nil {
			t.Error("the write was acknowledged")
		}
		if _, err := a.view(t.Context(), "1"); dependency(err) != "ledger" || !strings.Contains(fmt.Sprint(err), "page 0 is behind at 1, and 2 is required") {
			t.Errorf("error %v", err)
		}
	})
}
