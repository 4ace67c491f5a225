package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func withField(name string, value any) func(map[string]any) bool {
	return func(line map[string]any) bool { return line[name] == value }
}

// serveInto starts a service with pipes as standard error and standard output; nil: none.
func serveInto(t *testing.T, stderr, stdout *stalledPipe, args ...string) *service {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "feedfilter", append([]string{"serve", "--addr=127.0.0.1:0", "--pages=16"}, args...)...)
	cmd.Stderr = stderr.writer()
	if stdout != nil {
		cmd.Stdout = stdout.writer()
	}
	must(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	_, first := stderr.until(withField("msg", "listening"))
	return &service{t: t, cmd: cmd, first: first}
}

// wantAnswers checks that reads are answered as usual.
func (s *service) wantAnswers() {
	s.t.Helper()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"3"}]}`, 200},
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/metrics", "", 200},
		{"GET", "/v1/users/1/blocks", "", 200},
		{"GET", "/nothing", "", 404}, // logged at level info and below
	} {
		if status, text := s.answer(c.method, c.path, c.body, "read"); status != c.status {
			s.t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
}

// metric returns the value of a metric without labels.
func (s *service) metric(name string) int {
	s.t.Helper()
	_, text := s.answer("GET", "/metrics", "", "metrics")
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		s.t.Fatalf("there is no metric %s", name)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	must(s.t, err)
	return int(value)
}

// ends waits for the end of the process, and returns its exit code.
func (s *service) ends(within time.Duration) int {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.cmd.Wait() // the caller reads the exit code
	}()
	select {
	case <-done:
	case <-time.After(within):
		_ = s.cmd.Process.Signal(syscall.SIGKILL)
		<-done
		s.t.Fatalf("it was still running %v after the signal", within)
	}
	return s.cmd.ProcessState.ExitCode()
}

// TestLongLogStandsStill stalls the reader of standard error. The service answers as usual,
// reloads, counts dropped lines, reports them when the reader is back, and ends in time.
func TestLongLogStandsStill(t *testing.T) {
	log := newStalledPipe(t)
	s := serveInto(t, log, nil, "--data-dir", t.TempDir(), "--log-level", "debug")
	log.fill()
	s.wantAnswers()
	for n := 0; s.metric("feedfilter_log_dropped_total") == 0; n++ {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 60 {
					if status, text := s.answer("GET", "/nothing", "", "flood"); status != 404 {
						t.Errorf("%d %s", status, text)
					}
				}
			})
		}
		all.Wait()
		if status, text := s.answer("PUT", fmt.Sprintf("/v1/users/1/blocks/%d", n+2), "", "put"); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
	s.wantAnswers()
	s.signal(syscall.SIGHUP)
	s.wantAnswers()
	dropped := s.metric("feedfilter_log_dropped_total")

	if _, told := log.until(withField("msg", "log lines dropped")); told["dropped"].(float64) < float64(dropped) {
		t.Errorf("%v: the metric was %d", told, dropped)
	}
	s.answer("GET", "/nothing", "", "after")
	log.until(withField("request_id", "after"))

	log.fill()
	s.signal(syscall.SIGTERM)
	if code := s.ends(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestAuditStandsStill stalls the reader of the audit log. Writes are refused without effect, and
// each acknowledged write has its line when the reader is back.
func TestAuditStandsStill(t *testing.T) {
	audit, log := newStalledPipe(t), newStalledPipe(t)
	s := serveInto(t, log, nil, "--data-dir", t.TempDir(), "--audit-log", audit.path)
	put := func(n int) (int, string) {
		t.Helper()
		return s.answer("PUT", fmt.Sprintf("/v1/users/1/blocks/b%d", n), "", fmt.Sprintf("put-%d", n))
	}
	if status, text := put(0); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	audit.until(withField("request_id", "put-0"))
	audit.fill()

	answered := []string{}
	n := 1
	for status := 0; status != 503; n++ {
		var text string
		switch status, text = put(n); {
		case status == 200:
			answered = append(answered, fmt.Sprintf("put-%d", n))
		case status != 503 || !strings.Contains(text, `"audit_unavailable"`):
			t.Fatalf("%d %s", status, text)
		}
	}
	refused := n - 1
	wantRefused(t, s, refused, len(answered)+1)
	s.wantAnswers()
	s.signal(syscall.SIGHUP)
	s.wantAnswers()
	if n := s.metric("feedfilter_audit_failures_total"); n != 0 {
		t.Errorf("%d lines are lost", n)
	}

	for _, id := range answered {
		audit.until(withField("request_id", id))
	}
	for status := 503; status != 200; n++ { // until the service notices that the reader is back
		status, _ = put(n)
	}
	audit.until(withField("request_id", fmt.Sprintf("put-%d", n-1)))

	audit.fill()
	log.fill()
	s.signal(syscall.SIGTERM)
	if code := s.ends(10 * time.Second); code != 0 { // no line was lost
		t.Errorf("exit code %d", code)
	}
}

// wantRefused checks that calls for the audit log are refused without effect.
func wantRefused(t *testing.T, s *service, n, blocks int) {
	t.Helper()
	for _, c := range [][3]string{
		{"PUT", fmt.Sprintf("/v1/users/1/blocks/b%d", n), ""},
		{"POST", "/v1/activities", `{"activities":[{"user":"1","kind":"block","target":"z","op":"add"}]}`},
		{"DELETE", "/v1/users/1", ""},
		{"POST", "/v1/users/1/seen", `{"posts":["p"]}`},
		{"POST", "/v1/feed/explain", `{"viewer":"1","post":{"id":"p","author":"3"}}`},
		{"GET", "/v1/ops/users/1/keys/block/2", ""},
	} {
		if status, text := s.answer(c[0], c[1], c[2], "refused"); status != 503 || !strings.Contains(text, `"audit_unavailable"`) {
			t.Errorf("%s %s: %d %s", c[0], c[1], status, text)
		}
	}
	status, text := s.answer("POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"3"}],"record_seen":true}`, "seen")
	if status != 200 || !strings.Contains(text, `{"kind":"seen","reason":"`) || !strings.Contains(text, `"posts":[{"id":"p"}]`) {
		t.Errorf("a feed that is to record what it shows: %d %s", status, text)
	}
	if _, text := s.answer("GET", "/v1/users/1/blocks?limit=1000", "", "list"); strings.Count(text, `"target"`) != blocks {
		t.Errorf("want %d blocks: %s", blocks, text)
	}
}

