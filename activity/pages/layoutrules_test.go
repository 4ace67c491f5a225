package pages

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// These tests check the rules for changing the number of pages, one each. The tests for dedicated
// pages are in dedicatedrules_test.go, and use the same world.

const (
	firstPages = 2 // of a world's first layout
	laterPages = 8 // of the layout that it grows to
)

// Rule bypoll: a receipt that names the later layout does not make a reader use that layout. Its
// pages may lack writes that the reader has not heard of.
func TestLayoutRuleByPoll(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user, other := a.userOn(0), a.userOn(1)
		a.record(t, true, add(user, "hide", "before"))
		w.build(t)
		b.record(t, true, add(user, "hide", "p")) // so the page of the later layout is behind
		w.change(t)
		polls := a.Stats().Polls
		a.record(t, true, add(other, "hide", "q"))
		a.wantOn(t, a.pageIn(firstPages, user), user, "p")
		a.wantPolls(t, "a receipt named the later layout", polls, 0)
		a.pollNow(t)
		a.wantOn(t, a.pageIn(laterPages, user), user, "p")
	})
}

// A poll applies the required sequences before the users' pages. A reader in between finds every
// write.
func TestLayoutRuleOrder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.userOn(0)
		a.record(t, true, add(user, "hide", "before"))
		w.build(t)
		a.record(t, true, add(user, "hide", "p"))
		w.change(t)
		later := a.pageIn(laterPages, user)
		b.way.polled = func() {
			want, err := w.ledger.Sequence(t.Context(), later)
			if got := b.sequences.Of(later).Required.Load(); err != nil || got != want {
				t.Errorf("the later page requires sequence %d when the switch is applied, want %d, %v", got, want, err)
			}
			if b.layout.Now().Current != firstPages {
				t.Error("the switch is applied before the sequences")
			}
			b.wantOn(t, b.pageIn(firstPages, user), user, "p")
		}
		b.pollNow(t)
		b.way.polled = nil
		b.wantOn(t, later, user, "p")
	})
}

// Rule close: before a write after the switch is acknowledged, it closes its users' pages of the
// old layout. A reader of a closed page polls, and finds the write.
func TestLayoutRuleClose(t *testing.T) {
	for _, c := range closingWrites() {
		for _, heard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, heard %v", c.name, heard), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					a := w.open(t, Config{})
					user, other := a.userOn(0), a.userOn(1)
					c.before(t, w, a, user, other)
					b := w.open(t, Config{})
					b.check(t, user, "hide", "p") // so that the pages exist
					b.check(t, other, "hide", "p")
					w.build(t)
					w.change(t)
					if heard {
						a.pollNow(t)
					}
					polls := b.Stats().Polls
					c.write(t, a, user, other)
					w.wantClosed(t, c.name, user)
					if c.both {
						w.wantClosed(t, c.name, other)
						b.want(t, other, "blocked-by", user, c.holds)
					}
					b.want(t, user, c.kind, c.target(other), c.holds)
					b.wantPolls(t, "the page is closed", polls, 1)
				})
			})
		}
	}
}

// closingWrite is a write after the switch, and what a process that has not polled must find.
type closingWrite struct {
	name   string
	both   bool // the write concerns the pages of two users
	kind   string
	holds  bool // that process finds it
	before func(t *testing.T, w *world, a *member, user, other string)
	write  func(t *testing.T, a *member, user, other string)
}

func (c closingWrite) target(other string) string {
	if c.kind == "block" {
		return other
	}
	return "p"
}

