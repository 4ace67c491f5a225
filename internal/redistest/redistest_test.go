package redistest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if first, second := s.Client(), s.Client(); first != second {
		t.Error("Client() made a second client")
	}
	opts := s.Client().Options()
	if mode := opts.MaintNotificationsConfig.Mode; mode != maintnotifications.ModeDisabled {
		t.Errorf("maintenance notifications are %q, want disabled", mode)
	}
	// The server would answer after 5 s, so a timeout comes from the context.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Client().BLPop(ctx, 5*time.Second, "nothing").Err(); !isTimeout(err) {
		t.Errorf("BLPOP past its context's deadline: %v, want a timeout", err)
	}
}

func TestPersistence(t *testing.T) {
	t.Parallel()
	aof := []string{"--appendonly", "yes", "--appendfsync", "always"}
	rdb := []string{"--save", "60 1"}
	for _, test := range []struct {
		name string
		args []string
		end  func(*redistest.Server)
		kept bool
	}{
		{"nothing, stopped", nil, (*redistest.Server).Stop, false},
		{"RDB, stopped", rdb, (*redistest.Server).Stop, true},
		{"RDB, killed", rdb, (*redistest.Server).Kill, false},
		{"AOF, stopped", aof, (*redistest.Server).Stop, true},
		{"AOF, killed", aof, (*redistest.Server).Kill, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, test.args...)
			set(t, s.Client(), "key", "value")
			test.end(s)
			assertDown(t, s)
			s.Kill() // no-op
			s.Stop() // no-op
			s.Restart()
			if !test.kept {
				assertMissing(t, s.Client(), "key")
				return
			}
			if got, err := s.Client().Get(t.Context(), "key").Result(); err != nil || got != "value" {
				t.Errorf("GET after Restart = %q, %v; want %q", got, err, "value")
			}
		})
	}
}

func TestEndsWithItsTest(t *testing.T) {
	t.Parallel()
	var dir string
	var conn net.Conn
	t.Run("uses a server", func(t *testing.T) {
		s := redistest.Start(t)
		conn = dial(t, s)
		dir = s.Client().ConfigGet(t.Context(), "dir").Val()["dir"]
	})
	assertClosedByServer(t, conn)
	if _, err := os.Stat(dir); dir == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the test, its server's directory %q: %v, want it gone", dir, err)
	}
}

func TestCommandStats(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if n := s.CommandStats()["get"]; n != 0 {
		t.Errorf("a new server has counted %d GETs", n)
	}
	for range 3 {
		_ = s.Client().Get(t.Context(), "key")
	}
	set(t, s.Client(), "key", "value")
	script := `redis.call("GET", KEYS[1]); return redis.call("STRLEN", KEYS[1])`
	must(t, s.Client().Eval(t.Context(), script, []string{"key"}).Err())
	must(t, s.Client().ClientID(t.Context()).Err())
	got := s.CommandStats()
	for name, want := range map[string]int64{"get": 4, "set": 1, "strlen": 1, "eval": 1, "client|id": 1, "client|setinfo": 0, "del": 0} {
		if got[name] != want {
			t.Errorf("CommandStats()[%q] = %d, want %d", name, got[name], want)
		}
	}
	s.Kill()
	s.Restart()
	if n := s.CommandStats()["get"]; n != 0 {
		t.Errorf("after Restart %d GETs are counted, want a new count", n)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, client *redis.Client, key, value string) {
	t.Helper()
	must(t, client.Set(t.Context(), key, value, 0).Err())
}

func assertMissing(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	if got, err := client.Get(t.Context(), key).Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET %s = %q, %v; want it missing", key, got, err)
	}
}

func assertDown(t *testing.T, s *redistest.Server) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", s.Addr())
	if err == nil {
		_ = conn.Close()
		t.Errorf("%s accepts connections, want none", s.Addr())
	}
}

// dial opens a connection on which the server has answered, so the server has accepted it.
func dial(t *testing.T, s *redistest.Server) net.Conn {
	t.Helper()
	return dialAddr(t, s.Addr())
}

func dialAddr(t *testing.T, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, len("+PONG\r\n"))
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+PONG\r\n" {
		t.Fatalf("PING answered %q, %v", reply, err)
	}
	return conn
}

// assertClosedByServer waits for up to a minute until the server has closed the connection.
func assertClosedByServer(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("reading from the server: %d bytes, %v; want the connection closed", n, err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
