package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/prometheus/rules"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	alerts  = "../../infra/monitoring/alerts.yaml"
	runbook = "../../docs/OPERATIONS.md"
	results = "../../infra/monitoring/README.md" // holds the table of the drill's results
)

// drill is a service with its own Redis and its own database, and the engine that watches the
// service.
type drill struct {
	*engine

	bin      string // directory of feedfilter, systemctl and journalctl
	dir      string
	settings map[string]any
	env      []string // further variables, for the service and the runbook
	redis    *redistest.Server
	postgres *pgtest.Server
	source   *pgtest.Server // of an app; nil: none is followed
	addr     string
	token    string
	client   *http.Client
	each     func() // called before each scrape

	mu      sync.Mutex
	process *exec.Cmd
	log     *os.File
}

// newDrill makes a drill, and does not start its service.
func newDrill(t *testing.T, bin string, postgres *pgtest.Server, change *strings.Replacer) *drill {
	t.Helper()
	d := &drill{engine: newEngine(t, change), bin: bin, dir: t.TempDir(), redis: redistest.Start(t), postgres: postgres}
	d.addr = servertest.Addr(servertest.ReservePort(t))
	d.client = &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	t.Cleanup(d.client.CloseIdleConnections)
	d.settings = map[string]any{
		"data-dir": d.path("data"), "redis": d.redis.URL(), "ledger": d.database(), "pages": 64, "addr": d.addr,
	}
	var err error
	if d.log, err = os.Create(d.path("serve.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.stop()
		_ = d.log.Close()
		if log, err := os.ReadFile(d.path("serve.log")); err == nil && t.Failed() {
			t.Logf("the end of the service's log:\n%s", log[max(0, len(log)-3000):])
		}
	})
	return d
}

func (d *drill) path(name string) string { return filepath.Join(d.dir, name) }

// database makes a database, and returns its URL.
func (d *drill) database() string {
	d.t.Helper()
	d.postgres.Kill() // it may be paused, or down
	d.postgres.Restart()
	conn, err := pgx.Connect(d.t.Context(), d.postgres.URL())
	must(d.t, err)
	defer func() { _ = conn.Close(d.t.Context()) }()
	name := fmt.Sprintf("drill%d", time.Now().UnixNano())
	if _, err := conn.Exec(d.t.Context(), "create database "+name); err != nil {
		d.t.Fatal(err)
	}
	return strings.Replace(d.postgres.URL(), "/postgres?", "/"+name+"?", 1)
}

// start writes the settings, and starts the service.
func (d *drill) start() {
	d.t.Helper()
	text, err := json.Marshal(d.settings)
	must(d.t, err)
	must(d.t, os.WriteFile(d.path("feedfilter.json"), text, 0o600))
	must(d.t, d.launch())
}

// launch starts the service with the settings in its file, and waits until it answers.
func (d *drill) launch() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process = exec.Command(filepath.Join(d.bin, "feedfilter"), "serve", "--config", d.path("feedfilter.json")) //nolint:gosec // our own
	d.process.Env = append(os.Environ(), d.env...)
	d.process.Stderr = d.log
	if err := d.process.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := d.client.Get(d.url() + "/healthz") //nolint:noctx // the client has a timeout
		if err == nil {
			_ = answer.Body.Close()
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the service does not answer: %w", err)
		}
	}
}

// stop kills the service, if it runs.
func (d *drill) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != nil && d.process.Process != nil {
		_ = d.process.Process.Kill()
		_ = d.process.Wait()
		d.process = nil
	}
}

// terminate stops the service with SIGTERM, and waits until it has ended.
func (d *drill) terminate() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := d.process.Wait()
	d.process = nil
	return err
}

func (d *drill) reload() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.Process.Signal(syscall.SIGHUP)
}

func (d *drill) url() string {
	if d.settings["tls-cert"] != nil {
		return "https://" + d.addr
	}
	return "http://" + d.addr
}

// ask makes a call, and returns the status and the body. The status is 0 if there is no answer.
func (d *drill) ask(method, path string, body any) (int, []byte) {
	text, err := json.Marshal(body)
	must(d.t, err)
	request, err := http.NewRequestWithContext(context.Background(), method, d.url()+path, http.NoBody)
	must(d.t, err)
	if body != nil {
		request.Body = io.NopCloser(bytes.NewReader(text))
		request.ContentLength = int64(len(text))
		request.Header.Set("Content-Type", "application/json")
	}
	if d.token != "" {
		request.Header.Set("Authorization", "Bearer "+d.token)
	}
	answer, err := d.client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ = io.ReadAll(answer.Body)
	return answer.StatusCode, text
}

