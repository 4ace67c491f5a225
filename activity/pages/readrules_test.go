package pages

import (
	"context"
	"errors"
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

// The rules of readers, one test each: which page serves a feed while a store, a poll or a question
// fails.

// Another process gives the user of a list a dedicated page. A write to the shared page tells this
// process the sequence of that page, but not of the move. The list is not read from that page,
// which lacks its activities now.
func TestListWhoseUserHasLeft(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		users := a.usersOn(t, 0, 2)
		list, mate := users[:1], users[1]
		if !b.readLists(t, list)[0].has("hide", "before") {
			t.Fatal("an activity is missed")
		}
		a.move(t, list[0])
		b.record(t, true, add(mate, "hide", "q"))
		if v := b.readLists(t, list)[0]; !v.has("hide", "before") || v.Number < ledger.DedicatedPages {
			t.Errorf("found %v on page %d, want it on the dedicated page", v.has("hide", "before"), v.Number)
		}
	})
}

// The page says each time that somebody left it, of whom the ledger does not know. The feed gets an
// error. It never gets an answer without a page.
func TestPageThatSomebodyLeavesEachTime(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.record(t, true, add("1", "hide", "p"))
	h := g.header(t, 0)
	h.Left++
	page, err := favfilter.NewPage(h)
	must(t, err)
	put(t, g.store, page)
	if v, err := g.view(t.Context(), "1"); dependency(err) != "ledger" {
		t.Errorf("error %v, want ledger unavailable; an answer without a page: %v", err, v.Page == nil)
	}
}

// If the store cannot be read, the page of the user comes from the ledger. The answer says that the
// store did not return what else was asked for.
func TestOthersWithoutStore(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g := newRig(t, watch, 1)
	g.record(t, true, add("1", "hide", "p"))
	watch.down.Store(true)
	q := Query{User: g.hashOf("1"), Page: true, Others: []favfilter.PageID{{Part: "seen.1"}}}
	a, err := g.Read(t.Context(), q)
	must(t, err)
	if a.Page == nil || !errors.Is(a.OthersErr, faulttest.ErrInjected) {
		t.Errorf("a page: %v; error of the others: %v, want that of the store", a.Page != nil, a.OthersErr)
	}
}

// A process that is cut off from the ledger takes a page for unused only if the store has none. If
// the store cannot be read either, or has a page that must not be used, a feed gets an error: the
// user may have blocked somebody since.
func TestUnusedPageWithoutStore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.userOn(1)
		b.pollNow(t)
		a.record(t, true, add(user, "hide", "p"))
		b.way.cut(true)
		b.steps.down.Store(true)
		b.wantUnavailable(t, "the store is down", user)
		b.steps.down.Store(false)

		h := w.header(t, 1)
		h.Identity.Seed++
		foreign, err := favfilter.NewPage(h)
		must(t, err)
		put(t, w.store, foreign)
		b.wantUnavailable(t, "the page is another ledger's", user)
	})
}

// The store cannot be read, and the ledger has nothing newer than a page that this process holds.
// The page is used as it is. The page of a user, which is not held, is rebuilt.
func TestHeldPageWithoutStore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		list, user := a.usersOn(t, 0, 1)[0], a.usersOn(t, 1, 1)[0]
		for rebuilds, q := range []Query{
			{Lists: []uint64{b.hashOf(list)}},
			{Lists: []uint64{b.hashOf(list)}, User: b.hashOf(user), Page: true},
		} {
			b.steps.down.Store(false)
			_, err := b.Read(t.Context(), q)
			must(t, err)
			b.steps.down.Store(true)
			got, err := b.Read(t.Context(), q)
			must(t, err)
			v := view{Answer: got.Lists[0], of: b.Pages, user: list}
			if !v.has("hide", "before") {
				t.Error("an activity is missed")
			}
			if n := sum(b.Stats().Rebuilds); n != uint64(rebuilds) {
				t.Errorf("%d rebuilds, want %d", n, rebuilds)
			}
		}
	})
}