func closingWrites() []closingWrite {
	nothing := func(*testing.T, *world, *member, string, string) {}
	end := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC) // a bubble's clock starts an hour earlier
	return []closingWrite{
		{"Record", false, "hide", true, nothing, func(t *testing.T, a *member, user, _ string) {
			t.Helper()
			a.record(t, true, add(user, "hide", "p"))
		}},
		{"a repeated Record", false, "hide", true, nothing, func(t *testing.T, a *member, user, _ string) {
			t.Helper()
			change := changeOf(a.Pages, add(user, "hide", "p"), time.Now())
			_, err := a.Pages.ledger.Record(t.Context(), time.Now(), []ledger.Change{change}) // like a writer that dies
			must(t, err)
			a.record(t, false, add(user, "hide", "p"))
		}},
		{"a block", true, "block", true, nothing, func(t *testing.T, a *member, user, other string) {
			t.Helper()
			a.record(t, true, add(user, "block", other))
		}},
		{"a user who moved after the switch", false, "hide", true, nothing, func(t *testing.T, a *member, user, _ string) {
			t.Helper()
			must(t, a.applier.dedicate(t.Context(), a.hashOf(user)))
			a.record(t, true, add(user, "hide", "p"))
		}},
		{"DeleteUser", true, "block", false, func(t *testing.T, _ *world, a *member, user, other string) {
			t.Helper()
			a.record(t, true, add(user, "block", other))
		}, func(t *testing.T, a *member, user, _ string) {
			t.Helper()
			_, _, err := a.DeleteUser(t.Context(), user)
			must(t, err)
		}},
		{"the end of a block", true, "block", false, func(t *testing.T, _ *world, a *member, user, other string) {
			t.Helper()
			a.record(t, true, add(user, "block", other).until(end))
			time.Sleep(time.Until(end))
		}, func(t *testing.T, a *member, _, _ string) {
			t.Helper()
			a.committer.removeEnded()
			if n := a.Stats().Ended; n != 2 {
				t.Errorf("%d rows ended, want 2", n)
			}
		}},
		{"Bulk.Finish", true, "block", true, nothing, func(t *testing.T, a *member, user, other string) {
			t.Helper()
			a.recordInBulk(t, add(user, "block", other))
		}},
	}
}

// Rule close: if the page cannot be closed, the write is acknowledged once every process has
// polled. If that is not certain, the write fails.
func TestLayoutRuleCloseFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.userOn(0)
		a.record(t, true, add(user, "hide", "before"))
		w.build(t)
		w.change(t)
		id := a.layout.PageID(0)
		a.steps.refuses = &id
		start := time.Now()
		a.record(t, true, add(user, "hide", "p"))
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("acknowledged after %v, want the bound of a minute", took)
		}
		b.want(t, user, "hide", "p", true)

		start = time.Now()
		a.recordInBulk(t, add(user, "hide", "q"))
		if took := time.Since(start); took < time.Minute {
			t.Errorf("bulk finished after %v, want the bound of a minute or more", took)
		}
		a.way.cut(false)
		_, err := a.Record(t.Context(), []act{add(user, "hide", "r")})
		if dependency(err) != "pages" {
			t.Errorf("without polls: %v, want pages unavailable", err)
		}
	})
}

// A reader of a closed page finds at once everything that was written after the switch, from
// whatever source it has the page.
func TestLayoutRuleClosedPageIsFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		before func(t *testing.T, b *member) // before the switch
		after  func(t *testing.T, w *world, b *member)
	}{
		"not heard":  {},
		"polls fail": {after: func(_ *testing.T, _ *world, b *member) { b.way.cut(false) }},
		"polls fail for long": {after: func(_ *testing.T, _ *world, b *member) {
			b.way.cut(false)
			time.Sleep(2 * time.Minute)
		}},
		"a replica, with the closed page": {before: func(t *testing.T, b *member) {
			t.Helper()
			b.reader.replica = &lagging{partitioned: partitioned{Store: &favfilter.Memory{}}, primary: b.steps.Store}
		}, after: func(t *testing.T, _ *world, b *member) {
			t.Helper()
			copies, _ := b.reader.replica.(*lagging)
			copies.catchUp(t, 0)
		}},
		"a replica, without a page": {before: func(_ *testing.T, b *member) {
			b.reader.replica = &lagging{partitioned: partitioned{Store: &favfilter.Memory{}}, primary: b.steps.Store}
		}},
		"a held page": {before: func(t *testing.T, b *member) {
			t.Helper()
			b.steps.down.Store(true)
			b.check(t, b.userOn(0), "hide", "p")
			b.steps.down.Store(false)
			if b.rebuilder.held.get(0).page == nil {
				t.Error("the process does not hold the page")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, b := w.open(t, Config{}), w.open(t, c.config)
				user := a.userOn(0)
				a.record(t, true, add(user, "hide", "before"))
				b.want(t, user, "hide", "before", true)
				if c.before != nil {
					c.before(t, b)
				}
				w.build(t)
				w.change(t)
				a.record(t, true, add(user, "hide", "p"))
				if c.after != nil {
					c.after(t, w, b)
				}
				b.wantOn(t, b.pageIn(laterPages, user), user, "p")
			})
		})
	}
}

