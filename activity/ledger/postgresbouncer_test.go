package ledger_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// ignored makes PgBouncer drop settings that a client sends when it connects.
const ignored = "ignore_startup_parameters=search_path,synchronous_commit,statement_timeout,lock_timeout," +
	"idle_in_transaction_session_timeout,enable_seqscan,enable_hashjoin,enable_mergejoin,jit,plan_cache_mode"

// TestPostgresBouncer opens a ledger through PgBouncers in session mode. The server's defaults are
// not those that the ledger needs.
func TestPostgresBouncer(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "synchronous_commit=off")
	for name, settings := range map[string]string{"by default": "", "settings ignored": ignored} {
		t.Run(name, func(t *testing.T) {
			url := s.Schema()
			l := open(t, s.StartBouncer("session", settings).URL(url), ledger.Options{Pages: 16})
			record(t, l, on(3, "a"))
			direct := open(t, url, ledger.Options{})
			if l.Identity() != direct.Identity() {
				t.Error("a direct URL opens another ledger")
			}
			pages, next := changed(t, l, "")
			checkPages(t, "at first", pages, map[uint32]uint64{3: 1})
			record(t, direct, on(4, "a"))
			pages, _ = changed(t, l, next)
			checkPages(t, "later", pages, map[uint32]uint64{4: 1})

			if err := l.Agree(t.Context(), time.Second); err != nil {
				t.Error(err)
			}
			if err := direct.Agree(t.Context(), time.Minute); err == nil {
				t.Error("a process with other settings is accepted")
			}
			shut(t, l)
			await(t, raw(t, url), `SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')`)
		})
	}
}

