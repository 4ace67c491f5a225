package pages

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// lose has the store lose a hide that g acknowledges for user 1.
func (g *rig) lose(t *testing.T, target string) {
	t.Helper()
	lost := setBack(t, g.store, g.layout.PageID(g.pageOf("1")))
	g.record(t, true, add("1", "hide", target))
	lost()
}

// Polls fail, but the ledger answers other calls. Feeds see writes that other processes
// acknowledged and the store lost.
func TestPollsFailWhileTheLedgerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		c := Config{ScrubRate: 1}
		cut := &slowLedger{}
		a, b := startProcess(t, l, store, c), startProcess(t, l.Around(cut.around), store, c)
		a.record(t, true, add("1", "hide", "before"))
		b.want(t, "1", "hide", "before", true)
		cut.fails.Store(true)
		time.Sleep(3 * time.Second)
		for i := range 20 {
			target := fmt.Sprint("p", i)
			a.lose(t, target)
			time.Sleep(b.known.Bound() + time.Millisecond)
			b.want(t, "1", "hide", target, true)
		}
		if s := b.Stats(); s.LedgerDown || s.PollsFailed < 10 {
			t.Errorf("the ledger is down: %v, %d polls failed", s.LedgerDown, s.PollsFailed)
		}
		wantReady(t, b, ErrBehind)
		cut.fails.Store(false)
		time.Sleep(time.Second)
		wantReady(t, b, nil)
	})
}

// wantReady checks that feeds are answered, and that the only error reported is the wanted one of
// the ledger, or none.
func wantReady(t *testing.T, p *rig, want error) {
	t.Helper()
	ready, down := p.Ready(t.Context())
	switch {
	case !ready:
		t.Errorf("not ready: %v", down)
	case want == nil && len(down) > 0:
		t.Errorf("%v, want nothing down", down)
	case want != nil && (len(down) != 1 || !errors.Is(down[0], want) || dependency(down[0]) != "ledger"):
		t.Errorf("down %v, want %v alone", down, want)
	}
}

// startingOver is a ledger whose polls begin at the first page each time, as on a new connection.
// Each part of a poll comes late.
type startingOver struct {
	delay atomic.Int64 // of each part
	fails atomic.Bool  // questions about a page or user fail
}

func (l *startingOver) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	switch delay := time.Duration(l.delay.Load()); {
	case c.Operation == "changed" && delay > 0:
		n, each := 0, c.Each
		c.Since, c.Each = "", func(page uint32, s ledger.PageState) error {
			n++
			if n%known.LongPoll == 0 {
				time.Sleep(delay)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return each(page, s)
		}
	case l.fails.Load() && slices.Contains([]string{"sequence", "place", "ping"}, c.Operation):
		return faulttest.ErrInjected
	}
	return next(ctx)
}

// pagesWithChanges records something on each of the pages.
func pagesWithChanges(t *testing.T, l *ledger.Ledger, pages uint32) {
	t.Helper()
	changes := make([]ledger.Change, pages)
	shift := 64 - bits.TrailingZeros32(l.Identity().Pages)
	for page := range pages {
		row := ledger.Row{Hash: uint64(page) << shift, Owner: "x", Kind: "hide", Target: "p", Since: time.Now()}
		changes[page] = ledger.Change{Rows: []ledger.Row{row}}
	}
	_, err := l.Record(t.Context(), time.Now(), changes)
	must(t, err)
}

