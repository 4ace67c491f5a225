package pgtest_test

import (
	"context"
	"testing"

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
