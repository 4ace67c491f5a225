package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// ignored makes PgBouncer drop settings that a client sends when it connects.
const ignored = "ignore_startup_parameters=search_path,synchronous_commit,statement_timeout,lock_timeout," +
	"idle_in_transaction_session_timeout,enable_seqscan,enable_hashjoin,enable_mergejoin,jit"

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
	t.Run("by", func(t *testing.T) {
		for name, c := range refused {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				url := s.StartBouncer(c.mode, c.settings).URL(s.Schema())
				_, err := ledger.Open(t.Context(), url, ledger.Options{})
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "pooler in session mode") {
					t.Errorf("error %v, want one with %q that asks for session mode", err, c.want)
				}
			})
		}
	})
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