// A poll of all pages may take far longer than the bound. No read waits for it. Until the poll
// ends, each read asks the ledger before it trusts a page.
func TestSlowPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 4
		l, store := newLedger(t, 2*parts*known.LongPoll), &favfilter.Memory{}
		pagesWithChanges(t, l, parts*known.LongPoll)
		over := &startingOver{}
		a, b := startProcess(t, l, store, Config{ScrubRate: 1}), startProcess(t, l.Around(over.around), store, Config{ScrubRate: 1})
		a.record(t, true, add("1", "hide", "before"))
		over.delay.Store(int64(time.Second))
		polls := b.Stats().Polls
		for i := range 20 {
			target := fmt.Sprint("p", i)
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			a.lose(t, target)
			time.Sleep(b.known.Bound() + time.Millisecond)
			start := time.Now()
			b.want(t, "1", "hide", target, true)
			if took := time.Since(start); took > time.Second {
				t.Errorf("a feed took %v", took)
			}
			if i == 0 {
				wantReady(t, b, ErrBehind)
				over.fails.Store(true)
				b.want(t, "1", "hide", target, true) // the ledger does not answer, so the page is trusted
				over.fails.Store(false)
			}
		}
		if s := b.Stats(); s.PollsFailed > 0 || s.Polls < polls+3 || s.LedgerDown {
			t.Errorf("%d polls failed, %d did not; the ledger is down: %v", s.PollsFailed, s.Polls-polls, s.LedgerDown)
		}
	})
}

// The ledger could not be reached, and answers a long poll now. Before the poll ends, reads ask the
// ledger again. They do not trust a page that has lost a write.
func TestLongPollAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store, over := newLedger(t, 4*known.LongPoll), &favfilter.Memory{}, &startingOver{}
		pagesWithChanges(t, l, 3*known.LongPoll)
		a, b := newProcess(t, l, store), newProcess(t, l.Around(over.around), store)
		a.record(t, true, add("1", "hide", "before"))
		over.fails.Store(true)
		b.want(t, "1", "hide", "before", true) // a question about the newer page is not answered
		time.Sleep(2 * time.Minute)
		over.fails.Store(false)
		over.delay.Store(int64(200 * time.Millisecond))
		polled, since := make(chan error), b.life.Elapsed()
		go func() { polled <- b.known.PollSince(t.Context(), since) }()
		time.Sleep(300 * time.Millisecond) // a part of the poll has been answered
		a.lose(t, "p")
		b.want(t, "1", "hide", "p", true)
		must(t, <-polled)
	})
}

