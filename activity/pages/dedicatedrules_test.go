package pages

import (
	"fmt"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
)

// The rules of dedicated pages, one test each: see layoutrules_test.go.

// usersOn returns users of a page of the first layout. Each of them hides "before".
func (p *member) usersOn(t *testing.T, page uint32, n int) (users []string) {
	t.Helper()
	for i := 0; len(users) < n; i++ {
		user := fmt.Sprint("on", i)
		if p.pageIn(firstPages, user) == page {
			p.record(t, true, add(user, "hide", "before"))
			users = append(users, user)
		}
	}
	return users
}

// move gives the user a dedicated page, and returns the page's number.
func (p *member) move(t *testing.T, user string) (page uint32) {
	t.Helper()
	must(t, p.applier.dedicate(t.Context(), p.hashOf(user)))
	page = p.layout.PageOf(p.hashOf(user))
	if page < ledger.DedicatedPages {
		t.Fatalf("%s is on page %d", user, page)
	}
	return page
}

// deafness returns the ways in which a process can miss news that a timely poll would bring.
func deafness() map[string]func(p *member) {
	return map[string]func(p *member){
		"not heard":  func(*member) {},
		"polls fail": func(p *member) { p.way.cut(false) },
		"polls fail for long": func(p *member) {
			p.way.cut(false)
			time.Sleep(2 * time.Minute)
		},
	}
}

// Rules raise and left: a move raises the sequence of the shared page, whose header holds the
// sequence at which a user last left it. A reader polls if the header has another such sequence
// than the reader knows. Only a poll tells the reader the new one: its own moves, rebuilds and
// writes do not tell which other users have left.
func TestDedicatedRuleLeft(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, b *member, left, stays string){
		"nothing": func(*testing.T, *member, string, string) {},
		"own move": func(t *testing.T, b *member, _, stays string) {
			t.Helper()
			b.move(t, stays)
		},
		"own rebuild": func(t *testing.T, b *member, _, _ string) {
			t.Helper()
			must(t, b.rebuilder.remake(t.Context(), 0, 0, "test"))
		},
		"own write of a user who has left": func(t *testing.T, b *member, left, _ string) {
			t.Helper()
			b.record(t, true, add(left, "hide", "q"))
		},
		"own write of a user who stays": func(t *testing.T, b *member, _, stays string) {
			t.Helper()
			b.record(t, true, add(stays, "hide", "q"))
		},
		"own question for a user's page": func(t *testing.T, b *member, _, stays string) {
			t.Helper()
			b.way.cut(false) // so that it asks
			at := known.Position{User: b.hashOf(stays)}
			b.known.KeepUp(t.Context(), b.life.Elapsed(), &at)
			if !at.Known || at.Err != nil {
				t.Errorf("the ledger does not say where a user is: %v", at.Err)
			}
			b.way.mend()
		},
	} {
		for how, deafen := range deafness() {
			t.Run(name+", "+how, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					a, b := w.open(t, Config{}), w.open(t, Config{})
					users := a.usersOn(t, 0, 3)
					user, left, stays := users[0], users[1], users[2]
					a.move(t, left)
					b.pollNow(t)
					b.want(t, user, "hide", "before", true)
					page := a.move(t, user)
					a.record(t, true, add(user, "hide", "p"))
					between(t, b, left, stays)
					deafen(b)
					b.wantOn(t, page, user, "p")
				})
			})
		}
	}
}

// Rule judge: a reader judges a page that it has rebuilt like one that it has read.
func TestDedicatedRuleJudge(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, w *world, b *member){
		"page lost": func(t *testing.T, w *world, _ *member) {
			t.Helper()
			w.builder.losePages(t, 0)
		},
		"store down": func(_ *testing.T, _ *world, b *member) { b.steps.down.Store(true) },
	} {
		for how, deafen := range deafness() {
			t.Run(name+", "+how, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					a, b := w.open(t, Config{}), w.open(t, Config{})
					user := a.usersOn(t, 0, 1)[0]
					b.want(t, user, "hide", "before", true)
					page := a.move(t, user)
					a.record(t, true, add(user, "hide", "p"))
					harm(t, w, b)
					deafen(b)
					b.wantOn(t, page, user, "p")
				})
			})
		}
	}
}