// Neither the store nor the ledger can be read, and another process has written. A page that this
// process holds is not used, although nothing is known that it lacks.
func TestHeldPageWithoutStoreAndLedger(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		list := a.usersOn(t, 0, 1)
		b.pollNow(t)
		b.readLists(t, list)
		a.record(t, true, add(list[0], "hide", "q"))
		b.way.cut(true)
		if !b.readLists(t, list)[0].has("hide", "q") { // a question tells that the ledger is gone
			t.Fatal("the page in the store is not read")
		}
		a.record(t, true, add(list[0], "hide", "r"))
		b.steps.down.Store(true)
		time.Sleep(2 * time.Minute)
		if _, err := b.Read(t.Context(), Query{Lists: []uint64{b.hashOf(list[0])}}); dependency(err) != "ledger" {
			t.Errorf("error %v, want ledger unavailable", err)
		}
	})
}

// A held page has changed at the replica, too. It is read there with a second command, which does
// not read the user's page again.
func TestHeldPageChangesAtReplica(t *testing.T) {
	l, primary := newLedger(t, 2), &favfilter.Memory{}
	replica := &lagging{partitioned: partitioned{Store: &favfilter.Memory{}}, primary: primary}
	g, other := newProcess(t, l, primary), newRigWith(t, primary, l)
	g.reader.replica = replica
	user, list := g.userOn(0), g.userOn(1)
	other.record(t, true, add(user, "hide", "p"))
	other.record(t, true, add(list, "hide", "p"))
	g.pollNow(t)
	replica.catchUp(t, 0)
	replica.catchUp(t, 1)
	feed := Query{User: g.hashOf(user), Page: true, Lists: []uint64{g.hashOf(list)}}
	_, err := g.Read(t.Context(), feed)
	must(t, err)
	other.record(t, true, add(list, "hide", "q"))
	replica.catchUp(t, 1)
	a, err := g.Read(t.Context(), feed)
	must(t, err)
	of, lists := view{Answer: a, of: g.Pages, user: user}, view{Answer: a.Lists[0], of: g.Pages, user: list}
	if !of.has("hide", "p") || of.has("hide", "q") || !lists.has("hide", "q") {
		t.Error("a page is stale, or another user's")
	}
	g.wantReads(t, 4, 0, 0)
}

// behind makes polls of the process fail, and waits until its feeds ask the ledger.
func (p *member) behind(t *testing.T, user string) {
	t.Helper()
	p.pollNow(t)
	time.Sleep(2 * time.Minute)
	p.way.cut(false)
	p.want(t, user, "hide", "before", true)
	p.wantAccess(t, known.Behind)
}

// Polls fail, and the user moves while a feed reads the page. The feed asks for the same user
// again.
func TestUserMovesWhilePollsFail(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.usersOn(t, 1, 1)[0]
		b.behind(t, user)
		var page uint32
		b.steps.load = func() { page = a.move(t, user) }
		v, err := b.view(t.Context(), user)
		must(t, err)
		if !v.has("hide", "before") || v.Number != page {
			t.Errorf("found %v on page %d, want it on page %d", v.has("hide", "before"), v.Number, page)
		}
	})
}

// While polls fail, an answer of the ledger tells of a dedicated page. The page is read where it
// is, without a rebuild, and also once the ledger is gone.
func TestDedicatedPageLearnedByAQuestion(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.usersOn(t, 1, 1)[0]
		b.behind(t, user)
		page := a.move(t, user)
		b.wantOn(t, page, user, "before")
		b.way.cut(true)
		b.wantOn(t, page, user, "before")
		if n := sum(b.Stats().Rebuilds); n != 0 {
			t.Errorf("%d rebuilds", n)
		}
	})
}

// While polls fail, an answer of the ledger tells of a shared page. The user is looked for there
// only as long as the page is the user's.
func TestSharedPageLearnedByAQuestion(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.usersOn(t, 1, 1)[0]
		b.behind(t, user)
		w.build(t)
		w.change(t)
		w.leave(t)
		b.way.mend()
		b.pollNow(t)
		b.wantOn(t, b.pageIn(laterPages, user), user, "before")
	})
}

// While polls fail, but the ledger tells the required sequence, replicas are read.
func TestReplicaWhilePollsFail(t *testing.T) {
	g, replica := withReplica(t, 1)
	g.record(t, true, add("1", "hide", "p"))
	replica.catchUp(t, 0)
	fail := func(context.Context) error { return faulttest.ErrInjected }
	g.useAround(before(fail, "changed"))
	g.want(t, "1", "hide", "p", true)
	g.wantReads(t, 1, 0, 1) // the first write makes the page
}

