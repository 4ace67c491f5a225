package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// With the right flags, the service traces requests to Redis, sends the last traces when it stops,
// and compares feeds. Traces contain neither a path nor a body.
func TestServeWatchesItself(t *testing.T) {
	var mu sync.Mutex
	var got bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got.Write(body)
	}))
	defer collector.Close()
	s := serve(t, "--data-dir", t.TempDir(), "--pages=16", "--redis=redis://"+redistest.Start(t).Addr(),
		"--sample-rate=1", "--trace-endpoint="+collector.URL, "--trace-sample=1", "--log-level=debug")
	s.do("PUT", "/v1/users/secretviewer/blocks/secretauthor", "")
	s.do("POST", "/v1/feed/filter", `{"viewer":"secretviewer","posts":[{"id":"secretpost","author":"secretauthor"}]}`)
	s.do("PUT", "/v1/users/secretviewer/hides/secretpost", "")
	if line := s.awaitLog("request"); len(fmt.Sprint(line["trace_id"])) != 32 {
		t.Errorf("logged without a trace: %v", line)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, stats := s.do("GET", "/v1/stats", "")
		if strings.Contains(stats, `"sampling":{"feeds":1,"candidates":1,"misses":0,"false_positives":0,`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the feed is not compared: %s", stats)
		}
	}
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"PUT /v1/users/:user/blocks/:target", "POST /v1/feed/filter", "mget", "evalsha", "service.version"} {
		if !bytes.Contains(got.Bytes(), []byte(want)) {
			t.Errorf("no %q in the traces", want)
		}
	}
	if bytes.Contains(got.Bytes(), []byte("secret")) {
		t.Error("an id in the traces")
	}
}

// A collector that is down is not a failure.
func TestServeWithoutCollector(t *testing.T) {
	away := httptest.NewServer(nil)
	away.Close()
	s := serve(t, "--data-dir", t.TempDir(), "--trace-endpoint="+away.URL, "--trace-sample=1")
	for range 100 {
		if status, _ := s.do("GET", "/healthz", ""); status != http.StatusOK {
			t.Fatalf("answered %d", status)
		}
	}
	s.signal(syscall.SIGTERM)
	if rest := s.wantExit(0); strings.Count(rest, "traces cannot be sent") > 1 {
		t.Errorf("logged %s", rest)
	}
}

// --log-format text.
func TestServeTextLog(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "feedfilter", "serve", "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--log-format=text")
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	must(t, err)
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if line, err := bufio.NewReader(log).ReadString('\n'); err != nil || !strings.Contains(line, "level=INFO msg=listening addr=127.0.0.1:") {
		t.Errorf("logged %q, %v", line, err)
	}
}
