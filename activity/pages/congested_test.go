package pages

import (
	"context"
	"errors"
	"fmt"
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
)

// congestedLedger is a ledger that answers at once, but whose polls fail and whose questions about
// users and pages take long. With a limit, questions wait for one another, as for a connection.
type congestedLedger struct {
	pollsFail, hangs atomic.Bool
	delay            atomic.Int64 // of a question
	questions        atomic.Int64
	pings            atomic.Int64
}

func (l *congestedLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	switch c.Operation {
	case "changed":
		if l.pollsFail.Load() && !l.hangs.Load() {
			return faulttest.ErrInjected
		}
	case "place", "sequence":
		l.questions.Add(1)
		if err := sleep(ctx, time.Duration(l.delay.Load())); err != nil {
			return err
		}
	case "ping":
		l.pings.Add(1)
	default:
		return next(ctx)
	}
	if l.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return next(ctx)
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// congested returns two processes with one ledger and one store. The first one does nothing in the
// background. Polls of the second one fail, and it has noticed.
func congested(t *testing.T, pages uint32) (a, b *rig, l *congestedLedger) {
	t.Helper()
	of, store := newLedger(t, pages), &favfilter.Memory{}
	l = &congestedLedger{}
	a = newRigWith(t, store, of)
	b = startProcess(t, of.Around(l.around), store, Config{ScrubRate: 1})
	a.record(t, true, add("1", "hide", "before"))
	b.want(t, "1", "hide", "before", true)
	l.pollsFail.Store(true)
	time.Sleep(3 * time.Second)
	return a, b, l
}

// Polls fail, and so many requests wait for the ledger that a feed may not. It is refused. It is
// not answered from a page that lacks a write, however long ago that was acknowledged.
func TestFeedThatMayNotWaitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := congested(t, 1)
		limiter := admission.NewLimiter() // nobody may wait
		for i := range 20 {
			target := fmt.Sprint("p", i)
			a.lose(t, target)
			time.Sleep(b.known.Bound() + time.Duration(i)*time.Second)
			if v, err := b.view(limiter.Begin(t.Context()), "1"); !errors.Is(err, ErrOverloaded) {
				t.Errorf("a feed that may not wait: error %v, want ErrOverloaded; it has the hide: %v", err, err == nil && v.has("hide", target))
			}
			b.want(t, "1", "hide", target, true) // it may wait
		}
		if s := b.Stats(); s.LedgerDown {
			t.Error("the ledger counts as unreachable")
		}
	})
}

// A page is newer than a process knows. A feed that may not ask the ledger whether it was set back
// is refused.
func TestNewerPageThatMayNotBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		a, b := newProcess(t, l, store), newProcess(t, l, store) // no scrub asks meanwhile
		b.want(t, "1", "hide", "p", false)
		a.record(t, true, add("1", "hide", "p"))
		if _, err := b.view(admission.NewLimiter().Begin(t.Context()), "1"); !errors.Is(err, ErrOverloaded) {
			t.Errorf("error %v, want ErrOverloaded", err)
		}
		b.want(t, "1", "hide", "p", true)
	})
}

// Polls fail, and a question takes long, but the ledger answers others at once. Feeds wait for the
// answer. After a limit they are refused. Never do they, or others, trust a page instead.
func TestSlowQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, l := congested(t, 1)
		for i := range 20 {
			target := fmt.Sprint("p", i)
			a.lose(t, target)
			time.Sleep(b.known.Bound() + time.Duration(i)*37*time.Millisecond)
			l.delay.Store(int64(600 * time.Millisecond))
			b.want(t, "1", "hide", target, true)
			if i%4 > 0 {
				continue
			}
			a.lose(t, "slow "+target)
			time.Sleep(b.known.Bound())
			l.delay.Store(int64(time.Minute))
			start := time.Now()
			if _, err := b.view(t.Context(), "1"); dependency(err) != "ledger" {
				t.Errorf("the ledger takes a minute: error %v, want that it is unavailable", err)
			}
			if took := time.Since(start); took > known.QuestionTimeout {
				t.Errorf("the feed was refused after %v, want %v at most", took, known.QuestionTimeout)
			}
			l.delay.Store(0)
			b.want(t, "1", "hide", "slow "+target, true)
		}
		if s := b.Stats(); s.LedgerDown {
			t.Error("the ledger counts as unreachable")
		}
	})
}