// must makes a call, and fails unless its status is 200.
func (d *drill) must(method, path string, body any) []byte {
	d.t.Helper()
	status, text := d.ask(method, path, body)
	if status != http.StatusOK {
		d.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// many makes n calls at the same time, and waits for all.
func (d *drill) many(n int, call func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { call(i) })
	}
	all.Wait()
}

// feed asks for a feed of n posts, and returns the status. The posts are first+"p0", first+"p1" and
// so on, each by its own author: first+"a0", first+"a1" and so on.
func (d *drill) feed(viewer string, n int, first string) int {
	type post struct {
		ID     string `json:"id"`
		Author string `json:"author"`
	}
	posts := make([]post, n)
	for i := range posts {
		posts[i] = post{first + "p" + strconv.Itoa(i), first + "a" + strconv.Itoa(i)}
	}
	status, _ := d.ask(http.MethodPost, "/v1/feed/filter", map[string]any{"viewer": viewer, "posts": posts})
	return status
}

// batch records or removes activities: users u1, u2 and so on, each with posts p0 to p<n-1>.
func (d *drill) batch(op, kind string, users, n int) {
	d.t.Helper()
	type activity struct {
		User   string `json:"user"`
		Kind   string `json:"kind"`
		Target string `json:"target"`
		Op     string `json:"op"`
	}
	var all []activity
	for u := range users {
		for i := range n {
			all = append(all, activity{"u" + strconv.Itoa(u+1), kind, "p" + strconv.Itoa(i), op})
		}
	}
	d.must(http.MethodPost, "/v1/activities", map[string]any{"activities": all})
}

// metrics returns what the service exports, nil if it does not answer.
func (d *drill) metrics() []byte {
	status, text := d.ask(http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		return nil
	}
	return text
}

// sum adds up the values of all series whose names begin with the prefix.
func (d *drill) sum(series string) (total float64) {
	for line := range strings.Lines(string(d.metrics())) {
		if strings.HasPrefix(line, series) {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
			must(d.t, err)
			total += v
		}
	}
	return total
}

// await waits until the sum of the series is as wanted.
func (d *drill) await(series string, wanted func(float64) bool) {
	d.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		v := d.sum(series)
		if wanted(v) {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("%s is still %v", series, v)
		}
	}
}

// moves calls do, if it is not nil, and waits until the sum of the series has grown.
func (d *drill) moves(series string, do func()) {
	d.t.Helper()
	before := d.sum(series)
	if do != nil {
		do()
	}
	d.await(series, func(v float64) bool { return v > before })
}

func above(limit float64) func(float64) bool { return func(v float64) bool { return v > limit } }

func is(wanted float64) func(float64) bool { return func(v float64) bool { return v == wanted } }

// scrape makes Prometheus scrape once, at the given time after the last scrape.
func (d *drill) scrape(after time.Duration) {
	d.t.Helper()
	if d.each != nil {
		d.each()
	}
	d.take(d.metrics(), after)
}

// until scrapes until holds returns true. It returns how long that took by the engine's clock.
func (d *drill) until(most time.Duration, what string, holds func() bool) time.Duration {
	d.t.Helper()
	begin := d.now
	for !holds() {
		if d.now.Sub(begin) > most {
			d.t.Fatalf("not %s after %v; what fires: %v", what, most, d.firing())
		}
		after := step
		if d.now.Sub(begin) > 90*time.Minute {
			after = time.Minute
		}
		d.scrape(after)
	}
	return d.now.Sub(begin)
}

// rest scrapes for at least that time, and until no alert is pending. Alerts may be pending at
// first, because a service that starts on an empty Redis finds its pages missing. No alert may
// fire.
func (d *drill) rest(long time.Duration) {
	d.t.Helper()
	for begin := d.now; d.now.Sub(begin) < long || len(d.active(rules.StatePending)) > 0; {
		d.scrape(step)
		if firing := d.firing(); len(firing) > 0 || d.now.Sub(begin) > 2*time.Hour {
			d.t.Fatalf("at rest %v fire, %v are about to", firing, d.active(rules.StatePending))
		}
	}
}

// through replaces the address in a URL, so that connections go through a proxy.
func through(url, addr string) string {
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(url, addr)
}

func hostPort(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must(t, err)
	return host, port
}