// A process knows of a switch only by a receipt, and finds its own writes. The store has lost the
// page that it closed, or set it back.
func TestLayoutRuleOwnWrites(t *testing.T) {
	for name, c := range map[string]struct {
		meddle func(t *testing.T, w *world, a *member, back func())
	}{
		"page set back": {meddle: func(_ *testing.T, _ *world, _ *member, back func()) { back() }},
		"page lost, and held": {meddle: func(t *testing.T, w *world, _ *member, _ func()) {
			t.Helper()
			w.builder.losePages(t, 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.open(t, Config{})
				user := a.userOn(0)
				a.record(t, true, add(user, "hide", "before"))
				a.steps.down.Store(true)
				a.want(t, user, "hide", "before", true) // now it is held
				a.steps.down.Store(false)
				a.want(t, user, "hide", "before", true)
				w.build(t)
				w.change(t)
				back := setBack(t, w.store, a.layout.PageID(0))
				a.record(t, true, add(user, "hide", "p"))
				c.meddle(t, w, a, back)
				a.wantOn(t, a.pageIn(laterPages, user), user, "p")
			})
		})
	}
}

// Rule refuse: pages of the old layout are not rebuilt. A reader whose page there is lost polls.
func TestLayoutRuleRefuse(t *testing.T) {
	for _, behind := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.open(t, Config{}), w.open(t, Config{})
			user := a.userOn(0)
			a.record(t, true, add(user, "hide", "p"))
			w.build(t)
			w.change(t)
			w.builder.losePages(t, 0)
			if behind {
				b.way.cut(false)
			}
			b.wantOn(t, b.pageIn(laterPages, user), user, "p")
			if h := w.header(t, 0); h.Sequence != 0 && !isClosed(h) {
				t.Errorf("the page of the old layout is open, with sequence %d", h.Sequence)
			}
		})
	}
}

// Rule refuse: a layout leaves before a writer has changed its page. The writer closes that page
// and acknowledges, because the page of the later layout was raised, too.
func TestLayoutRuleRefuseWriter(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.open(t, Config{}), w.open(t, Config{})
			user := a.userOn(0)
			a.record(t, true, add(user, "hide", "before"))
			w.build(t)
			a.steps.apply = func() { // the write is in the ledger by now
				w.change(t)
				w.leave(t)
				if lost {
					w.builder.losePages(t, 0)
				}
			}
			start := time.Now()
			a.record(t, true, add(user, "hide", "p"))
			if took := time.Since(start); took > time.Second {
				t.Errorf("acknowledged after %v", took)
			}
			w.wantClosed(t, "acknowledged", user)
			b.wantOn(t, b.pageIn(laterPages, user), user, "p")
			a.wantOn(t, b.pageIn(laterPages, user), user, "p")
		})
	}
}

