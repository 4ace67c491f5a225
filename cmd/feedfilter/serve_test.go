package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/doctor"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// service is a running feedfilter serve.
type service struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner // lines of its log
	first map[string]any // first line of its log
}

// serve starts the service on a free port, and ends it with the test.
func serve(t testing.TB, args ...string) *service {
	t.Helper()
	s := launch(t, args...)
	s.first = s.next()
	if s.first["msg"] != "listening" {
		t.Fatalf("the first line of the log is %v, want the address", s.first)
	}
	return s
}

// launch starts the service on a free port, and does not read its log.
func launch(t testing.TB, args ...string) *service {
	t.Helper()
	s, _ := launchAs(t, exec.CommandContext(t.Context(), "feedfilter", append([]string{"serve", "--addr=127.0.0.1:0"}, args...)...))
	return s
}

// launchAs starts the service as the given command, and does not read its log.
func launchAs(t testing.TB, cmd *exec.Cmd) (s *service, log io.ReadCloser) {
	t.Helper()
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return &service{t: t, cmd: cmd, lines: bufio.NewScanner(log)}, log
}

// TestLogsWithoutReader ends the readers of a service's logs. The service continues, and counts the
// lost lines.
func TestLogsWithoutReader(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "feedfilter", "serve", "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--pages=16", "--audit-log=-",
		"--audit-failure=drop")
	audit, err := cmd.StdoutPipe()
	must(t, err)
	s, log := launchAs(t, cmd)
	s.first = s.next()
	for _, pipe := range []io.Closer{audit, log} {
		must(t, pipe.Close())
		for range 2 {
			if code, answer := s.do("PUT", "/v1/users/1/blocks/2", ""); code != 200 {
				t.Errorf("%d %s", code, answer)
			}
			if code, answer := s.do("GET", "/nothing", ""); code != 404 { // this request is logged
				t.Errorf("%d %s", code, answer)
			}
		}
	}
	if _, answer := s.do("GET", "/v1/stats", ""); !strings.Contains(answer, `"audit_failures":4`) {
		t.Errorf("lost lines are not counted: %s", answer)
	}
}

// next returns the next line of the log, nil after the last.
func (s *service) next() map[string]any {
	s.t.Helper()
	if !s.lines.Scan() {
		return nil
	}
	var line map[string]any
	if err := json.Unmarshal(s.lines.Bytes(), &line); err != nil {
		s.t.Fatalf("line %q of the log: %v", s.lines.Text(), err)
	}
	return line
}

// awaitLog reads the log up to a line with msg.
func (s *service) awaitLog(msg string) map[string]any {
	s.t.Helper()
	for {
		line := s.next()
		if line == nil {
			s.t.Fatalf("the log ended without %q", msg)
		}
		if line["msg"] == msg {
			return line
		}
	}
}

func (s *service) addr() string { return fmt.Sprint(s.first["addr"]) }

func (s *service) signal(sig syscall.Signal) {
	s.t.Helper()
	must(s.t, s.cmd.Process.Signal(sig))
}

// wait returns the exit code, -1 after a signal, and the rest of the log.
func (s *service) wait() (code int, rest string) {
	s.t.Helper()
	var b strings.Builder
	for s.lines.Scan() {
		fmt.Fprintln(&b, s.lines.Text())
	}
	_ = s.cmd.Wait() // the exit code has the error
	return s.cmd.ProcessState.ExitCode(), b.String()
}

func (s *service) wantExit(code int) (rest string) {
	s.t.Helper()
	got, rest := s.wait()
	if got != code {
		s.t.Errorf("exit code %d, want %d\n%s", got, code, rest)
	}
	return rest
}

// answerTime is how long a service may take to answer, also while its logs are stalled. On an idle
// machine an answer takes milliseconds, and one second right after a log stalled.
const answerTime = 10 * time.Second

// do sends a request and returns the answer's status and body.
func (s *service) do(method, path, body string) (int, string) {
	s.t.Helper()
	return s.answer(method, path, body, "")
}

// answer is do for a request with an id.
func (s *service) answer(method, path, body, id string) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr()+path, strings.NewReader(body))
	must(s.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Request-ID", id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: no answer: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: no answer: %v", method, path, err)
	}
	return resp.StatusCode, string(text)
}

// stream is an NDJSON request in flight.
type stream struct {
	t       testing.TB
	request *io.PipeWriter
	answer  *bufio.Reader
}

// openStream opens a stream and waits for the answer to its first line, so that the handler is
// running.
func (s *service) openStream(first string) *stream {
	s.t.Helper()
	body, request := io.Pipe()
	s.t.Cleanup(func() { _ = request.Close() })
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr()+"/v1/activities", body)
	must(s.t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	go func() { _, _ = io.WriteString(request, first+"\n") }()
	resp, err := http.DefaultClient.Do(req)
	must(s.t, err)
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	st := &stream{s.t, request, bufio.NewReader(resp.Body)}
	st.wantAnswer(`{"changed":true}`)
	return st
}

