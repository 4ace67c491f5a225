package pages

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// TestLongLargePage has a page with more rows than the ledger reads at once, of one user or of
// many. It is built, read, compared, inspected, exported, split among more pages and deleted.
func TestLongLargePage(t *testing.T) {
	for name, users := range map[string]int{"of one user": 1, "of many users": 100} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, 1)
			store := &favfilter.Memory{}
			p := startProcess(t, l, store, Config{ScrubRate: 1})
			defer p.Close()
			const keys = ledger.LargePage + 1000
			bulk := p.NewBulk()
			activities := make([]act, keys)
			for i := range activities {
				activities[i] = add(fmt.Sprint("u", i%users), "hide", fmt.Sprint("p", i))
			}
			_, err := recordBulk(t.Context(), bulk, activities)
			must(t, err)
			must(t, bulk.Finish(t.Context()))
			number := p.pageOf("u0")
			if own := number >= ledger.DedicatedPages; own != (users == 1) {
				t.Fatalf("the users are on page %d", number)
			}
			look := func() {
				t.Helper()
				for _, i := range []int{0, 1, keys / 2, keys - 1} {
					p.want(t, fmt.Sprint("u", i%users), "hide", fmt.Sprint("p", i), true)
				}
			}
			look()
			before := p.Stats().Rebuilds["missing"]
			p.losePages(t, number)
			look()
			// A reader rebuilds the page, and the scrubber if it met it between the loss and the rebuild.
			if n := p.Stats().Rebuilds["missing"] - before; n < 1 || n > 2 {
				t.Errorf("%d rebuilds of a page that is missing", n)
			}
			inside, err := p.inspector.InspectPage(t.Context(), number)
			must(t, err)
			if !inside.Agrees() || inside.Ledger.Keys != keys {
				t.Errorf("the page does not agree with the ledger: %d of %d keys, state %v", inside.Ledger.Keys, keys, inside.State)
			}
			p.wantInBackground(t, number)
			if users > 1 {
				must(t, p.grower.growTo(t.Context(), 4))
				look()
			}
			n, _, err := p.DeleteUser(t.Context(), "u0")
			if err != nil || n != keys/users {
				t.Errorf("%d of %d activities deleted, %v", n, keys/users, err)
			}
			p.want(t, "u0", "hide", "p0", false)
			if users > 1 {
				p.want(t, "u1", "hide", "p1", true)
			}
		})
	}
}

// wantInBackground starts the comparison of a large page, and waits until it has ended.
func (g *rig) wantInBackground(t *testing.T, number uint32) {
	t.Helper()
	verified := g.Stats().Verified
	g.scrubber.verify(number)
	for end := time.Now().Add(time.Minute); g.Stats().Verified == verified || g.Stats().Rebuilds["verified"] == 0; {
		if time.Now().After(end) {
			t.Fatal("the page was not compared within a minute")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A page that cannot be rebuilt does not keep the sweep from other pages that were left behind.
func TestSweepPassesABadPage(t *testing.T) {
	inBadRig(t, true, func(t *testing.T, g *badRig) {
		g.ledger.on.Store(true)
		write := func(user string) { // records without the page, like a writer that dies
			change := changeOf(g.Pages, add(user, "hide", "p"), time.Now())
			_, err := g.whole.Record(t.Context(), time.Now(), []ledger.Change{change})
			must(t, err)
		}
		for _, user := range g.others {
			write(g.user) // so that each sweep meets the bad page
			write(user)
			time.Sleep(2*defaultBound + repairPatience)
			number := g.pageOf(user)
			found, err := g.store.Peek(t.Context(), []favfilter.PageID{{Number: number}})
			must(t, err)
			if want := g.sequences.Of(number).Required.Load(); found[0].Header.Sequence != want || want < 2 {
				t.Errorf("page %d is left at %d, want %d", number, found[0].Header.Sequence, want)
			}
		}
	})
}

// Users whose new pages cannot be made do not keep others from moving.
func TestMovesPassBadPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 64)
		bad := &badLedger{hangs: true, bad: make(map[uint32]bool)}
		for page := range uint32(16) {
			bad.bad[ledger.DedicatedPages+page] = true
		}
		p := startProcess(t, l.Around(bad.around), &favfilter.Memory{}, Config{MaxSharedKeys: MinSharedKeys, ScrubRate: 1})
		bad.on.Store(true)
		const users = 3 * maxLeaving
		for page := range uint32(users) {
			user := p.userOn(page)
			var activities []act
			for i := range 4 * MinSharedKeys {
				activities = append(activities, add(user, "hide", fmt.Sprint("p", i)))
			}
			_, err := p.Record(t.Context(), activities)
			must(t, err)
			p.applier.leave(p.hashOf(user))
		}
		time.Sleep(time.Second)
		progress, err := l.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
		must(t, err)
		if moved := len(progress.Owners); moved != users {
			t.Errorf("%d of %d users have moved", moved, users)
		}
	})
}
