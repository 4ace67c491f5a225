package ledger_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

func wantFormats(t testing.TB, l *ledger.Ledger, want ledger.PageFormats) {
	t.Helper()
	got, err := l.PageFormats(t.Context())
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// testPageFormats has processes of an earlier version use a ledger, whose pages then keep their
// format.
func (server shared) testPageFormats(t testing.TB) {
	const first, latest = 3, ledger.PageFormat
	url := server.Schema()
	a := open(t, url, ledger.Options{Pages: 16})
	must(t, a.Agree(t.Context(), time.Second))
	wantFormats(t, a, ledger.PageFormats{Built: latest})

	// An earlier version made the ledger. Such a process holds one lock, for its settings.
	conn := raw(t, url)
	execute(t, conn, `DELETE FROM meta WHERE name = 'page_format'`)
	wantFormats(t, a, ledger.PageFormats{Built: first})
	b := open(t, url, ledger.Options{})
	wantFormats(t, b, ledger.PageFormats{Built: first})
	must(t, b.Agree(t.Context(), time.Second))
	wantFormats(t, b, ledger.PageFormats{Built: first})
	older := raw(t, url)
	execute(t, older, `SELECT pg_advisory_lock_shared(
			(l.classid::int8 - CASE WHEN l.classid::int8 < 2147483648 THEN 0 ELSE 4294967296 END)::int4, 1000000)
		FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE l.locktype = 'advisory' AND d.datname = current_database() AND l.objid = 1000000 LIMIT 1`)
	for _, l := range []*ledger.Ledger{a, b} {
		wantFormats(t, l, ledger.PageFormats{Built: first, Older: true})
	}
	// Of another schema, it does not count.
	c := open(t, server.Schema(), ledger.Options{Pages: 16})
	must(t, c.Agree(t.Context(), time.Second))
	wantFormats(t, c, ledger.PageFormats{Built: latest})
	execute(t, older, `SELECT pg_advisory_unlock_all()`)
	wantFormats(t, a, ledger.PageFormats{Built: first})
	must(t, b.RaisePageFormat(t.Context()))
	must(t, b.RaisePageFormat(t.Context()))
	for _, l := range []*ledger.Ledger{a, b, open(t, url, ledger.Options{})} {
		wantFormats(t, l, ledger.PageFormats{Built: latest})
	}
	execute(t, conn, `UPDATE meta SET value = 'x' WHERE name = 'page_format'`)
	if f, err := a.PageFormats(t.Context()); err == nil || !strings.Contains(err.Error(), `damaged format of pages: "x"`) {
		t.Errorf("%+v, %v, want an error", f, err)
	}
}

// A file has one process, of whatever version.
func TestPageFormatsOfAFile(t *testing.T) {
	url := freshFile(t)
	l := open(t, url, ledger.Options{})
	wantFormats(t, l, ledger.PageFormats{Built: ledger.PageFormat})
	must(t, l.Close())
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
	must(t, err)
	_, err = db.ExecContext(t.Context(), `DELETE FROM meta WHERE name = 'page_format'`)
	must(t, err)
	must(t, db.Close())
	l = open(t, url, ledger.Options{})
	wantFormats(t, l, ledger.PageFormats{Built: 3})
	must(t, l.RaisePageFormat(t.Context()))
	wantFormats(t, l, ledger.PageFormats{Built: ledger.PageFormat})
}