func (st *stream) wantAnswer(want string) {
	st.t.Helper()
	got, err := st.answer.ReadString('\n')
	if err != nil || strings.TrimSpace(got) != want {
		st.t.Fatalf("answered %q, %v; want %q", got, err, want)
	}
}

func TestServe(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "--data-dir", dir, "--pages=64", "--log-level=error") // the address is logged at any level
	if host, port, err := net.SplitHostPort(s.addr()); err != nil || host != "127.0.0.1" || port == "0" {
		t.Errorf("listening on %q, want a port of 127.0.0.1", s.addr())
	}
	if pages := s.first["ledger_pages"]; pages != 64.0 {
		t.Errorf("logged %v pages, want 64", pages)
	}
	if code, answer := s.do("PUT", "/v1/users/1/blocks/2", ""); code != 200 || !strings.Contains(answer, "true") {
		t.Errorf("block: %d %s", code, answer)
	}
	if code, answer := s.do("GET", "/readyz", ""); code != 200 {
		t.Errorf("ready: %d %s", code, answer)
	}
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	if _, err := os.Stat(filepath.Join(dir, "ledger.db-wal")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ledger was not closed: %v", err)
	}

	// The next process has all acknowledged writes.
	s = serve(t, "--data-dir", dir)
	code, answer := s.do("POST", "/v1/feed/filter", `{"viewer":"2","posts":[{"id":"p","author":"1"}]}`)
	if code != 200 || !strings.Contains(answer, `"dropped":[{`) {
		t.Errorf("feed after a restart: %d %s, want the post dropped", code, answer)
	}
	s.signal(syscall.SIGINT)
	wantContains(t, s.wantExit(0), `"msg":"shutting down"`, `"msg":"stopped"`)
}