// Rule recheck: a reader judges a page by what it knew before it read the page. So a poll that
// tells of a move or switch during the read does not make the reader trust the old page.
func TestDedicatedRuleRecheck(t *testing.T) {
	for name, move := range map[string]func(t *testing.T, w *world, a *member, user string) (page uint32){
		"a move": func(t *testing.T, _ *world, a *member, user string) uint32 {
			t.Helper()
			return a.move(t, user)
		},
		"a release": func(t *testing.T, _ *world, a *member, user string) uint32 {
			t.Helper()
			must(t, a.applier.release(t.Context(), a.hashOf(user)))
			return 0
		},
		"a switch": func(t *testing.T, w *world, a *member, user string) uint32 {
			t.Helper()
			w.change(t)
			return a.pageIn(laterPages, user)
		},
	} {
		for _, heard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, heard %v", name, heard), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					a, b := w.open(t, Config{}), w.open(t, Config{})
					user := a.usersOn(t, 0, 1)[0]
					w.build(t)
					if name == "a release" {
						a.move(t, user)
					}
					b.pollNow(t)
					b.want(t, user, "hide", "before", true)
					var page uint32
					b.steps.load = func() { // the reader has looked up the page
						page = move(t, w, a, user)
						a.record(t, true, add(user, "hide", "p"))
						if heard {
							b.pollNow(t)
						}
					}
					v, err := b.view(t.Context(), user)
					must(t, err)
					if !v.has("hide", "p") || v.Number != page {
						t.Errorf("found %v on page %d, want it on page %d", v.has("hide", "p"), v.Number, page)
					}
				})
			})
		}
	}
}

// Rule learn: the receipt of a write tells the writer's process where the user is. The process then
// finds its own write even if it cannot ask the ledger anything.
func TestDedicatedRuleLearn(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, b *member, a act){
		"Record": func(t *testing.T, b *member, a act) {
			t.Helper()
			b.record(t, true, a)
		},
		"Bulk": func(t *testing.T, b *member, a act) {
			t.Helper()
			b.recordInBulk(t, a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, b := w.open(t, Config{}), w.open(t, Config{})
				user := a.usersOn(t, 0, 1)[0]
				page := a.move(t, user)
				b.way.polls.Store(true) // writes still work
				write(t, b, add(user, "hide", "p"))
				b.way.cut(true)
				b.wantOn(t, page, user, "p")
				b.wantOn(t, page, user, "before")
			})
		})
	}
}

// Rule own=always: a write of a user with a dedicated page is acknowledged only once the shared
// page has the sequence with which the user left it. Otherwise a process that has not heard of the
// move would answer from an older shared page.
func TestDedicatedRuleOwnAlways(t *testing.T) {
	for _, repeat := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			a, b, cut := w.open(t, Config{}), w.open(t, Config{}), w.open(t, Config{})
			user := a.usersOn(t, 0, 1)[0]
			for _, p := range []*member{b, cut} {
				p.want(t, user, "hide", "before", true)
			}
			cut.way.cut(true)
			back := setBack(t, w.store, a.layout.PageID(0))
			page := a.move(t, user)
			if repeat {
				a.record(t, true, add(user, "hide", "p"))
			}
			back()
			w.open(t, Config{}).record(t, !repeat, add(user, "hide", "p"))
			b.wantOn(t, page, user, "p")
			cut.wantUnavailable(t, "the user has left the page", user)
		})
	}
}

// A process that is cut off from the ledger still answers from shared pages. It does not answer
// from a page that a user left at a later sequence than the process knows.
func TestDedicatedRuleCutOff(t *testing.T) {
	for _, long := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.open(t, Config{}), w.open(t, Config{})
			users, other := a.usersOn(t, 0, 2), a.usersOn(t, 1, 1)[0]
			b.pollNow(t)
			b.way.cut(true)
			if long {
				time.Sleep(2 * time.Minute)
			}
			a.record(t, true, add(users[1], "hide", "p"))
			b.wantOn(t, 0, users[1], "p") // a higher sequence than b knows, but trusted
			page := a.move(t, users[0])
			a.record(t, true, add(users[0], "hide", "p"))
			for _, user := range users { // b cannot know who has left
				b.wantUnavailable(t, "a user has left the page", user)
			}
			b.wantOn(t, 1, other, "before")
			b.way.mend()
			_ = b.known.PollSince(t.Context(), b.life.Elapsed())
			b.wantOn(t, page, users[0], "p")
			b.wantOn(t, 0, users[1], "p")
		})
	}
}