// The ledger hangs while a question waits: it answered the last ping, and none since. The feed is
// answered from its page, although the time of the question was up before the next ping was.
func TestLedgerHangsDuringASlowQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		var pollsFail, questionsHang, pingsHang atomic.Bool
		hangs := func(on *atomic.Bool) func(context.Context) error {
			return func(ctx context.Context) error {
				if on.Load() {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		}
		partly := l.Around(before(failing(&pollsFail), "changed"))
		partly = partly.Around(before(hangs(&questionsHang), "place", "sequence"))
		partly = partly.Around(before(hangs(&pingsHang), "ping"))
		a, b := newRigWith(t, store, l), startProcess(t, partly, store, Config{ScrubRate: 1})
		a.record(t, true, add("1", "hide", "p"))
		b.want(t, "1", "hide", "p", true)
		pollsFail.Store(true)
		time.Sleep(3 * time.Second)
		questionsHang.Store(true)
		time.AfterFunc(known.QuestionTimeout-known.PingAfter/2, func() { pingsHang.Store(true) })
		start := time.Now()
		b.want(t, "1", "hide", "p", true)
		if took := time.Since(start); took < known.QuestionTimeout || took > known.QuestionTimeout+known.PingTimeout {
			t.Errorf("the feed took %v, want between %v and %v", took, known.QuestionTimeout, known.QuestionTimeout+known.PingTimeout)
		}
		if s := b.Stats(); !s.LedgerDown {
			t.Error("the ledger counts as reachable")
		}
	})
}

// A question fails at once, but the ledger answers a ping. The feed is refused.
func TestFailedQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		var fails atomic.Bool
		partly := l.Around(before(failing(&fails), "changed", "place"))
		a, b := newRigWith(t, store, l), startProcess(t, partly, store, Config{ScrubRate: 1})
		a.record(t, true, add("1", "hide", "before"))
		b.want(t, "1", "hide", "before", true)
		fails.Store(true)
		time.Sleep(3 * time.Second)
		a.lose(t, "p")
		time.Sleep(b.known.Bound())
		for range 3 {
			if _, err := b.view(t.Context(), "1"); dependency(err) != "ledger" || !errors.Is(err, faulttest.ErrInjected) {
				t.Errorf("error %v, want that the ledger is unavailable", err)
			}
		}
		fails.Store(false)
		b.want(t, "1", "hide", "p", true)
	})
}

// A ledger that restarts refuses a question, and answers the ping after it. The feed asks again.
func TestQuestionDuringARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		var pollsFail atomic.Bool
		var refusals atomic.Int64
		partly := l.Around(before(failing(&pollsFail), "changed"))
		partly = partly.Around(before(func(context.Context) error {
			if refusals.Add(-1) >= 0 {
				return faulttest.ErrInjected
			}
			return nil
		}, "place"))
		a, b := newRigWith(t, store, l), startProcess(t, partly, store, Config{ScrubRate: 1})
		a.record(t, true, add("1", "hide", "before"))
		b.want(t, "1", "hide", "before", true)
		pollsFail.Store(true)
		time.Sleep(3 * time.Second)
		a.lose(t, "p")
		time.Sleep(b.known.Bound())
		refusals.Store(1)
		b.want(t, "1", "hide", "p", true)
		if refusals.Load() != -1 {
			t.Errorf("%d questions are left to be refused", refusals.Load())
		}
	})
}

// The ledger hangs while feeds ask it about their pages. It counts as unreachable after a bound:
// the feeds that wait are answered then, from the pages, and later ones at once.
func TestQuestionsToALedgerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, l := congested(t, 1)
		time.Sleep(7 * time.Millisecond) // no poll ends at the same time
		l.hangs.Store(true)
		l.pings.Store(0)
		start := time.Now()
		var feeds sync.WaitGroup
		for range 20 {
			feeds.Go(func() { b.want(t, "1", "hide", "before", true) })
		}
		feeds.Wait()
		if took := time.Since(start); took < time.Second/2 || took > known.HangBound {
			t.Errorf("20 feeds waited %v, want %v at most", took, known.HangBound)
		}
		if n := l.pings.Load(); n != 1 {
			t.Errorf("20 feeds pinged the ledger %d times, want once", n)
		}
		if err := b.Readable(); err == nil {
			t.Error("feeds that waited for a ledger that hangs wait for it again to confirm what they found")
		}
		l.questions.Store(0)
		start = time.Now()
		for range 20 {
			b.want(t, "1", "hide", "before", true)
		}
		if took := time.Since(start); took > 0 || l.questions.Load() > 0 {
			t.Errorf("20 later feeds waited %v, and asked %d questions", took, l.questions.Load())
		}
		time.Sleep(time.Minute)
		start = time.Now()
		b.want(t, "1", "hide", "before", true)
		if took := time.Since(start); took > 0 || !b.Stats().LedgerDown {
			t.Errorf("a minute later a feed waited %v; the ledger is down: %v", took, b.Stats().LedgerDown)
		}
	})
}

// The ledger answers a poll while a ping of it hangs. It does not count as unreachable.
func TestPingThatIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, l := congested(t, 1)
		a.lose(t, "p")
		time.Sleep(b.known.Bound() + 7*time.Millisecond)
		l.hangs.Store(true)
		refused := make(chan error)
		go func() {
			_, err := b.view(t.Context(), "1")
			refused <- err
		}()
		time.Sleep(known.PingAfter + known.PingTimeout/2) // the ping of the question waits
		l.hangs.Store(false)
		b.want(t, "1", "hide", "p", true)
		if err := <-refused; err == nil {
			t.Error("a question that hangs was answered from the page")
		}
		b.want(t, "1", "hide", "p", true)
		if b.Stats().LedgerDown {
			t.Error("the ledger counts as unreachable")
		}
	})
}