// A request in flight is completed when the service is told to end.
func TestServeFinishesWhatIsInFlight(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "--data-dir", dir, "--pages=1", "--shutdown-timeout=1h")
	st := s.openStream(`{"user":"1","kind":"block","target":"2","op":"add"}`)
	s.signal(syscall.SIGTERM)
	s.awaitLog("shutting down")
	for { // until the service accepts no connections
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.addr())
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	if _, err := io.WriteString(st.request, `{"user":"1","kind":"hide","target":"p","op":"add"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	st.wantAnswer(`{"changed":true}`)
	must(t, st.request.Close())
	if rest, err := io.ReadAll(st.answer); err != nil || len(rest) > 0 {
		t.Errorf("after the last line: %q, %v", rest, err)
	}
	s.wantExit(0)
	wantState(t, dir, map[string]bool{"1 block 2": true, "2 blocked-by 1": true, "1 hide p": true})
}

func TestServeCutsOffWhatDoesNotEnd(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "--data-dir", dir, "--pages=1", "--shutdown-timeout=1ms")
	s.openStream(`{"user":"1","kind":"hide","target":"p","op":"add"}`)
	s.signal(syscall.SIGTERM)
	wantContains(t, s.wantExit(1), "requests cut off after 1ms")
	wantState(t, dir, map[string]bool{"1 hide p": true})
}

func TestServeEndsAtOnceAtTheSecondSignal(t *testing.T) {
	s := serve(t, "--data-dir", t.TempDir(), "--shutdown-timeout=1h")
	s.openStream(`{"user":"1","kind":"hide","target":"p","op":"add"}`)
	s.signal(syscall.SIGTERM)
	s.awaitLog("shutting down")
	s.signal(syscall.SIGTERM)
	s.wantExit(-1)
}

// A stream takes the only slot for requests.
func TestServeMaxRequests(t *testing.T) {
	s := serve(t, "--data-dir", t.TempDir(), "--max-requests=1")
	st := s.openStream(`{"user":"1","kind":"hide","target":"p","op":"add"}`)
	if code, answer := s.do("PUT", "/v1/users/1/blocks/2", ""); code != 503 || !strings.Contains(answer, `"overloaded"`) {
		t.Errorf("a second request: %d %s", code, answer)
	}
	if code, answer := s.do("GET", "/readyz", ""); code != 200 {
		t.Errorf("readyz: %d %s", code, answer)
	}
	must(t, st.request.Close())
	if rest, err := io.ReadAll(st.answer); err != nil || len(rest) > 0 {
		t.Errorf("after the last line: %q, %v", rest, err)
	}
	if code, answer := s.do("PUT", "/v1/users/1/blocks/2", ""); code != 200 {
		t.Errorf("afterwards: %d %s", code, answer)
	}
}

func TestServeLimitsOutOfRange(t *testing.T) {
	for _, flag := range []string{"--max-requests", "--max-connections"} {
		for _, n := range []string{"0", "-1", "1000001"} {
			r := feedfilter(t, 2, "serve", "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), flag+"="+n)
			wantContains(t, r.stderr, flag+": "+n+" is not in 1 to 1000000")
		}
	}
}

func TestServeDataInUse(t *testing.T) {
	dir := t.TempDir()
	serve(t, "--data-dir", dir)
	writeFile(t, dir+"/a.csv", "1,block,2\n")
	for _, args := range [][]string{{"serve", "--addr=127.0.0.1:0"}, {"import", dir + "/a.csv"}} {
		r := feedfilter(t, 1, slices.Concat(args, []string{"--data-dir", dir})...)
		wantContains(t, r.stderr, dir+"/ledger.db.lock is locked", "another feedfilter uses this data")
		if strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %q, want one line", args[0], r.stderr)
		}
	}
}

func TestServeAddressInUse(t *testing.T) {
	s := serve(t, "--data-dir", t.TempDir())
	r := feedfilter(t, 1, "serve", "--data-dir", t.TempDir(), "--addr", s.addr())
	wantContains(t, r.stderr, "feedfilter: --addr: listen tcp "+s.addr(), "address already in use")
	if strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("it prints %q, want one line", r.stderr)
	}
}

func TestServeWhereOthersReachIt(t *testing.T) {
	s := serve(t, "--data-dir", t.TempDir(), "--addr=0.0.0.0:0", "--insecure-no-auth")
	_, port, err := net.SplitHostPort(s.addr())
	must(t, err)
	s.first["addr"] = "127.0.0.1:" + port
	if code, answer := s.do("GET", "/healthz", ""); code != 200 {
		t.Errorf("health: %d %s", code, answer)
	}
}

// The log names the server of the pages once, unless the server does not say.
func TestLogsRedisVersion(t *testing.T) {
	t.Parallel()
	r, dir := redistest.Start(t), t.TempDir()
	do(t, r, "ACL SETUSER mute on >pass "+doctor.AccessRule("feed")+" -info")
	for url, want := range map[string]int{
		r.URL(): 1, strings.Replace(r.URL(), "redis://", "redis://mute:pass@", 1): 0, "": 0,
	} {
		s := serve(t, "--data-dir", dir, "--pages=1", "--redis="+url)
		for range 3 {
			if code, answer := s.do("PUT", "/v1/users/1/blocks/2", ""); code != 200 {
				t.Errorf("%d %s", code, answer)
			}
		}
		if want > 0 {
			if server := fmt.Sprint(s.awaitLog("redis answers")["server"]); !regexp.MustCompile(`^(Redis|Valkey) [0-9.]+$`).MatchString(server) {
				t.Errorf("the log names %q", server)
			}
		}
		s.signal(syscall.SIGTERM)
		if rest := s.wantExit(0); strings.Contains(rest, "redis answers") || strings.Contains(rest, `"WARN"`) {
			t.Errorf("%s", rest)
		}
	}
}

// Without Redis the service starts with a warning, unless the ledger is empty, and is ready once
// Redis is up.
func TestServeWithoutRedis(t *testing.T) {
	redis := redistest.Start(t)
	redis.Kill()
	dir := t.TempDir()
	writeFile(t, dir+"/a.csv", "1,block,3\n")
	feedfilter(t, 0, "import", dir+"/a.csv", "--data-dir", dir, "--pages=1")
	s := serve(t, "--data-dir", dir, "--pages=1", "--redis", redis.URL())
	if store := s.first["page_store"]; store != redis.Addr() {
		t.Errorf("logged page store %v, want %s", store, redis.Addr())
	}
	warning := s.awaitLog("redis unavailable, feeds are answered from the ledger")
	wantContains(t, fmt.Sprint(warning["error"]), redis.Addr(), "refused")
	if code, answer := s.do("GET", "/readyz", ""); code != 200 || !strings.Contains(answer, "degraded") {
		t.Errorf("ready without Redis: %d %s", code, answer)
	}
	if code, answer := s.do("POST", "/v1/feed/filter", `{"viewer":"2","posts":[{"id":"p","author":"1"}],"kinds":["block"]}`); code != 200 {
		t.Errorf("feed without Redis: %d %s", code, answer)
	}
	redis.Restart()
	if code, answer := s.do("GET", "/readyz", ""); code != 200 {
		t.Errorf("ready with Redis: %d %s", code, answer)
	}
	if code, answer := s.do("PUT", "/v1/users/1/blocks/2", ""); code != 200 {
		t.Errorf("block with Redis: %d %s", code, answer)
	}
	s.signal(syscall.SIGTERM)
	rest := s.wantExit(0)
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("line %q of the log is not JSON", line)
		}
	}
}