// A release closes the dedicated page. A process that has not heard of the release polls; if it
// cannot poll, it does not answer.
func TestDedicatedRuleRelease(t *testing.T) {
	for how, deafen := range deafness() {
		t.Run(how, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, b, cut := w.open(t, Config{}), w.open(t, Config{}), w.open(t, Config{})
				user := a.usersOn(t, 0, 1)[0]
				page := a.move(t, user)
				for _, p := range []*member{b, cut} {
					p.pollNow(t)
					p.wantOn(t, page, user, "before")
				}
				deafen(b)
				cut.way.cut(true)
				must(t, a.applier.release(t.Context(), a.hashOf(user)))
				if !isClosed(w.headerOf(t, a, page)) {
					t.Error("the dedicated page is open")
				}
				a.record(t, true, add(user, "hide", "p"))
				b.wantOn(t, 0, user, "p")
				b.wantOn(t, 0, user, "before")
				cut.wantUnavailable(t, "the user has left the page", user)
				if again := a.move(t, user); again <= page {
					t.Errorf("the user gets page %d, want one after page %d", again, page)
				}
				a.record(t, true, add(user, "hide", "q"))
				b.want(t, user, "hide", "q", true)
			})
		})
	}
}

// Users move in each phase of a growth. Processes find what was written on the new page, whether
// they have heard of both the move and the switch, or of neither.
func TestDedicatedRuleInGrowth(t *testing.T) {
	for _, phase := range []string{"building", "leaving"} {
		for _, release := range []bool{false, true} {
			for how, deafen := range deafness() {
				t.Run(fmt.Sprintf("%s, release %v, %s", phase, release, how), func(t *testing.T) {
					inWorld(t, func(t *testing.T, w *world) {
						moveInPhase(t, w, phase == "leaving", release, deafen)
					})
				})
			}
		}
	}
}

func moveInPhase(t *testing.T, w *world, leaving, release bool, deafen func(p *member)) {
	t.Helper()
	a, b, silent, cut := w.open(t, Config{}), w.open(t, Config{}), w.open(t, Config{}), w.open(t, Config{})
	users := a.usersOn(t, 0, 3)
	user, quiet, mate := users[0], users[1], users[2]
	if release {
		a.move(t, user)
		a.move(t, quiet)
	}
	for _, p := range []*member{b, silent, cut} {
		p.pollNow(t)
		p.want(t, user, "hide", "before", true)
		p.want(t, quiet, "hide", "before", true)
	}
	w.build(t)
	if leaving {
		w.change(t)
	}
	cut.way.cut(true)
	for _, moved := range []string{user, quiet} { // quiet writes nothing after its move
		if release {
			must(t, a.applier.release(t.Context(), a.hashOf(moved)))
		} else {
			a.move(t, moved)
		}
	}
	a.record(t, true, add(user, "hide", "p"))
	deafen(b)
	cut.wantUnavailable(t, "the user has left the page", user)
	b.want(t, user, "hide", "p", true)
	b.want(t, quiet, "hide", "before", true)
	if !leaving {
		w.change(t)
	}
	for _, p := range []*member{b, silent, w.open(t, Config{})} {
		p.want(t, user, "hide", "p", true)
		for _, u := range users {
			p.want(t, u, "hide", "before", true)
		}
	}
	a.record(t, true, add(mate, "hide", "q"))
	w.leave(t)
	cut.wantUnavailable(t, "the layout has left", mate)
	cut.way.mend()
	_ = cut.known.PollSince(t.Context(), cut.life.Elapsed())
	for _, p := range []*member{b, silent, cut, w.open(t, Config{})} {
		p.want(t, mate, "hide", "q", true)
		p.want(t, user, "hide", "p", true)
		p.want(t, quiet, "hide", "before", true)
	}
}