// Rules tomb and wait: a layout leaves the ledger once all its pages are closed and the bound has
// passed since the switch. It stays while a page cannot be closed.
func TestLayoutRuleLeave(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.open(t, Config{})
		users := []string{a.userOn(0), a.userOn(1)}
		for _, user := range users {
			a.record(t, true, add(user, "hide", "p"))
		}
		w.build(t)
		w.change(t)
		switched, left := time.Now(), time.Time{}
		a.way.leave = func() {
			w.wantClosed(t, "the layout leaves", users...)
			left = time.Now()
		}
		id := a.layout.PageID(1)
		a.steps.refuses = &id
		if err := a.grower.growTo(t.Context(), laterPages); dependency(err) != "pages" {
			t.Errorf("a page cannot be closed: %v", err)
		}
		now, err := w.ledger.Layouts(t.Context())
		if want := (ledger.Layouts{Current: laterPages, Leaving: firstPages}); err != nil || now != want || !left.IsZero() {
			t.Errorf("a page cannot be closed, and the layouts are %+v, %v: want %+v", now, err, want)
		}
		a.steps.refuses = nil
		must(t, a.grower.growTo(t.Context(), laterPages))
		if left.Sub(switched) < time.Minute {
			t.Errorf("the layout left %v after the switch, want a minute at least", left.Sub(switched))
		}
	})
}

// Rule both: a write while the later layout is built raises its page there, too. If that page was
// built before the write, no reader trusts it after the switch.
func TestLayoutRuleBoth(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, w *world, a *member, user string){
		"Record": func(t *testing.T, _ *world, a *member, user string) {
			t.Helper()
			a.record(t, true, add(user, "hide", "p"))
		},
		"Bulk": func(t *testing.T, _ *world, a *member, user string) {
			t.Helper()
			a.recordInBulk(t, add(user, "hide", "p"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, b, c := w.open(t, Config{}), w.open(t, Config{}), w.open(t, Config{})
				user := a.userOn(0)
				a.record(t, true, add(user, "hide", "before"))
				w.build(t)
				write(t, w, a, user)
				b.want(t, user, "hide", "p", true)
				w.change(t)
				b.pollNow(t)
				later := b.pageIn(laterPages, user)
				b.wantOn(t, later, user, "p")
				if n := b.Stats().Rebuilds["behind"]; n != 1 {
					t.Errorf("%d rebuilds of a page that was built before the write, want 1", n)
				}
				w.builder.losePages(t, later)
				c.way.cut(false)
				time.Sleep(2 * time.Minute) // the View asks the ledger for the page
				c.wantOn(t, later, user, "p")
			})
		})
	}
}

// A ledger is restored from a copy made before the switch, so users are on closed pages again.
// These pages are rebuilt, and feeds are answered.
func TestLayoutRuleLedgerSetBack(t *testing.T) {
	for _, write := range []bool{false, true} {
		g := newRig(t, &favfilter.Memory{}, firstPages)
		check := g.everybody(t, 20)
		saved := g.backup(t)
		must(t, g.grower.growTo(t.Context(), laterPages))
		check("grown")
		g.Close()
		back := &rig{ledger: openLedger(t, saved, 0), store: g.store}
		back.now.Store(g.now.Load())
		back.open(t, back.ledger, back.store)
		if write {
			for i := range 20 {
				back.record(t, true, add(fmt.Sprint("u", i), "like", "after"))
			}
			for i := range 20 {
				back.want(t, fmt.Sprint("u", i), "like", "after", true)
			}
		}
		g.Pages = back.Pages
		check("set back")
		for page := range uint32(firstPages) {
			if h := back.header(t, page); isClosed(h) {
				t.Errorf("page %d is still closed", page)
			}
		}
		rebuilds := fmt.Sprint(back.Stats().Rebuilds)
		check("once more")
		if now := fmt.Sprint(back.Stats().Rebuilds); now != rebuilds {
			t.Errorf("rebuilt again: %v, before %v", now, rebuilds)
		}
	}
}