// TestLongAuditDrops stalls the reader with --audit-failure=drop. Calls succeed, and lost lines are
// counted.
func TestLongAuditDrops(t *testing.T) {
	audit, log := newStalledPipe(t), newStalledPipe(t)
	s := serveInto(t, log, audit, "--data-dir", t.TempDir(), "--audit-log=-", "--audit-failure=drop")
	audit.fill()
	for n := 0; s.metric("feedfilter_audit_failures_total") == 0; n++ {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					if status, text := s.answer("PUT", "/v1/users/1/blocks/2", "", "put"); status != 200 {
						t.Errorf("%d %s", status, text)
					}
				}
			})
		}
		all.Wait()
	}
	s.wantAnswers()
	lost := s.metric("feedfilter_audit_failures_total")
	if _, told := audit.until(withField("msg", "lines lost")); told["lost"] != float64(lost) {
		t.Errorf("%v, %d are counted", told, lost)
	}
	s.answer("PUT", "/v1/users/1/blocks/3", "", "after")
	audit.until(withField("request_id", "after"))

	audit.fill()
	s.answer("PUT", "/v1/users/1/blocks/3", "", "last")
	log.fill()
	s.signal(syscall.SIGTERM)
	if code := s.ends(10 * time.Second); code != 1 { // the last line was lost
		t.Errorf("exit code %d", code)
	}
}

// TestAuditPipeWithoutReader checks that a named pipe without a reader is refused at the start. At
// SIGHUP, the service keeps the previous audit log.
func TestAuditPipeWithoutReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "feedfilter", "serve", "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--audit-log", path)
	if text, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(text), "--audit-log") {
		t.Errorf("at the start: %v: %s", err, text)
	}

	audit, log := newStalledPipe(t), newStalledPipe(t)
	s := serveInto(t, log, nil, "--data-dir", t.TempDir(), "--audit-log", audit.path)
	must(t, os.Remove(audit.path))
	must(t, os.Rename(path, audit.path))
	s.signal(syscall.SIGHUP)
	log.until(withField("msg", "settings reloaded"))
	if status, text := s.answer("PUT", "/v1/users/1/blocks/2", "", "put"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	audit.until(withField("request_id", "put"))
	s.signal(syscall.SIGTERM)
	if code := s.ends(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestAuditMovesOnFromPipe: SIGHUP replaces a pipe with a stalled reader by a file, which then gets
// all waiting lines.
func TestAuditMovesOnFromPipe(t *testing.T) {
	audit, log := newStalledPipe(t), newStalledPipe(t)
	s := serveInto(t, log, nil, "--data-dir", t.TempDir(), "--audit-log", audit.path)
	audit.fill()
	for n := range 2 {
		s.answer("PUT", fmt.Sprintf("/v1/users/1/blocks/b%d", n), "", fmt.Sprintf("put-%d", n))
	}
	must(t, os.Remove(audit.path))
	s.signal(syscall.SIGHUP)
	log.until(withField("msg", "settings reloaded"))
	for status := 503; status != 200; { // until the service notices the new file
		status, _ = s.answer("PUT", "/v1/users/1/blocks/b2", "", "put-2")
	}
	text, err := os.ReadFile(audit.path)
	if err != nil || !strings.Contains(string(text), `"put-0"`) || !strings.Contains(string(text), `"put-2"`) {
		t.Errorf("%s, %v", text, err)
	}
	for line := range strings.Lines(string(text)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q", line)
		}
	}
}