// A feed is refused because the ledger did not answer the last poll. The feed begins the next one,
// so that later feeds are answered.
func TestRefusedFeedBeginsAPoll(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.usersOn(t, 1, 1)[0]
		b.pollNow(t)
		b.way.cut(true)
		_ = b.known.PollSince(t.Context(), b.life.Elapsed())
		a.losePages(t, 1)
		time.Sleep(2 * time.Minute)
		b.wantUnavailable(t, "the ledger is gone", user)
		b.way.mend()
		b.wantUnavailable(t, "the ledger has not been asked since", user)
		synctest.Wait()
		b.want(t, user, "hide", "before", true)
	})
}

// mutedLedger leaves one question about places unanswered while others are answered, and some
// pings.
type mutedLedger struct {
	place atomic.Bool  // the next question hangs
	pings atomic.Int64 // number of pings that are answered before the others are not; -1: all are
}

func (l *mutedLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	silent := false
	switch c.Operation {
	case "place":
		silent = l.place.CompareAndSwap(true, false)
	case "ping":
		if left := l.pings.Load(); left == 0 {
			silent = true
		} else if left > 0 {
			l.pings.Add(-1)
		}
	}
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return next(ctx)
}

// A question and the ping after it are not answered, but the ledger answers something else while
// the ping waits. It can be reached then: feeds go on to ask it, and see what the store has lost.
func TestLedgerAnswersDuringAPing(t *testing.T) {
	for name, answer := range map[string]func(t *testing.T, b *member, user string){
		"a question": func(t *testing.T, b *member, user string) {
			t.Helper()
			b.want(t, user, "hide", "before", true)
		},
		"a poll": func(t *testing.T, b *member, _ string) {
			t.Helper()
			b.way.polls.Store(false)
			b.pollNow(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				muted := &mutedLedger{}
				muted.pings.Store(-1)
				a, b := w.open(t, Config{}), w.open(t, Config{Ledger: w.ledger.Around(muted.around)})
				user := a.usersOn(t, 0, 1)[0]
				b.behind(t, user)
				muted.place.Store(true)
				muted.pings.Store(0)
				ended := make(chan struct{})
				go func() {
					_, _ = b.view(t.Context(), user)
					close(ended)
				}()
				time.Sleep(known.PingAfter + time.Millisecond)
				answer(t, b, user)
				time.Sleep(known.PingTimeout)
				muted.pings.Store(-1)
				<-ended
				time.Sleep(2 * time.Minute)
				a.lose(t, user)
				b.want(t, user, "hide", "lost", true)
			})
		})
	}
}

// lose has the store lose a hide that p acknowledges.
func (p *member) lose(t *testing.T, user string) {
	t.Helper()
	lost := setBack(t, p.store, p.layout.PageID(p.pageOf(user)))
	p.record(t, true, add(user, "hide", "lost"))
	lost()
}

// The ledger hangs while it is asked, after it has answered a ping. The next ping tells, and the
// feed is answered with the page in the store.
func TestLedgerEndsDuringAQuestion(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		muted := &mutedLedger{}
		muted.pings.Store(-1)
		a, b := w.open(t, Config{}), w.open(t, Config{Ledger: w.ledger.Around(muted.around)})
		user := a.usersOn(t, 0, 1)[0]
		b.behind(t, user)
		muted.place.Store(true)
		muted.pings.Store(1)
		start := time.Now()
		b.want(t, user, "hide", "before", true)
		if took := time.Since(start); took >= known.QuestionTimeout {
			t.Errorf("the feed took %v, although the second ping was not answered", took)
		}
	})
}

// A feed that asks the ledger, or has a page rebuilt, counts as one that waits for it only until it
// is answered.
func TestFeedsEndTheirWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.usersOn(t, 0, 1)[0]
		b.behind(t, user)
		limiter := admission.NewLimiter()
		limiter.SetMaxWaiting(1)
		alone := func(what string) {
			t.Helper()
			if _, err := b.view(limiter.Begin(t.Context()), user); err != nil {
				t.Errorf("a feed alone, %s: %v", what, err)
			}
		}
		alone("with a question")
		alone("after a question")
		a.losePages(t, 0)
		alone("with a rebuild")
		alone("after a rebuild")
	})
}

