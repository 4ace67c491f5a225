package pages

import (
	"bytes"
	"context"
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
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// accessLedger is a ledger whose polls and other calls can be made to fail.
type accessLedger struct {
	polls, places atomic.Bool  // polls fail; all other calls about pages fail
	asked         atomic.Int64 // number of calls of Place
}

func (l *accessLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	var fails bool
	switch c.Operation {
	case "changed":
		fails = l.polls.Load()
	case "place", "sequence", "ping":
		fails = l.places.Load()
	}
	if c.Operation == "place" {
		l.asked.Add(1)
	}
	if fails {
		return faulttest.ErrInjected
	}
	return next(ctx)
}

// messages collects the messages of a log.
type messages struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (m *messages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.Write(p)
}

// take returns the lines that contain the word, and forgets all lines.
func (m *messages) take(word string) (lines []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for line := range strings.Lines(m.text.String()) {
		if strings.Contains(line, word) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	m.text.Reset()
	return lines
}

func (m *messages) want(t *testing.T, when string, want ...string) {
	t.Helper()
	lines := m.take("ledger")
	if len(lines) != len(want) {
		t.Errorf("%s: %d lines, want %d: %q", when, len(lines), len(want), lines)
		return
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("%s: line %d is %q, want %q", when, i, lines[i], want[i])
		}
	}
}

// The log has one line each time the ledger becomes reachable or unreachable, however long that
// lasts.
func TestAccessIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newLedger(t, 1), new(messages)
		cut := &accessLedger{}
		_ = startProcess(t, l.Around(cut.around), &favfilter.Memory{}, Config{
			ScrubRate: 1, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		set := func(polls, places bool) {
			cut.polls.Store(polls)
			cut.places.Store(places)
			time.Sleep(10 * time.Second)
		}
		log.take("")
		set(true, false)
		log.want(t, "polls fail", `level=WARN msg="changes cannot be read from the ledger`)
		set(true, true)
		log.want(t, "nothing is answered", `level=ERROR msg="the ledger cannot be read`)
		set(true, false)
		log.want(t, "polls fail again", `level=WARN msg="changes cannot be read from the ledger`)
		set(false, false)
		log.want(t, "all is well", `level=INFO msg="the ledger can be read again"`)
		set(false, false)
		log.want(t, "all is well for longer")
	})
}

// A long poll is logged once when it takes long, and once when it ends. One that takes less than a
// second, as for a batch of an import, is not.
func TestSlowPollIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newLedger(t, 4*known.LongPoll), new(messages)
		pagesWithChanges(t, l, 4*known.LongPoll)
		over := &startingOver{}
		_ = startProcess(t, l.Around(over.around), &favfilter.Memory{}, Config{
			ScrubRate: 1, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		log.take("")
		over.delay.Store(int64(200 * time.Millisecond))
		time.Sleep(10 * time.Second)
		log.want(t, "polls of 0.8 s")
		over.delay.Store(int64(1400 * time.Millisecond))
		time.Sleep(4 * time.Second) // some parts of a poll have been read
		log.want(t, "a long poll", `level=INFO msg="many pages have changed in the ledger`)
		over.delay.Store(0)
		time.Sleep(10 * time.Second)
		log.want(t, "it has ended", `level=INFO msg="the ledger can be read again"`)
	})
}

// While polls fail, each feed asks the ledger where its user is. Once such a question fails, later
// feeds do not ask, and so do not wait for a ledger that does not answer.
func TestOneFeedAsksALedgerThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		cut := &accessLedger{}
		p := startProcess(t, l.Around(cut.around), &favfilter.Memory{}, Config{StalenessBound: time.Minute, ScrubRate: 1})
		p.record(t, true, add("1", "hide", "p"))
		cut.polls.Store(true)
		time.Sleep(2*time.Minute + 7*time.Second) // between two polls
		cut.asked.Store(0)
		for range 3 {
			p.want(t, "1", "hide", "p", true)
		}
		if n := cut.asked.Swap(0); n != 3 {
			t.Errorf("three feeds asked for %d places, want 3", n)
		}
		cut.places.Store(true)
		cut.asked.Store(0)
		for range 3 {
			p.want(t, "1", "hide", "p", true)
		}
		if n := cut.asked.Load(); n != 1 {
			t.Errorf("three feeds asked a ledger that is down for %d places, want 1", n)
		}
	})
}

// Each process has its own store. As soon as the ledger answers again after an outage, feeds ask
// it. They do not trust the pages until the next poll in the background.
func TestOwnStoreAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		cut := &accessLedger{}
		c := Config{StalenessBound: -1, ScrubRate: 1}
		a, b := startProcess(t, l, &favfilter.Memory{}, c), startProcess(t, l.Around(cut.around), &favfilter.Memory{}, c)
		b.want(t, "1", "hide", "p", false) // the page is in the store now
		for i := range 5 {
			target := fmt.Sprint("p", i)
			cut.polls.Store(true)
			cut.places.Store(true)
			time.Sleep(5 * time.Second)
			b.want(t, "1", "hide", target, false) // the feed trusts the page, which lacks the hide
			a.record(t, true, add("1", "hide", target))
			cut.polls.Store(false)
			cut.places.Store(false)
			b.want(t, "1", "hide", target, true)
		}
	})
}

// A poll that hangs is ended, and the log says after how long. Feeds that wait for the poll share
// it, and are answered when it ends.
func TestPollHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newLedger(t, 1), new(messages)
		hanging := &hangingLedger{}
		p := startProcess(t, l.Around(hanging.around), &favfilter.Memory{}, Config{
			StalenessBound: 10 * time.Second, Passive: true, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		p.record(t, true, add("1", "hide", "p"))
		time.Sleep(time.Minute)
		log.take("")
		hanging.hangs.Store(true)
		hanging.polls.Store(0)
		start := time.Now()
		var feeds sync.WaitGroup
		for range 20 {
			feeds.Go(func() { p.want(t, "1", "hide", "p", true) })
		}
		feeds.Wait()
		if took := time.Since(start); took < known.PollTimeout || took > known.PollTimeout+time.Second {
			t.Errorf("20 feeds waited %v for a poll", took)
		}
		if n := hanging.polls.Load(); n != 1 {
			t.Errorf("20 feeds at once made %d polls", n)
		}
		log.want(t, "a poll hangs", "no answer within 1.5s: ledger: read changed pages: context canceled")
	})
}
