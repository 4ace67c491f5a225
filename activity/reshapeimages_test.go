package activity

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Pages that a reshape has made are there to stay; those that it made for nothing are not.
func TestReshapedPagesStay(t *testing.T) {
	store := &favfilter.Memory{}
	g := newRig(t, store, 2)
	store.Now = func() time.Time { return time.Unix(0, g.now.Load()) }
	g.everybody(t, 100)
	changing := &changingLedger{Ledger: g.ledger, times: 3}
	g.Recorder.ledger = changing
	must(t, g.Reshape(t.Context(), 16, nil))
	if changing.times >= 0 {
		t.Fatal("the ledger has not changed")
	}
	count := func() (n int) {
		for number := range uint32(200) {
			id := g.pageID(ledger.OwnPages + number)
			for home := range g.identity.Pages { // it is not known any more where those were that are not used
				id.Number = home
				st, err := store.Peek(t.Context(), []favfilter.PageID{id})
				must(t, err)
				if !st[0].Missing {
					n++
				}
			}
		}
		return n
	}
	standing := count()
	if standing <= 14 {
		t.Errorf("%d pages stand: none was made for nothing", standing)
	}
	g.now.Add(int64(preparedExpiry + time.Minute))
	if n := count(); n != 14 {
		t.Errorf("%d pages are left of %d, want 14", n, standing)
	}
}

// changingLedger says for some times that homes have changed since their reshape was planned.
type changingLedger struct {
	*ledger.Ledger
	mu    sync.Mutex
	times int
}

func (l *changingLedger) Reshape(ctx context.Context, p *ledger.ReshapePlan) (ledger.Receipt, error) {
	l.mu.Lock()
	l.times--
	changed := l.times >= 0
	l.mu.Unlock()
	if changed {
		return ledger.Receipt{}, ledger.ErrChanged
	}
	return l.Ledger.Reshape(ctx, p)
}

// Where others write so much that images are always old, a home is reshaped without any.
func TestReshapeWithoutImages(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 2)
	check := g.everybody(t, 60)
	for _, pages := range []uint32{16, 1, 4} {
		expecting := &expectingLedger{Ledger: g.ledger}
		g.Recorder.ledger = expecting
		must(t, g.Reshape(t.Context(), pages, nil))
		if expecting.refused < maxPlans-1 {
			t.Errorf("%d tries with images", expecting.refused)
		}
		check(fmt.Sprint(pages, " pages"))
		g.wantWhole(t)
	}
}

// expectingLedger says of every plan with expectations that they are not met.
type expectingLedger struct {
	*ledger.Ledger
	mu      sync.Mutex
	refused int
}

func (l *expectingLedger) Reshape(ctx context.Context, p *ledger.ReshapePlan) (ledger.Receipt, error) {
	if len(p.Expect) > 0 {
		l.mu.Lock()
		l.refused++
		l.mu.Unlock()
		return ledger.Receipt{}, ledger.ErrChanged
	}
	return l.Ledger.Reshape(ctx, p)
}

// Home pages that nobody is on any more go after a while, and are not made again.
func TestEmptyHomePagesGo(t *testing.T) {
	store := &favfilter.Memory{}
	g := newRig(t, store, 8)
	store.Now = func() time.Time { return time.Unix(0, g.now.Load()) }
	check := g.everybody(t, 60)
	must(t, g.Reshape(t.Context(), 1, nil))
	g.now.Add(int64(2 * emptyExpiry))
	g.scrubAll()
	if n := g.Stats().Found; len(n) > 0 {
		t.Errorf("the scrub found %v", n)
	}
	check("an hour later")
}
