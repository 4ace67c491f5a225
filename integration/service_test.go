package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// service is a running "feedfilter serve".
type service struct {
	t      testing.TB
	dir    string // where it runs, and has files by default
	args   []string
	url    string
	client *http.Client
	cmd    *exec.Cmd
	log    *lines
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve starts the service on a free port with the given further flags, and kills it at the end of
// the test.
func serve(t testing.TB, args ...string) *service {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	s := &service{t: t, dir: t.TempDir(), args: args, client: &http.Client{Transport: transport}}
	s.start()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.kill()
	})
	return s
}

// start starts the process, and reads its first log line, which has the address.
func (s *service) start() {
	s.t.Helper()
	s.log = &lines{}
	args := append([]string{"serve", "--addr", "127.0.0.1:0"}, s.args...)
	s.cmd = exec.Command(command, args...) //nolint:noctx // killed by the test
	s.cmd.Dir = s.dir
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := s.cmd.StderrPipe()
	must(s.t, err)
	must(s.t, s.cmd.Start())
	r := bufio.NewReader(stderr)
	first, err := r.ReadString('\n')
	var entry struct {
		Addr string `json:"addr"`
	}
	if err != nil || json.Unmarshal([]byte(first), &entry) != nil || entry.Addr == "" {
		_ = s.cmd.Process.Kill()
		rest, _ := io.ReadAll(r)
		_ = s.cmd.Wait()
		s.t.Fatalf("feedfilter %s: first line %q names no address (%v)\n%s", strings.Join(args, " "), first, err, rest)
	}
	s.url = "http://" + entry.Addr
	go func() { _, _ = io.Copy(s.log, r) }()
}

// kill ends the process at once.
func (s *service) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// statusError is an answer other than 200.
type statusError struct {
	status int
	body   string
}

func (e statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// call sends a request, and decodes the answer into out unless out is nil.
func (s *service) call(method, path string, body, out any) error {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, in)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return statusError{res.StatusCode, string(answer)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// put records an activity, or removes it if undo is true.
func (s *service) put(user, plural, target string, undo bool) (changed bool, err error) {
	method := http.MethodPut
	if undo {
		method = http.MethodDelete
	}
	var answer struct{ Changed *bool }
	err = s.call(method, "/v1/users/"+url.PathEscape(user)+"/"+plural+"/"+url.PathEscape(target), nil, &answer)
	if err == nil && answer.Changed == nil {
		err = errors.New("the answer says not what changed")
	}
	return answer.Changed != nil && *answer.Changed, err
}

type post struct {
	ID     string `json:"id"`
	Author string `json:"author,omitempty"`
	Actors []any  `json:"actors,omitempty"` // ids, or objects with a role

	Related []string            `json:"related,omitempty"`
	Facets  map[string][]string `json:"facets,omitempty"`
	Text    string              `json:"text,omitempty"`
}

type feedRequest struct {
	Viewer   string   `json:"viewer"`
	Posts    []post   `json:"posts"`
	Kinds    []string `json:"kinds,omitempty"`
	Annotate []string `json:"annotate,omitempty"`
	Lists    []string `json:"lists,omitempty"`
	Exact    bool     `json:"exact,omitempty"`
}

type feedAnswer struct {
	Posts []struct {
		ID   string `json:"id"`
		Like *bool  `json:"like"`
	} `json:"posts"`
	Dropped []struct {
		ID     string `json:"id"`
		Viewer string `json:"viewer"` // of a fan-out
		Kind   string `json:"kind"`
		Actor  string `json:"actor"`
	} `json:"dropped"`
	Degraded []degradedKind `json:"degraded"`
}

type degradedKind struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

func (s *service) feed(q feedRequest) (feedAnswer, error) {
	var a feedAnswer
	err := s.call(http.MethodPost, "/v1/feed/filter", q, &a)
	if err == nil && len(a.Posts)+len(a.Dropped) != len(q.Posts) {
		err = fmt.Errorf("%d kept and %d dropped of %d posts", len(a.Posts), len(a.Dropped), len(q.Posts))
	}
	return a, err
}

// lines collects the lines of a log for failure messages.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// logOnFailure shows the log of the service if the test fails.
func (s *service) logOnFailure() {
	s.t.Cleanup(func() {
		if s.t.Failed() {
			_, _ = io.Copy(os.Stderr, strings.NewReader(s.log.String()))
		}
	})
}