// A process that is cut off from the ledger answers from pages, but not from closed ones. Views of
// closed pages fail until the ledger is available.
func TestLayoutRuleCutOff(t *testing.T) {
	for _, long := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.open(t, Config{}), w.open(t, Config{})
			user, other := a.userOn(0), a.userOn(1)
			for _, u := range []string{user, other} {
				a.record(t, true, add(u, "hide", "p"))
			}
			b.way.cut(true)
			if long {
				time.Sleep(2 * time.Minute)
			}
			w.build(t)
			w.change(t)
			b.want(t, user, "hide", "p", true)
			a.record(t, true, add(user, "hide", "q"))
			b.wantUnavailable(t, "the page is closed", user)
			b.wantOn(t, 1, other, "p")
			w.leave(t)
			b.wantUnavailable(t, "the layout has left", other)
			b.way.mend()
			_ = b.known.PollSince(t.Context(), b.life.Elapsed())
			b.want(t, user, "hide", "q", true)
			b.want(t, other, "hide", "p", true)
		})
	}
}

// A process that is cut off from the ledger knows of a change that is on its way to the page. It
// answers as soon as the page has the change, and not before.
func TestChangeArrives(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.userOn(0)
		a.record(t, true, add(user, "hide", "p"))
		b.want(t, user, "hide", "p", true)
		id := a.layout.PageID(0)
		back := setBack(t, w.store, id)
		a.record(t, true, add(user, "hide", "q"))
		arrive := setBack(t, w.store, id)
		back()
		b.pollNow(t)
		b.way.cut(true)
		b.wantUnavailable(t, "the change does not arrive", user)
		var arriving sync.WaitGroup
		arriving.Go(func() {
			time.Sleep(arrivalLimit / 2)
			arrive()
		})
		b.want(t, user, "hide", "q", true)
		arriving.Wait()
	})
}

// A feed that waits for a change to arrive holds no processor.
func TestArrivalsHoldNoProcessor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.userOn(0)
		a.record(t, true, add(user, "hide", "p"))
		back := setBack(t, w.store, a.layout.PageID(0))
		a.record(t, true, add(user, "hide", "q"))
		back()
		b.pollNow(t)
		b.way.cut(true)
		b.wantUnavailable(t, "the change does not arrive", user)
		limiter, start := admission.NewLimiter(), time.Now()
		limiter.SetMaxWaiting(100 * 32)
		var feeds sync.WaitGroup
		for range 100 * 32 { // more than there are processors
			ctx := limiter.Begin(t.Context())
			done, _ := admission.Run(ctx)
			if waited := time.Since(start); waited > 0 {
				t.Errorf("a feed waited %v for a processor", waited)
				done()
				break
			}
			feeds.Go(func() {
				defer done()
				if _, err := b.view(ctx, user); dependency(err) != "ledger" {
					t.Errorf("error %v, want one of the ledger", err)
				}
			})
			synctest.Wait()
		}
		feeds.Wait()
	})
}

// A process that cannot read the ledger cannot rebuild a page that lacks the change of another
// process. Its own change waits for that one, however long it takes.
func TestChangesArriveInOrder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.userOn(0)
		a.record(t, true, add(user, "hide", "o"))
		var after sync.WaitGroup
		b.steps.apply = func() { // the first change is in the ledger, and on its way
			a.way.cut(true)
			after.Go(func() { a.record(t, true, add(user, "hide", "q")) })
			time.Sleep(applyTimeout / 2)
		}
		b.record(t, true, add(user, "hide", "p"))
		after.Wait()
		a.want(t, user, "hide", "p", true)
		a.want(t, user, "hide", "q", true)
	})
}

