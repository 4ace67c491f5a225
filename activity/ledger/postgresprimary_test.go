package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestPostgresPrimary names two servers, the first of which is read-only, like a standby. All
// connections must be to the second one.
func TestPostgresPrimary(t *testing.T) {
	t.Setenv("PGTARGETSESSIONATTRS", "any") // the URL overrides it
	readOnly, primary := pgtest.Start(t, "default_transaction_read_only=on"), pgtest.Start(t)
	const schema = "&search_path=feedfilter"
	there := open(t, readOnly.URL()+schema+"&default_transaction_read_only=off", ledger.Options{Pages: 16})
	here := open(t, primary.URL()+schema, ledger.Options{Pages: 16})
	both := strings.Replace(primary.URL(), primary.Addr(), readOnly.Addr()+","+primary.Addr(), 1) + schema
	for parameter, want := range map[string]*ledger.Ledger{
		"":                                 here,
		"&target_session_attrs=read-write": here,
		"&target_session_attrs=primary":    there, // this server is not a standby
	} {
		l := open(t, both+parameter, ledger.Options{})
		if l.Identity() != want.Identity() {
			t.Errorf("%q: another server's ledger is open", parameter)
			continue
		}
		if want == here {
			record(t, l, on(3, "a"))
			checkSequence(t, l, 3, 1)
			pages, _ := changed(t, l, "")
			checkPages(t, parameter, pages, map[uint32]uint64{3: 1})
		}
	}
	_, err := ledger.Open(t.Context(), readOnly.URL()+schema, ledger.Options{})
	if err == nil || !strings.Contains(err.Error(), "read only") || !strings.Contains(err.Error(), readOnly.Addr()) {
		t.Errorf("error %v, want one naming %s as read only", err, readOnly.Addr())
	}
	for _, value := range []string{"any", "read-only", "standby", "prefer-standby", "one"} {
		_, err := ledger.Open(t.Context(), both+"&target_session_attrs="+value, ledger.Options{})
		if err == nil || !strings.Contains(err.Error(), "target_session_attrs") || !strings.Contains(err.Error(), value) {
			t.Errorf("error %v, want one naming target_session_attrs and %s", err, value)
		}
	}
}

// TestPostgresRepetitionWaits repeats the Record of a row that the standby does not have yet, and
// that may be lost. The second call must not be acknowledged either.
func TestPostgresRepetitionWaits(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "synchronous_standby_names=nobody")
	url := s.Schema()
	alone := open(t, url+"&synchronous_commit=local", ledger.Options{Pages: 16})
	record(t, alone, on(3, "a"))
	l := open(t, url, ledger.Options{})
	watch := raw(t, url)
	for name, changes := range map[string][]ledger.Change{
		"of a row":     {on(3, "a")},
		"of a removal": {{Rows: on(4, "a").Rows, Remove: true}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := startRecord(ctx, l, changes...)
			endWait(t, watch, "pg_terminate_backend", done)
			cancel()
			if err := <-done; err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "commit: ") {
				t.Errorf("error %v of a commit that was cut off, want an error of the commit", err)
			}
		})
	}
	checkSequence(t, l, 3, 1)
	checkSequence(t, l, 4, 0)
}

// TestPostgresWaitGivenUp makes an administrator end the wait for a standby. The server then
// reports success, but the commit may be lost, so it must not be acknowledged.
func TestPostgresWaitGivenUp(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "synchronous_standby_names=nobody")
	url := s.Schema()
	alone := open(t, url+"&synchronous_commit=local", ledger.Options{Pages: 16})
	record(t, alone, on(3, "a"))
	l := open(t, url, ledger.Options{})
	watch := raw(t, url)
	done := startRecord(t.Context(), l, on(4, "a"))
	endWait(t, watch, "pg_cancel_backend", done)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "commit: ") {
		t.Errorf("error %v of a commit that no standby has, want an error of the commit", err)
	}
	checkSequence(t, l, 4, 1)
}

// endWait calls the function do for sessions that wait for a standby, as soon as there is one. The
// test fails if the call ends first.
func endWait(t *testing.T, watch *pgx.Conn, do string, done <-chan error) {
	t.Helper()
	for cut := 0; cut == 0; {
		select {
		case err := <-done:
			t.Fatalf("the call ended without waiting for the standby: error %v", err)
		default:
		}
		query := `SELECT count(` + do + `(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
		must(t, watch.QueryRow(t.Context(), query).Scan(&cut))
	}
}
