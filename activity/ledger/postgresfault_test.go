package ledger_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestPostgresDisturbed records from several handles while the server is killed or their
// connections are cut. Acknowledged changes must exist. Every other change must exist as a whole
// or not at all. The handles must reconnect.
func TestPostgresDisturbed(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, s *pgtest.Server){
		"Killed": func(_ *testing.T, s *pgtest.Server) {
			s.Kill()
			s.Restart()
		},
		"Cut": func(t *testing.T, s *pgtest.Server) {
			t.Helper()
			execute(t, raw(t, s.URL()), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'feedfilter'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t)
			url := s.Schema()
			r := &recording{acknowledged: map[int]bool{}, progress: make(chan struct{}, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range 4 {
				l := open(t, url, ledger.Options{Pages: 8})
				wg.Go(func() { r.run(ctx, l) })
			}
			for range 4 {
				r.await(t, 40)
				disturb(t, s)
			}
			r.await(t, 40)
			cancel()
			wg.Wait()
			r.check(t, open(t, url, ledger.Options{}))
		})
	}
}

// recording is what writers have recorded, and what they were told.
type recording struct {
	next     atomic.Int64
	progress chan struct{}

	mu           sync.Mutex
	acknowledged map[int]bool
}

// run records two-way blocks until ctx ends.
func (r *recording) run(ctx context.Context, l *ledger.Ledger) {
	for ctx.Err() == nil {
		i := int(r.next.Add(1))
		_, err := l.Record(context.WithoutCancel(ctx), time.Now(), []ledger.Change{twoWay(i)})
		r.mu.Lock()
		r.acknowledged[i] = err == nil
		r.mu.Unlock()
		if err == nil {
			select {
			case r.progress <- struct{}{}:
			default:
			}
		}
	}
}

// await waits for n signs of progress.
func (r *recording) await(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-r.progress:
		case <-time.After(time.Minute):
			t.Fatal("no progress: writers record nothing")
		}
	}
}

// check compares the ledger with the recording.
func (r *recording) check(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	found := map[ledger.Row]bool{}
	sequences := map[uint32]uint64{}
	for page := range l.Identity().Pages {
		rows, s, err := l.Snapshot(t.Context(), page)
		must(t, err)
		sequences[page] = s.Sequence
		for _, row := range rows {
			found[row] = true
		}
	}
	for i, acknowledged := range r.acknowledged {
		pages := map[uint32]bool{}
		there := 0
		for _, row := range twoWay(i).Rows {
			row.Since = row.Since.UTC()
			pages[l.Identity().PageIn(l.Identity().Pages, row.Hash)] = true
			if found[row] {
				there++
				delete(found, row)
			}
		}
		if there == 1 || acknowledged && there == 0 {
			t.Errorf("number %d has %d of 2 rows (acknowledged: %v)", i, there, acknowledged)
		}
		if there > 0 {
			for page := range pages {
				sequences[page]--
			}
		}
	}
	if len(found) > 0 {
		t.Errorf("unexpected row %v", found)
	}
	for page, rest := range sequences {
		if rest != 0 {
			t.Errorf("page %d has %d sequences too many", page, int64(rest))
		}
	}
}

// TestLongPostgresDown calls a ledger whose server is down, hangs, and comes back.
func TestLongPostgresDown(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	url := s.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	record(t, l, on(3, "a"))
	s.Kill()
	calls := func(ctx context.Context) map[string]error {
		return map[string]error{
			"Record":   second(l.Record(ctx, time.Now(), []ledger.Change{on(3, "b")})),
			"Sequence": second(l.Sequence(ctx, 3)),
			"Ping":     l.Ping(ctx),
			"Dedicate": second(l.Move(ctx, 3<<60, true)),
			"Place":    second(l.Place(ctx, 3<<60)),
			"Layouts":  second(l.Layouts(ctx)),
			"Begin":    l.BeginLayout(ctx, 32),
			"Open":     second(ledger.Open(ctx, url, ledger.Options{})),
		}
	}
	for name, err := range calls(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), s.Addr()) {
			t.Errorf("%s: error %v, want one naming %s", name, err, s.Addr())
		}
	}
	s.Restart()
	record(t, l, on(3, "c"))
	checkSequence(t, l, 3, 2)

	s.Pause()
	// Calls have a deadline even if the caller sets none.
	if err := l.Ping(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ping: error %v, want context.DeadlineExceeded", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for name, err := range calls(ctx) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error %v, want context.DeadlineExceeded", name, err)
		}
	}
	_, err := ledger.Open(t.Context(), url+"&connect_timeout=1", ledger.Options{})
	if err == nil || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("Open: error %v, want one naming %s", err, s.Addr())
	}
	s.Resume()
	checkSequence(t, l, 3, 2)
}

func second[T any](_ T, err error) error { return err }

// TestPostgresURLs opens URLs without a server. No error may show the password.
func TestPostgresURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:secret@127.0.0.1:1/db",
		"postgresql://u:secret@127.0.0.1:1/db?connect_timeout=1",
		"postgres://u:secret@127.0.0.1:x/db",
		"postgres://u:sec/ret@127.0.0.1:1/db",
		"postgres://u:%zzsecret@127.0.0.1:1/db",
		"postgres://u:sec#ret@127.0.0.1:1/db",
		"postgres://u:secret@127.0.0.1:1/db?sslmode=secret",
		"postgres://127.0.0.1:1/db?user=u&password=secret&sslmode=no",
		"postgres://u:secret@127.0.0.1:1/db?pool_max_conns=many",
		"postgres://u:secret@127.0.0.1:1/db?synchronous_commit=off",
		"postgres://u:secret@127.0.0.1:1/db?search_path=pg_secret",
		"postgres://u:se%63ret@127.0.0.1:1/db?connect_timeout=soon",
	} {
		_, err := ledger.Open(t.Context(), url, ledger.Options{})
		if err == nil {
			t.Errorf("%s can be opened", url)
			continue
		}
		for _, part := range []string{"sec/ret", ":sec", "secret@", "=secret", "#ret"} {
			if strings.Contains(err.Error(), part) && !strings.Contains(url, "pg_secret") {
				t.Errorf("%s: error %q shows %s", url, err, part)
			}
		}
		if _, whole := errors.AsType[*pgconn.ParseConfigError](err); whole {
			t.Errorf("%s: the error holds the URL", url)
		}
	}
}