// A process that is cut off from the ledger finds no page of a user who has never had a key, and
// answers. It does not answer for a user whose page is lost, nor for one who may have moved to
// another layout since.
func TestUnusedPageWithoutLedger(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		a.record(t, true, add(a.userOn(0), "hide", "p"))
		a.record(t, true, undo(a.userOn(0), "hide", "p"))
		b.pollNow(t)
		a.losePages(t, 0)
		b.way.cut(true)
		user := a.userOn(1)
		b.want(t, user, "hide", "p", false)
		b.wantUnavailable(t, "the page is lost", a.userOn(0))

		w.build(t)
		w.change(t)
		w.leave(t)
		a.record(t, true, add(user, "hide", "p"))
		b.wantUnavailable(t, "the page is closed", user)
		time.Sleep(closedExpiry + time.Minute)
		b.wantUnavailable(t, "the closed page has expired", user)
	})
}

// A page of which the ledger has had two changes is not unused, although they have not arrived:
// another process may have made the first one. Nor is a dedicated page.
func TestUnused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.open(t, Config{})
		unused := func(page uint32) bool { return a.reader.unused(&reading{at: known.Position{Page: page}}) }
		if !unused(1) || unused(ledger.DedicatedPages) {
			t.Errorf("unused: page 1 %v, a dedicated page %v", unused(1), unused(ledger.DedicatedPages))
		}
		time.Sleep(2 * closedExpiry)
		if unused(1) {
			t.Error("unused, although nothing is known of the ledger for long")
		}
		a.pollNow(t)
		time.Sleep(closedExpiry/2 - time.Minute)
		if !unused(1) {
			t.Error("used, although a poll has told that it is not")
		}
		time.Sleep(2 * time.Minute)
		if unused(1) {
			t.Error("unused, although a closed page would expire soon")
		}
		a.pollNow(t)
		a.sequences.Of(1).Known.Raise(1)
		if !unused(1) {
			t.Error("used, although its first change has not arrived")
		}
		a.sequences.Of(1).Known.Raise(2)
		if unused(1) {
			t.Error("unused, with two changes")
		}
	})
}

// An interrupted growth can be completed from each phase: by another process, for the same or
// another number of pages, or by a process that starts.
func TestLayoutRuleCompleted(t *testing.T) {
	const pages = 4 * scrubChunk
	for phase, interrupt := range interruptions(pages) {
		for how, complete := range map[string]func(t *testing.T, w *world){
			"the same number": func(t *testing.T, w *world) {
				t.Helper()
				must(t, w.open(t, Config{}).grower.growTo(t.Context(), pages))
			},
			"another number": func(t *testing.T, w *world) {
				t.Helper()
				must(t, w.open(t, Config{}).grower.growTo(t.Context(), 2*pages))
			},
			"Open": func(t *testing.T, w *world) {
				t.Helper()
				r, err := openPages(t.Context(), Config{Ledger: w.ledger, Store: w.store, StalenessBound: time.Minute})
				must(t, err)
				time.Sleep(2 * time.Minute)
				r.Close()
			},
		} {
			t.Run(phase+", "+how, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					a, b := w.open(t, Config{}), w.open(t, Config{})
					check := b.everybody(t, 20)
					interrupt(t, w)
					a.record(t, true, add("u1", "hide", "p"))
					b.want(t, "u1", "hide", "p", true)
					complete(t, w)
					want := ledger.Layouts{Current: pages}
					if how == "another number" {
						want.Current *= 2
					}
					if now, err := w.ledger.Layouts(t.Context()); err != nil || now != want {
						t.Errorf("%+v, %v, want %+v", now, err, want)
					}
					w.wantClosed(t, "completed", a.userOn(0), a.userOn(1))
					check("completed")
					if at, err := w.ledger.Sequence(t.Context(), a.pageIn(want.Current, "u2")); err != nil || at == 0 {
						t.Errorf("the page of a user who wrote nothing has sequence %d, %v", at, err)
					}
					b.want(t, "u1", "hide", "p", true)
				})
			})
		}
	}
}

