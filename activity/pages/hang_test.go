package pages

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestLongHang stops a PostgreSQL for longer than any call waits, under 100 writes a second.
func TestLongHang(t *testing.T) {
	for name, connect := range hangConnections() {
		t.Run(name, func(t *testing.T) { hang(t, connect, 35*time.Second) })
	}
}

// hangConnections are ways from a process to its PostgreSQL.
func hangConnections() map[string]func(s *pgtest.Server, url string) string {
	return map[string]func(s *pgtest.Server, url string) string{
		"direct":    func(_ *pgtest.Server, url string) string { return url },
		"PgBouncer": func(s *pgtest.Server, url string) string { return s.StartBouncer("session").URL(url) },
	}
}

// backWithin is how long after its end a hang may still fail writes.
const backWithin = 20 * time.Second

// hang stops the server for a time. Writes must succeed again within backWithin, and the ledger
// must have all that were acknowledged.
func hang(t *testing.T, connect func(s *pgtest.Server, url string) string, paused time.Duration) {
	t.Helper()
	t.Parallel()
	server := pgtest.Start(t)
	url := server.Schema()
	g := startProcess(t, openLedgerAt(t, connect(server, url), 4), &favfilter.Memory{}, Config{})
	w := hangWriters{rig: g, acknowledged: make(chan ledger.Row, 1<<16)}
	ctx, cancel := context.WithCancel(t.Context())
	w.running.Go(func() { w.run(ctx) })
	w.await(t, 50, time.Minute)
	server.Pause()
	time.Sleep(paused)
	w.drain()
	server.Resume()
	resumed := time.Now()
	w.await(t, 50, backWithin)
	t.Logf("50 writes within %v", time.Since(resumed))
	cancel()
	w.running.Wait()
	w.drain()
	direct := openLedgerAt(t, url, 0)
	for _, r := range w.all {
		rows, err := direct.Lookup(t.Context(), ledger.LookupQuery{Hash: r.Hash, Owner: r.Owner, Items: []ledger.Item{{Kind: r.Kind, Target: r.Target}}})
		if err != nil || len(rows) != 1 {
			t.Fatalf("an acknowledged write is lost: %+v, %v", r, err)
		}
	}
}

// hangWriters write 100 times a second.
type hangWriters struct {
	*rig

	running      sync.WaitGroup
	acknowledged chan ledger.Row
	all          []ledger.Row // taken from acknowledged
}

func (w *hangWriters) run(ctx context.Context) {
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-every.C
		w.running.Go(func() { //nolint:contextcheck // a write that has begun ends by itself
			limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			changes := changesOf(w.Pages, []act{add(fmt.Sprint("u", i%20), "hide", fmt.Sprint("p", i))})
			if _, err := w.Write(limited, changes); err == nil {
				w.acknowledged <- changes[0].Rows[0]
			}
		})
	}
}

// await waits for so many more acknowledged writes.
func (w *hangWriters) await(t *testing.T, n int, limit time.Duration) {
	t.Helper()
	late := time.After(limit)
	for range n {
		select {
		case r := <-w.acknowledged:
			w.all = append(w.all, r)
		case <-late:
			t.Fatalf("%d writes were acknowledged, and then none for %v", len(w.all), limit)
		}
	}
}

// drain takes the writes that were acknowledged so far.
func (w *hangWriters) drain() {
	for {
		select {
		case r := <-w.acknowledged:
			w.all = append(w.all, r)
		default:
			return
		}
	}
}
