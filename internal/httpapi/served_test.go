package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// servedVariable makes the test binary serve feeds until its standard input ends. Its value names
// the handler and the data directory.
const servedVariable = "HTTPAPI_TEST_SERVED"

func TestMain(m *testing.M) {
	if job := os.Getenv(servedVariable); job != "" {
		name, dir, _ := strings.Cut(job, " ")
		if err := serveFeeds(name, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// served returns the handlers whose processor time is compared: the service, and Echo handlers that
// only decode and encode, and know in advance what to drop.
func served() map[string]func(ctx context.Context, dir string) (http.Handler, error) {
	bare := func(answer echo.HandlerFunc) func(context.Context, string) (http.Handler, error) {
		return func(context.Context, string) (http.Handler, error) {
			e := echo.New()
			e.POST("/v1/feed/filter", answer)
			return e, nil
		}
	}
	return map[string]func(context.Context, string) (http.Handler, error){
		"service": feedService, "echo": bare(echoStrict), "lenient": bare(echoLenient),
	}
}

// serveFeeds prints its address, and serves. GET /cpu answers the processor time of the process, in
// nanoseconds.
func serveFeeds(name, dir string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	handler, err := served()[name](ctx, dir)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = listener.Close()
	}()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/cpu" {
			handler.ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, strconv.FormatInt(cpuUsed().Nanoseconds(), 10))
	})}
	if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// cpuUsed returns the processor time of this process so far, for all threads.
func cpuUsed() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const (
	servedPosts  = 500
	servedBodies = 64
	dropEach     = 20 // one of so many candidates is by a blocked author
)

// servedBody returns the n-th feed: ids of the length that large networks have, and actors on every
// fourth post.
func servedBody(n int) string {
	var b strings.Builder
	b.WriteString(`{"viewer":"u1","posts":[`)
	for i := range servedPosts {
		at := n*servedPosts + i
		author := "u" + strconv.Itoa(50_000_000+at)
		if i%dropEach == 0 {
			author = blockedAuthor(at)
		}
		fmt.Fprintf(&b, `{"id":"p%d","author":"%s"`, 70_000_000_000+at, author)
		if i%4 == 1 {
			fmt.Fprintf(&b, `,"actors":["u%d","u%d"]`, 60_000_000+at, 61_000_000+at)
		}
		b.WriteString("},")
	}
	return strings.TrimSuffix(b.String(), ",") + "]}"
}

func blockedAuthor(at int) string { return "b" + strconv.Itoa(at/dropEach%1000) }

// feedService is the service with default settings: a ledger in SQLite, pages in the process. Its
// viewer has 1,000 blocks.
func feedService(ctx context.Context, dir string) (http.Handler, error) {
	h, _, err := feedServiceAt(ctx, dir, 1e-6) // answers are compared, so false positives must not occur
	return h, err
}

// feedServiceAt is a service in which u1 blocks b0 to b999, with a false-positive rate. end stops
// it.
func feedServiceAt(ctx context.Context, dir string, rate float64) (h http.Handler, end func() error, err error) {
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{})
	if err != nil {
		return nil, nil, err
	}
	recorder, err := activity.Open(ctx, activity.Config{Ledger: l, Store: &favfilter.Memory{}, FalsePositiveRate: rate})
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	end = func() error {
		recorder.Close()
		return l.Close()
	}
	blocks := make([]activity.Activity, 1000)
	for i := range blocks {
		blocks[i] = activity.Activity{User: "u1", Kind: "block", Target: "b" + strconv.Itoa(i)}
	}
	if _, err := recorder.Record(ctx, blocks); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return New(Config{Activities: recorder}), end, nil //nolint:contextcheck // handlers have their requests' contexts
}

// plainRequest is a feed as an Echo handler reads it.
type plainRequest struct {
	Viewer string             `json:"viewer"`
	Posts  []plainRequestPost `json:"posts"`
}

type plainRequestPost struct {
	ID     string   `json:"id"`
	Author string   `json:"author"`
	Actors []string `json:"actors"`
}

type plainAnswer struct {
	Posts    []plainPost   `json:"posts"`
	Dropped  []droppedPost `json:"dropped"`
	Next     int           `json:"next,omitzero"`
	Degraded []string      `json:"degraded"`
}

type droppedPost struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Actor string `json:"actor,omitzero"`
}

type plainPost struct {
	ID string `json:"id"`
}

func plainAnswerOf(req *plainRequest) plainAnswer {
	a := plainAnswer{Posts: make([]plainPost, 0, len(req.Posts)), Dropped: make([]droppedPost, 0), Degraded: make([]string, 0)}
	for i, p := range req.Posts {
		if i%dropEach == 0 {
			a.Dropped = append(a.Dropped, droppedPost{ID: p.ID, Kind: "block", Actor: p.Author})
			continue
		}
		a.Posts = append(a.Posts, plainPost{p.ID})
	}
	return a
}

// echoStrict refuses what the service refuses: duplicate names, unknown names, invalid UTF-8.
func echoStrict(c echo.Context) error {
	var req plainRequest
	if err := json.UnmarshalRead(c.Request().Body, &req, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	body, err := json.Marshal(plainAnswerOf(&req))
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, body)
}

// echoLenient is Echo's default: encoding/json, which accepts all of that.
func echoLenient(c echo.Context) error {
	var req plainRequest
	if err := c.Bind(&req); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, plainAnswerOf(&req))
}

// server is one of served, in its own process.
type server struct {
	name, addr string
	perFeed    []time.Duration // processor time, by round
}

func startServed(b *testing.B, name string) *server {
	b.Helper()
	// The process ends with its standard input.
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), servedVariable+"="+name+" "+b.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return &server{name: name, addr: strings.TrimSpace(addr)}
}

func (s *server) do(b *testing.B, method, path, body string) []byte {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s, %v: %.200s", s.name, res.Status, err, answer)
	}
	return answer
}

func (s *server) cpu(b *testing.B) time.Duration {
	b.Helper()
	ns, err := strconv.ParseInt(string(s.do(b, http.MethodGet, "/cpu", "")), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(ns)
}

// BenchmarkServed compares the processor time of the processes of served for a feed of 500 posts,
// over persistent connections. They take turns, in rounds that are long enough to include garbage
// collection.
func BenchmarkServed(b *testing.B) {
	const round = 100
	bodies := make([]string, servedBodies)
	for n := range bodies {
		bodies[n] = servedBody(n)
	}
	var servers []*server
	for name := range served() {
		servers = append(servers, startServed(b, name))
	}
	for _, body := range bodies {
		want := servers[0].do(b, http.MethodPost, "/v1/feed/filter", body)
		for _, s := range servers[1:] {
			if got := s.do(b, http.MethodPost, "/v1/feed/filter", body); !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
				b.Fatalf("%s answers %.300s\n%s answers %.300s", s.name, got, servers[0].name, want)
			}
		}
	}
	for b.Loop() {
		for _, s := range servers {
			before := s.cpu(b)
			for n := range round {
				s.do(b, http.MethodPost, "/v1/feed/filter", bodies[n%servedBodies])
			}
			s.perFeed = append(s.perFeed, (s.cpu(b)-before)/round)
		}
	}
	medians := make(map[string]float64)
	for _, s := range servers {
		slices.Sort(s.perFeed)
		medians[s.name] = float64(s.perFeed[len(s.perFeed)/2].Nanoseconds()) / 1000
		b.ReportMetric(medians[s.name], s.name+"-us")
	}
	b.ReportMetric(medians["service"]/medians["echo"], "x-echo")
	b.ReportMetric(0, "ns/op") // covers all processes and the client: meaningless
}