// A process loses its poll connection to a large ledger. Its feeds still see writes that other
// processes acknowledged, and the next poll continues from the last one.
func TestLongPollsAfterALostConnection(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.Schema()
	const pages = 1 << 18
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	execute := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	first, second := openLedgerAt(t, url, pages), openLedgerAt(t, url, pages)
	execute(`INSERT INTO pages SELECT n, 1, pg_current_xact_id()::text::bigint FROM generate_series(0, 262143) AS n`)
	store := &favfilter.Memory{}
	a := startProcess(t, first, store, Config{ScrubRate: 1})
	defer a.Close()
	b := startProcess(t, second, store, Config{ScrubRate: 1})
	defer b.Close()
	a.record(t, true, add("1", "hide", "before"))
	b.want(t, "1", "hide", "before", true)
	polls := b.Stats().Polls
	execute(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'feedfilter'`)
	began := time.Now()
	for i := 0; i < 5 || b.Stats().Polls == polls; i++ {
		if time.Since(began) > time.Minute {
			t.Fatal("no poll succeeded for a minute")
		}
		target := fmt.Sprint("p", i)
		a.lose(t, target)
		<-time.After(b.known.Bound())
		b.want(t, "1", "hide", target, true)
	}
	t.Logf("the first poll after the loss took up to %v", time.Since(began))
}

// A process reconnects and finds that other processes use different settings. It refuses writes,
// and its feeds are correct.
func TestWritesWhereSettingsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		var differs atomic.Bool // other processes use different settings
		other := l.Around(before(func(context.Context) error {
			if differs.Load() {
				return fmt.Errorf("poll: %w", ledger.ErrSettingsDiffer)
			}
			return nil
		}, "changed"))
		a, b := startProcess(t, l, store, Config{ScrubRate: 1}), startProcess(t, other, store, Config{ScrubRate: 1})
		b.record(t, true, add("1", "hide", "before"))
		differs.Store(true)
		time.Sleep(2 * time.Second)
		a.lose(t, "p")
		b.want(t, "1", "hide", "p", true)
		if _, err := b.Record(t.Context(), []act{add("1", "hide", "q")}); dependency(err) != "ledger" || !errors.Is(err, ledger.ErrSettingsDiffer) {
			t.Errorf("error %v, want ErrSettingsDiffer", err)
		}
		bulk := b.NewBulk()
		if _, err := recordBulk(t.Context(), bulk, []act{add("1", "hide", "q")}); !errors.Is(err, ledger.ErrSettingsDiffer) {
			t.Errorf("bulk: error %v, want ErrSettingsDiffer", err)
		}
		a.want(t, "1", "hide", "q", false)
		wantReady(t, b, ErrBehind)
		differs.Store(false)
		time.Sleep(time.Second)
		b.record(t, true, add("1", "hide", "q"))
	})
}

// The first poll may take longer than others, because it also connects.
func TestOpenWaitsForLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 16)
		for delay, opens := range map[time.Duration]bool{
			known.FirstPollTimeout - time.Millisecond: true,
			known.FirstPollTimeout + time.Millisecond: false,
		} {
			far := l.Around(before(func(ctx context.Context) error {
				select {
				case <-time.After(delay):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}, "changed"))
			r, err := openPages(t.Context(), Config{Ledger: far, Store: &favfilter.Memory{}})
			if (err == nil) != opens {
				t.Errorf("a poll that takes %v: error %v", delay, err)
			}
			if err == nil {
				r.Close()
			}
		}
	})
}

// The time for the first poll suffices for a ledger with 300 ms latency. The poll takes about ten
// round trips, most of them to connect.
func TestLongOpenFarFromLedger(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	proxy := proxytest.Start(t, server.Addr())
	l, err := ledger.Open(t.Context(), strings.Replace(server.Schema(), server.Addr(), proxy.Addr(), 1), ledger.Options{Pages: 16})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	proxy.Delay(300*time.Millisecond, 0)
	r, err := openPages(t.Context(), Config{Ledger: l, Store: &favfilter.Memory{}})
	must(t, err)
	r.Close()
}

// All Recorders of a PostgreSQL ledger need the same staleness bound. Either all of them cache
// pages, or none.
func TestSettingsDiffer(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).Schema()
	open := func(c Config) (*Pages, error) {
		c.Ledger, c.Store = openLedgerAt(t, url, 16), &favfilter.Memory{}
		return openPages(t.Context(), c)
	}
	first, err := open(Config{})
	must(t, err)
	t.Cleanup(first.Close)
	for name, c := range map[string]struct {
		Config
		differs bool
	}{
		"the same":                 {Config{StalenessBound: time.Second}, false},
		"another bound":            {Config{StalenessBound: 200 * time.Millisecond}, true},
		"a store for each process": {Config{StalenessBound: -1}, true},
		"a passive Recorder":       {Config{StalenessBound: time.Minute, Passive: true}, false},
	} {
		r, err := open(c.Config)
		if err == nil {
			t.Cleanup(r.Close)
		}
		if differs := errors.Is(err, ledger.ErrSettingsDiffer); differs != c.differs || err != nil && !differs {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A poll that succeeds after a failed one ends the pauses of rebuilds: the failures were the
// ledger's, not the page's.
func TestLedgerIsBackEndsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		down := &slowLedger{}
		p := startProcess(t, l.Around(down.around), store, Config{ScrubRate: 1})
		p.record(t, true, add("1", "hide", "p"))
		p.losePages(t, 0)
		down.fails.Store(true)
		down.unreadable.Store(true)
		for range 300 {
			if _, err := p.view(t.Context(), "1"); dependency(err) != "ledger" {
				t.Fatalf("error %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		down.fails.Store(false)
		down.unreadable.Store(false)
		time.Sleep(p.known.Interval() + time.Millisecond)
		p.want(t, "1", "hide", "p", true)
	})
}