// A rebuild fails, and took no time. The next feed has the page rebuilt at once.
func TestRebuildAfterAFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.open(t, Config{})
		user := a.usersOn(t, 0, 1)[0]
		a.losePages(t, 0)
		a.way.places.Store(true)
		a.wantUnavailable(t, "pages cannot be read from the ledger", user)
		a.way.places.Store(false)
		a.want(t, user, "hide", "before", true)
	})
}

// Pages that are closed answer no feed that would need the ledger.
func TestReadOfClosedPages(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.open(t, Config{})
		user := a.usersOn(t, 0, 1)[0]
		time.Sleep(2 * time.Minute)
		a.Close()
		if _, err := a.view(t.Context(), user); !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	})
}

// Who needs a poll from a time on does not take one that began before it, though it ends later.
func TestPollSince(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := w.open(t, Config{})
		pass := make(chan struct{})
		b.way.polled = func() { <-pass }
		b.known.Poll()
		time.Sleep(time.Second)
		since, done := b.life.Elapsed(), make(chan error)
		go func() { done <- b.known.PollSince(t.Context(), since) }()
		synctest.Wait()
		close(pass)
		must(t, <-done)
		if start := b.polledAt(); start < since {
			t.Errorf("the last poll began %v too early", time.Duration(since-start))
		}
	})
}

// A feed that waits for a source polls until the source is where it has to be. What an earlier poll
// told may be old: only after a poll of its own, an error counts.
func TestReach(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := w.open(t, Config{})
		unknown := errors.New("unknown source")
		script := func(errs ...error) func([]ledger.Source) (bool, error) {
			asked := 0
			return func([]ledger.Source) (bool, error) {
				err := errs[min(asked, len(errs)-1)]
				asked++
				return err == nil, err
			}
		}
		for name, c := range map[string]struct {
			answers []error // nil: reached
			want    error
			polls   uint64
		}{
			"at once":             {[]error{nil}, nil, 0},
			"after a poll":        {[]error{unknown, nil}, nil, 1},
			"not even after one":  {[]error{unknown, unknown, nil}, unknown, 1},
			"an unknown source":   {[]error{unknown}, unknown, 1},
			"after several polls": {[]error{errNotYet, errNotYet, errNotYet, nil}, nil, 3},
		} {
			reached := script(c.answers...)
			before := b.Stats().Polls
			err := b.known.Reach(t.Context(), func(s []ledger.Source) (bool, error) {
				done, err := reached(s)
				if errors.Is(err, errNotYet) {
					return false, nil
				}
				return done, err
			})
			if !errors.Is(err, c.want) || err != nil && c.want == nil {
				t.Errorf("%s: error %v, want %v", name, err, c.want)
			}
			b.wantPolls(t, name, before, c.polls)
		}
		never := func([]ledger.Source) (bool, error) { return false, nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.known.Reach(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("never: error %v, want that of the context", err)
		}
		b.way.cut(true)
		if err := b.known.Reach(t.Context(), never); dependency(err) != "ledger" {
			t.Errorf("while polls fail: error %v, want ledger unavailable", err)
		}
	})
}

// This process records changes of a source while a poll is in progress, which may lack them. A feed
// that waits for the source hears of the next poll, too, and does not pause before it.
func TestReachAfterStep(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := w.open(t, Config{})
		began := make(chan int64, 9) // the last poll, whenever the sources are looked at
		done := make(chan error)
		go func() {
			done <- b.known.Reach(t.Context(), func([]ledger.Source) (bool, error) {
				began <- b.polledAt()
				return len(began) == 3, nil
			})
		}()
		synctest.Wait()
		pass := make(chan struct{})
		b.way.polled = func() { b.way.polled = nil; <-pass }
		b.known.Poll()
		time.Sleep(time.Millisecond)
		stepped := b.life.Elapsed()
		b.known.Stepped()
		synctest.Wait()
		close(pass)
		must(t, <-done)
		<-began
		<-began
		if third := <-began; third < stepped || third >= stepped+int64(known.ReachPause) {
			t.Errorf("the sources are looked at again after a poll %v after the step", time.Duration(third-stepped))
		}
	})
}

// errNotYet stands for a source that is known, but not yet where it has to be.
var errNotYet = errors.New("not yet")
