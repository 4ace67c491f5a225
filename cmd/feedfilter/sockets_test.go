package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// overSocket returns a client whose connections go to a socket.
func overSocket(t testing.TB, path string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// askSocket returns the status of a GET request to a URL.
func askSocket(t testing.TB, path, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	res, err := overSocket(t, path).Do(r)
	must(t, err)
	_ = res.Body.Close()
	return res.StatusCode
}

func wantNoFile(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", path, err)
	}
}

// TestServeOnSockets serves on two sockets and a port. The sockets are removed at the end.
func TestServeOnSockets(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	s := serve(t, "--addr=127.0.0.1:0,unix:"+first+",unix:"+second, "--data-dir", dir, "--pages=1", "--socket-mode=0600")
	for _, want := range []string{"unix:" + first, "unix:" + second} {
		if line := s.next(); line["msg"] != "listening" || line["addr"] != want {
			t.Errorf("logged %v, want that it listens on %s", line, want)
		}
	}
	for _, path := range []string{first, second} {
		if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		// A socket accepts any Host.
		if code := askSocket(t, path, "http://any.name/healthz"); code != http.StatusOK {
			t.Errorf("%s answers %d", path, code)
		}
	}
	wantContains(t, feedfilter(t, 0, "health", "--server", "unix:"+first).stdout, "ready")
	if code, answer := s.do("GET", "/healthz", ""); code != 200 {
		t.Errorf("the port answers %d %s", code, answer)
	}
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	wantNoFile(t, first)
	wantNoFile(t, second)
}

// TestStaleSocket: the next process replaces the socket of a killed process, but neither a socket
// in use nor a file that is not a socket.
func TestStaleSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ff.sock")
	s := serve(t, "--addr=unix:"+path, "--data-dir", dir, "--pages=1")
	s.signal(syscall.SIGKILL)
	s.wantExit(-1)
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the killed process left no socket: %v", err)
	}
	s = serve(t, "--addr=unix:"+path, "--data-dir", dir)
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	r := feedfilter(t, 1, "serve", "--data-dir", t.TempDir(), "--addr", "127.0.0.1:0,unix:"+path)
	wantContains(t, r.stderr, "unix:"+path, "another process listens on the socket")
	if code := askSocket(t, path, "http://localhost/readyz"); code != http.StatusOK {
		t.Errorf("the process that listens answers %d after another tried to", code)
	}
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	wantNoFile(t, path)

	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	r = feedfilter(t, 1, "serve", "--data-dir", t.TempDir(), "--addr", "unix:"+path)
	wantContains(t, r.stderr, "the file is not a socket")
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if rest, err := filepath.Glob(filepath.Join(dir, ".ff*")); len(rest) > 0 || err != nil {
		t.Errorf("left: %q, %v", rest, err)
	}
}

// TestSocketSettings: invalid settings of sockets are refused.
func TestSocketSettings(t *testing.T) {
	for flags, want := range map[string]string{
		"--addr=unix:": "--addr: unix:: path of 0 bytes, want 1 to 103",
		"--addr=unix:/" + strings.Repeat("x", 103): "path of 104 bytes, want 1 to 103",
		"--addr=unix:/a,unix:/a":                   "--addr: duplicate address unix:/a",
		"--addr=":                                  "--addr",
		"--addr=127.0.0.1:80,":                     "--addr",
		"--addr=unix:/a,192.0.2.1:80":              "other machines can reach 192.0.2.1",
		"--socket-mode=rw":                         `--socket-mode: "rw" is not an octal mode from 0 to 0777`,
		"--socket-mode=1777":                       "--socket-mode",
	} {
		r := feedfilter(t, 2, "serve", "--data-dir", t.TempDir(), flags)
		wantContains(t, r.stderr, want)
	}
}

// TestLimitOfSeveralListeners: connections of all listeners count together, and no listener keeps
// another from accepting.
func TestLimitOfSeveralListeners(t *testing.T) {
	limit := newConnectionLimit(1, nil)
	accepted := make(chan net.Conn)
	var addrs []string
	for range 2 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		limited := limit.listener(l)
		t.Cleanup(func() { _ = limited.Close() })
		addrs = append(addrs, l.Addr().String())
		go func() {
			for {
				conn, err := limited.Accept()
				if err != nil {
					return
				}
				conn.(*limitedConn).work(1)
				accepted <- conn
			}
		}()
	}
	for _, addr := range append(addrs, addrs...) { // each has its turn, though the other waits for a connection
		dial(t, addr)
		conn := <-accepted
		limit.mu.Lock()
		open := limit.open
		limit.mu.Unlock()
		if open != 1 {
			t.Errorf("%d are open, want 1", open)
		}
		_ = conn.Close()
	}
	for _, addr := range addrs {
		dial(t, addr)
	}
	first := <-accepted
	select {
	case conn := <-accepted:
		t.Errorf("%v is served beyond the limit", conn.LocalAddr())
	default:
	}
	_ = first.Close()
	_ = (<-accepted).Close()
}
