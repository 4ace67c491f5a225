package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// A ping waits for no other call: every connection is in use, and the ledger answers.
func TestPingHasItsConnection(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		l := openFile(t, temporary(t), Options{})
		readers := file(l).readers
		for range readers.Stats().MaxOpenConnections {
			conn, err := readers.Conn(t.Context())
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
		}
		wantPing(t, l)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		server := pgtest.Start(t)
		l := openURL(t, server.Schema()+"&pool_max_conns=2", Options{})
		d, ok := l.db.(*postgresDatabase)
		if !ok {
			t.Fatalf("the ledger is a %T", l.db)
		}
		for range 2 {
			conn, err := d.pool.Acquire(t.Context())
			must(t, err)
			t.Cleanup(conn.Release)
		}
		wantPing(t, l)
		server.Pause()
		hung, cancel := context.WithTimeout(t.Context(), time.Second/10)
		defer cancel()
		if err := l.Ping(hung); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a ping of a server that hangs: %v", err)
		}
		server.Resume()
		for l.Ping(t.Context()) != nil {
			must(t, t.Context().Err())
		}
	})
}

// wantPing checks that the ledger answers a ping, while other calls wait.
func wantPing(t *testing.T, l *Ledger) {
	t.Helper()
	waits, cancel := context.WithTimeout(t.Context(), time.Second/10)
	defer cancel()
	if _, err := l.Place(waits, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a question without a connection: %v", err)
	}
	must(t, l.Ping(t.Context()))
}
