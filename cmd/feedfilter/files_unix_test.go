//go:build unix

package main

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFewFiles checks that a service with few open files rereads the token file even while clients
// use all its connections.
func TestFewFiles(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.json")
	tokenFile(t, tokens, "a", "leaked")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -n 128 && exec feedfilter serve --addr=127.0.0.1:0 --data-dir "$0" --pages=16 --auth-file "$1"`, dir, tokens)
	s, _ := launchAs(t, cmd)
	s.first = s.next()
	if line := s.awaitLog("connection limit lowered to three quarters of the open-files limit"); line["connections"] != 96.0 || line["files"] != 128.0 {
		t.Errorf("%v", line)
	}
	for i := range 200 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.addr())
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		if i >= 96 {
			continue
		}
		if _, err := fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the connection is served, and stays open
			t.Fatal(err)
		}
	}
	tokenFile(t, tokens, "a")
	for line := s.next(); line["msg"] != "files reloaded"; line = s.next() {
		if line == nil || line["level"] != "INFO" {
			t.Fatalf("the token file is not reloaded: %v", line)
		}
	}
}