// interruptions returns functions that leave a growth to that many pages in each phase.
func interruptions(pages uint32) map[string]func(t *testing.T, w *world) {
	begin := func(t *testing.T, w *world) {
		t.Helper()
		must(t, w.ledger.BeginLayout(t.Context(), pages))
	}
	change := func(t *testing.T, w *world) {
		t.Helper()
		begin(t, w)
		w.builder.pollNow(t)
		must(t, w.builder.grower.buildPages(t.Context(), pages))
		must(t, w.ledger.SwitchLayout(t.Context(), pages))
	}
	return map[string]func(t *testing.T, w *world){
		"begun, without sequences": func(t *testing.T, w *world) {
			t.Helper()
			begin(t, w)
			db, err := sql.Open("sqlite", w.file)
			must(t, err)
			res, err := db.ExecContext(t.Context(), `DELETE FROM pages WHERE page >= ?`, pages)
			must(t, errors.Join(err, db.Close()))
			if n, err := res.RowsAffected(); err != nil || n == 0 {
				t.Errorf("%d pages had sequences, %v", n, err)
			}
		},
		"begun": begin,
		"half built": func(t *testing.T, w *world) {
			t.Helper()
			begin(t, w)
			w.builder.pollNow(t)
			for some := range w.builder.grower.chunks(pages) {
				must(t, w.builder.grower.buildSome(some))
				break
			}
		},
		"switched": change,
		"half closed": func(t *testing.T, w *world) {
			t.Helper()
			change(t, w)
			must(t, w.builder.rebuilder.closePage(t.Context(), 1))
		},
	}
}

// A process that has not heard of a switch deletes a user. No bit of earlier undone activities
// stays in the page of the later layout.
func TestDeleteUserAfterSwitch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.userOn(0)
		a.record(t, true, add(user, "hide", "p"))
		w.build(t)
		w.change(t)
		b.pollNow(t)
		b.record(t, true, undo(user, "hide", "p"))
		id := b.layout.PageID(b.pageIn(laterPages, user))
		loaded, err := w.store.LoadWhole(t.Context(), []favfilter.PageID{id})
		must(t, err)
		residue := loaded[0].Page.Clone()
		residue.Insert(b.userKey(user, "hide", "p"))
		_, err = w.store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: residue, Seen: loaded[0].Version})
		must(t, err)
		b.want(t, user, "hide", "p", true) // as after an undo that could not clear its bits
		_, _, err = a.DeleteUser(t.Context(), user)
		must(t, err)
		b.wantGone(t, w.ledger, user)
		a.want(t, user, "hide", "p", false)
	})
}

// The same deletion when a page of the later layout cannot be rebuilt: DeleteUser fails until no
// bit of the user is left there.
func TestDeleteUserAfterSwitchFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user, other := a.userOn(0), a.userOn(1)
		a.record(t, true, add(user, "block", other))
		w.build(t)
		w.change(t)
		id := a.layout.PageID(a.pageIn(laterPages, other))
		a.steps.refuses = &id
		if _, _, err := a.DeleteUser(t.Context(), user); dependency(err) != "pages" {
			t.Errorf("a page cannot be rebuilt: %v", err)
		}
		a.steps.refuses = nil
		_, _, err := a.DeleteUser(t.Context(), user)
		must(t, err)
		b.pollNow(t)
		b.want(t, other, "block", user, false)
	})
}

// A process frees the memory for a layout that has left with the second poll after that, even if it
// did not poll while the layout was leaving.
func TestLayoutIsForgotten(t *testing.T) {
	for _, heard := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			a := w.open(t, Config{})
			a.record(t, true, add("1", "hide", "p"))
			w.build(t)
			w.change(t)
			if heard {
				a.pollNow(t)
			}
			w.leave(t)
			a.pollNow(t)
			a.pollNow(t)
			if at := a.sequences.Of(0).Known.Load(); at != 0 {
				t.Errorf("heard %v: sequence %d of a layout that has left is still held", heard, at)
			}
			a.want(t, "1", "hide", "p", true)
		})
	}
}
