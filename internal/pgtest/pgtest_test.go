package pgtest_test

import (
	"context"
	"strconv"
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

// A test gets the version of PostgreSQL that it asks for, or is skipped.
func TestStartAtLeast(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 17} {
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			t.Parallel()
			var number int
			conn := connect(t, pgtest.StartAtLeast(t, version).URL())
			err := conn.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int`).Scan(&number)
			if err != nil || number < version*10_000 {
				t.Errorf("the server has version %d, %v, want %d or later", number, err, version)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		t.Cleanup(func() {
			if !t.Skipped() {
				t.Error("a test of version 999 was not skipped")
			}
		})
		pgtest.StartAtLeast(t, 999)
	})
}
