package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// testSettings has processes declare settings, agree, differ, leave, and lose their connections.
func (server shared) testSettings(t testing.TB) {
	url := server.Schema()
	agree := func(l *ledger.Ledger, s time.Duration, other time.Duration) {
		t.Helper()
		err := l.Agree(t.Context(), s)
		switch {
		case other < 0 && err != nil:
			t.Errorf("%v: %v", s, err)
		case other < 0:
		case !errors.Is(err, ledger.ErrSettingsDiffer):
			t.Errorf("%v: error %v, want ErrSettingsDiffer", s, err)
		case !strings.Contains(err.Error(), bound(s)) || !strings.Contains(err.Error(), bound(other)):
			t.Errorf("error %q, want one that names %q and %q", err, bound(s), bound(other))
		}
	}
	const second, minute, half, none = time.Second, time.Minute, time.Second / 2, -1

	a, b := open(t, url, ledger.Options{Pages: 16}), open(t, url, ledger.Options{})
	agree(a, second, none)
	agree(a, second, none)
	agree(b, second, none)
	for _, other := range []time.Duration{minute, 0, second + time.Microsecond} {
		agree(open(t, url, ledger.Options{}), other, second)
	}
	// A process of version 0.1 with a page cache holds such a lock. Its ledger is not migrated.
	late, old := open(t, url, ledger.Options{}), raw(t, url)
	execute(t, old, `SELECT pg_advisory_lock_shared(
			(l.classid::int8 - CASE WHEN l.classid::int8 < 2147483648 THEN 0 ELSE 4294967296 END)::int4,
			(1000000 - 2147483648)::int4)
		FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE l.locktype = 'advisory' AND d.datname = current_database() AND l.objid = 1000000 LIMIT 1`)
	err := late.Agree(t.Context(), second)
	if !errors.Is(err, ledger.ErrSettingsDiffer) || !strings.Contains(err.Error(), "another one has a staleness bound of 1s and a page cache") {
		t.Errorf("beside a process with a page cache: error %v, want ErrSettingsDiffer", err)
	}
	execute(t, old, `UPDATE ledger_version SET version = version - 1`)
	if _, err := ledger.Open(t.Context(), url, ledger.Options{}); !errors.Is(err, ledger.ErrSettingsDiffer) {
		t.Errorf("opened beside a process with a page cache: error %v, want ErrSettingsDiffer", err)
	}
	execute(t, old, `UPDATE ledger_version SET version = version + 1`, `SELECT pg_advisory_unlock_all()`)
	elsewhere := open(t, server.Schema(), ledger.Options{Pages: 16})
	agree(elsewhere, minute, none)

	conn := raw(t, url)
	// leave closes a ledger, and waits until the server has only left declarations of the same
	// settings.
	leave := func(l *ledger.Ledger, number int64, left int) {
		t.Helper()
		must(t, l.Close())
		await(t, conn, fmt.Sprintf(
			`SELECT count(*) = %d FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = %d`, left, number))
	}
	leave(a, 1_000_000, 1)
	agree(b, half, none) // no other process is connected, so it may change its settings
	c := open(t, url, ledger.Options{})
	agree(c, second, half)
	agree(c, half, none)
	agree(b, half, none)

	// Both lose their connections. A process with other settings connects first.
	leave(c, 500_000, 1)
	execute(t, conn, `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE l.locktype = 'advisory' AND d.datname = current_database() AND l.objid = 500000`)
	await(t, conn, `SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 500000)`)
	d := open(t, url, ledger.Options{})
	agree(d, minute, none)
	poll := func() error {
		_, err := b.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
		return err
	}
	if err := poll(); !errors.Is(err, ledger.ErrSettingsDiffer) {
		t.Errorf("a poll after the connection was lost: error %v, want ErrSettingsDiffer", err)
	}
	if _, err := b.Sequence(t.Context(), 0); err != nil {
		t.Errorf("other calls: %v", err)
	}
	leave(d, 60_000_000, 1) // one declaration remains, in the other schema
	if err := poll(); err != nil {
		t.Errorf("a poll after the other process has left: %v", err)
	}
	agree(open(t, url, ledger.Options{}), minute, half)
}

// bound returns how an error describes the settings.
func bound(s time.Duration) string {
	return fmt.Sprintf("a staleness bound of %v", s)
}

// A ledger of one process accepts all settings.
func TestSettingsOfAFile(t *testing.T) {
	l := open(t, freshFile(t), ledger.Options{})
	for _, bound := range []time.Duration{time.Second, time.Minute} {
		if err := l.Agree(t.Context(), bound); err != nil {
			t.Error(err)
		}
	}
}