// A feed with 20 lists asks where their owners are in one question, while polls fail.
func TestListsAreOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, l := congested(t, 64)
		users := a.onEach(21)
		for i, user := range users {
			a.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
		}
		time.Sleep(b.known.Bound())
		l.delay.Store(int64(200 * time.Millisecond))
		l.questions.Store(0)
		views, hashes := b.views(t, users)
		start := time.Now()
		read, err := b.Read(t.Context(), Query{User: hashes[0], Page: true, Lists: hashes[1:]})
		must(t, err)
		if took := time.Since(start); took > 200*time.Millisecond || l.questions.Load() != 1 {
			t.Errorf("a feed with 20 lists waited %v for %d questions, want one", took, l.questions.Load())
		}
		views[0].Answer = read
		for i, list := range read.Lists {
			views[i+1].Answer = list
		}
		wantHidden(t, views, 1)
	})
}

// Polls succeed, and another process has just changed the pages of 20 lists. A feed asks about all
// of them at the same time.
func TestNewerListsAreAskedForAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, store := newLedger(t, 64), &favfilter.Memory{}
		l := &congestedLedger{}
		a, b := newProcess(t, of, store), newProcess(t, of.Around(l.around), store) // no scrub asks meanwhile
		users := a.onEach(20)
		for i, user := range users {
			a.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
		}
		l.delay.Store(int64(200 * time.Millisecond))
		start := time.Now()
		wantHidden(t, b.readLists(t, users), 1)
		if took := time.Since(start); took > 200*time.Millisecond || l.questions.Load() != 20 {
			t.Errorf("a feed with 20 lists waited %v for %d questions", took, l.questions.Load())
		}
	})
}

// A process that is closed trusts no page that it cannot judge.
func TestReadAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := congested(t, 1)
		a.lose(t, "p")
		b.Close()
		time.Sleep(time.Minute)
		if _, err := b.view(t.Context(), "1"); !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	})
}

// The ledger hangs, and counts as unreachable. Feeds that cannot do without it fail at once: of a
// page that Redis has lost, without Redis, or of a page that a heavy user has left.
func TestFeedsThatNeedALedgerThatHangs(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, a, b *rig, store *partitioned){
		"the page is lost": func(t *testing.T, a, _ *rig, _ *partitioned) {
			t.Helper()
			a.losePages(t, 0)
		},
		"Redis is down": func(_ *testing.T, _, _ *rig, store *partitioned) { store.down.Store(true) },
		"a user has left the page": func(t *testing.T, a, _ *rig, _ *partitioned) {
			t.Helper()
			must(t, a.applier.dedicate(t.Context(), a.hashOf("bot")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hanging, store := &hangingLedger{}, &partitioned{Store: &favfilter.Memory{}}
				a := newRigWith(t, store.Store, newLedger(t, 1))
				a.recordMany(t, "bot", "hide", 10, posts("b"))
				a.record(t, true, add("1", "hide", "p"))
				b := startProcess(t, a.ledger.Around(hanging.around), store, Config{ScrubRate: 1})
				b.want(t, "1", "hide", "p", true)
				hanging.hangs.Store(true)
				time.Sleep(10*time.Second + 7*time.Millisecond)
				harm(t, a, b, store)
				for range 3 {
					start := time.Now()
					if _, err := b.view(t.Context(), "1"); dependency(err) != "ledger" {
						t.Errorf("error %v, want that the ledger is unavailable", err)
					}
					if took := time.Since(start); took > 0 {
						t.Errorf("a feed took %v to fail", took)
					}
				}
			})
		})
	}
}

// A list's page must not be used: it lacks a write, its owner has left it, or the ledger does not
// tell. It is judged as the page of a user is.
func TestListsAreJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		var fails atomic.Bool
		a, b := newRigWith(t, store, l), startProcess(t, l.Around(before(failing(&fails), "changed", "place")), store, Config{ScrubRate: 1})
		list := []string{"1"}
		want := func(post string) {
			t.Helper()
			if !b.readLists(t, list)[0].has("hide", post) {
				t.Errorf("%s is missed", post)
			}
		}
		a.record(t, true, add("1", "hide", "before"))
		want("before")
		a.lose(t, "lost")
		time.Sleep(b.known.Bound())
		want("lost")
		must(t, a.applier.dedicate(t.Context(), a.hashOf("1")))
		a.record(t, true, add("1", "hide", "moved"))
		want("moved")
		fails.Store(true)
		time.Sleep(3 * time.Second)
		if _, err := b.Read(t.Context(), Query{Lists: []uint64{b.hashOf("1")}}); dependency(err) != "ledger" {
			t.Errorf("the ledger does not tell where the list is: error %v", err)
		}
	})
}