// TestPostgresBouncerSmall has a PgBouncer with as few connections as DEPLOY allows: those for
// calls, for polls, for pings, and one for checks. All are in use at once, and no call waits for
// good.
func TestPostgresBouncerSmall(t *testing.T) {
	t.Parallel()
	const calls = 8
	s := pgtest.Start(t)
	url := s.StartBouncer("session", fmt.Sprint("default_pool_size=", calls+3)).URL(s.Schema())
	url += fmt.Sprint("&connect_timeout=30&pool_max_conns=", calls) // patient, as the machine may be busy
	l := open(t, patient(url), ledger.Options{Pages: 16, KeepConnections: true})
	if err := l.Agree(t.Context(), time.Second); err != nil { // connects polls, and keeps a lock
		t.Fatal(err)
	}
	conn := raw(t, s.URL())
	const connected = ` FROM pg_stat_activity WHERE application_name = 'feedfilter'`
	for range 3 {
		var wg sync.WaitGroup
		for i := range 4 * calls {
			wg.Go(func() {
				change := on(i%16, fmt.Sprint("a", i))
				_, err := l.Record(t.Context(), time.Time{}, []ledger.Change{change})
				if err != nil {
					t.Errorf("write %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		changed(t, l, "")
		must(t, l.Ping(t.Context()))
		await(t, conn, fmt.Sprintf(`SELECT count(*) >= %d`, calls+2)+connected)
		// PgBouncer connects again, too.
		_, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid)`+connected)
		must(t, err)
	}
}

// TestPostgresBouncerRefused opens ledgers through PgBouncers that do not give each connection a
// session of its own. Open must say so, and create nothing.
func TestPostgresBouncerRefused(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	const leaks = "a session's lock is still held"
	refused := map[string]struct {
		mode, settings, want string
	}{
		"transaction":                    {"transaction", "", leaks},
		"transaction, settings ignored":  {"transaction", ignored, leaks},
		"transaction, other servers":     {"transaction", "server_round_robin=1", leaks},
		"transaction, sessions reset":    {"transaction", "server_reset_query_always=1", `enable_hashjoin is "on", but was set to "off"`},
		"statement":                      {"statement", "", leaks},
		"session, but it does not reset": {"session", "server_reset_query=", leaks},
	}
	var wg sync.WaitGroup
	for name, c := range refused {
		url := s.StartBouncer(c.mode, c.settings).URL(s.Schema())
		wg.Go(func() { // Open waits for a lock to be released, so all wait at once
			_, err := ledger.Open(t.Context(), url, ledger.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "pooler in session mode") {
				t.Errorf("%s: error %v, want one with %q that asks for session mode", name, err, c.want)
			}
		})
	}
	wg.Wait()
	await(t, raw(t, s.URL()), `SELECT to_regclass('ledger_version') IS NULL
		AND NOT EXISTS (SELECT FROM pg_namespace WHERE nspname LIKE 'schema%')`)
}

// TestPostgresBouncerChanges changes the mode of a PgBouncer while two processes use a ledger.
// Once a poll gets the session of the other process, it must fail: that session does not have the
// lock for its settings.
func TestPostgresBouncerChanges(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	b := s.StartBouncer("session")
	url := b.URL(s.Schema())
	both := []*ledger.Ledger{open(t, url, ledger.Options{Pages: 16}), open(t, url, ledger.Options{})}
	for _, l := range both {
		changed(t, l, "")
	}
	b.Reload("transaction")
	for deadline := time.Now().Add(time.Minute); ; {
		for _, l := range both {
			_, err := l.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
			if err != nil && strings.Contains(err.Error(), "pooler in session mode") {
				return
			}
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("a poll returned %v, want an error that asks for session mode", err)
			}
		}
	}
}

// cancelCounter passes connections on, and counts those that are cancel requests.
type cancelCounter struct {
	addr  string
	count atomic.Int64
}

func countCancels(t *testing.T, to string) *cancelCounter {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	c := &cancelCounter{addr: listener.Addr().String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go c.pass(client, to)
		}
	}()
	return c
}

func (c *cancelCounter) pass(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	const cancelCode = 80877102 // in place of a protocol's version
	length := make([]byte, 4)
	if _, err := io.ReadFull(client, length); err != nil {
		return
	}
	start := make([]byte, binary.BigEndian.Uint32(length))
	copy(start, length)
	if _, err := io.ReadFull(client, start[4:]); err != nil {
		return
	}
	if binary.BigEndian.Uint32(start[4:]) == cancelCode {
		c.count.Add(1)
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if _, err := server.Write(start); err != nil { // as a whole, which PgBouncer requires
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// TestPostgresCancelRequests gives up calls. Without a pooler, a cancel request ends the statement.
// Of the calls that a hanging server does not answer, only the first sends one. Through PgBouncer
// there is none.
func TestPostgresCancelRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bouncer bool
		waiting int64 // cancel requests for a call that waits for a lock
		hanging int64 // at most, for calls that a hanging server does not answer
	}{
		"direct":    {false, 1, 1},
		"PgBouncer": {true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t)
			direct := s.Schema()
			way := direct
			if c.bouncer {
				way = s.StartBouncer("session").URL(direct)
			}
			to := addressOf(t, way)
			counter := countCancels(t, to)
			l, err := ledger.Open(t.Context(), strings.Replace(way, to, counter.addr, 1), ledger.Options{Pages: 16})
			must(t, err)
			record(t, l, on(3, "a"))
			other, watch := raw(t, direct), raw(t, direct)
			execute(t, other, `BEGIN`, `SELECT FROM pages FOR UPDATE`)
			ctx, cancel := context.WithCancel(t.Context())
			done := startRecord(ctx, l, on(3, "b"))
			awaitLock(t, watch)
			cancel()
			if err := <-done; err == nil {
				t.Error("a write that was given up was recorded")
			}
			if !c.bouncer { // long before the statement's own time limit
				await(t, watch, `SELECT NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`)
			}
			const connections = 4
			var all []<-chan error
			for i := range connections {
				all = append(all, startRecord(t.Context(), l, on(3, fmt.Sprint(i))))
			}
			await(t, watch, fmt.Sprintf(`SELECT count(*) >= %d FROM pg_locks WHERE NOT granted`, connections))
			execute(t, other, `ROLLBACK`)
			for _, done := range all {
				must(t, <-done)
			}
			checkSequence(t, l, 3, 1+connections)

			s.Pause()
			for range 8 {
				limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				if err := l.Ping(limited); err == nil {
					t.Error("a server that hangs has answered")
				}
				cancel()
			}
			s.Resume()
			record(t, l, on(4, "a"))
			shut(t, l) // once all connections have ended
			if n := counter.count.Load(); n < c.waiting || n > c.waiting+c.hanging {
				t.Errorf("%d cancel requests, want %d, and at most %d while the server hangs", n, c.waiting, c.hanging)
			}
		})
	}
}

// addressOf returns the host and port of a URL.
func addressOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	return u.Host
}
