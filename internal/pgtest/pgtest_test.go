package pgtest_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM a`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKillRestart kills a server during a transaction.
func TestKillRestart(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	conn := connect(t, s.URL())
	execute(t, conn, `CREATE TABLE a (x int)`)
	execute(t, conn, `INSERT INTO a VALUES (1), (2)`)
	execute(t, conn, `BEGIN; INSERT INTO a VALUES (3)`)
	s.Kill()
	s.Kill() // no-op
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection still works after Kill")
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr()); err == nil {
		_ = conn.Close()
		t.Error("the port still accepts connections")
	}
	s.Restart()
	if n := count(t, connect(t, s.URL())); n != 2 {
		t.Errorf("%d rows after a restart, want the 2 that were committed", n)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	conn := connect(t, s.URL())
	execute(t, conn, `CREATE TABLE a (x int)`)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := conn.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("query on a paused server: %v, want context.DeadlineExceeded", err)
	}
	s.Resume()
	if n := count(t, connect(t, s.URL())); n != 0 {
		t.Errorf("%d rows, want 0", n)
	}
	s.Pause()
	s.Kill()
	s.Restart()
	count(t, connect(t, s.URL()))
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "fsync=on", "max_connections=17")
	first, second := connect(t, s.Schema()), connect(t, s.Schema())
	for _, c := range []struct {
		conn           *pgx.Conn
		setting, value string
	}{
		{first, "fsync", "on"},
		{first, "max_connections", "17"},
		{first, "server_encoding", "UTF8"},
		{first, "lc_collate", "C"},
		{first, "search_path", "schema1"},
		{second, "search_path", "schema2"},
	} {
		var value string
		if err := c.conn.QueryRow(t.Context(), "SHOW "+c.setting).Scan(&value); err != nil || value != c.value {
			t.Errorf("%s is %s, %v, want %s", c.setting, value, err, c.value)
		}
	}
}
