package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// exported is a line of an export.
type exported struct {
	User   string     `json:"user"`
	Kind   string     `json:"kind"`
	Target string     `json:"target"`
	Op     string     `json:"op"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"`
}

// exports returns the lines of an export.
func exports(t testing.TB, a httpapitest.Answer) (lines []exported) {
	t.Helper()
	if a.Status != 200 || a.Header.Get("Content-Type") != "application/x-ndjson" || a.Body != "" && !strings.HasSuffix(a.Body, "\n") {
		t.Fatalf("%d %.300q, header %v", a.Status, a.Body, a.Header)
	}
	for text := range strings.Lines(a.Body) {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		var l exported
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestExport: an export has all activities of the ledger, by kind and target, with their times.
func TestExport(t *testing.T) {
	s := httpapitest.Open(t)
	if lines := exports(t, s.Do(t, "GET", "/v1/users/1/export", "")); len(lines) > 0 {
		t.Errorf("export of a user without activities: %v", lines)
	}
	begin := time.Date(2020, 2, 29, 23, 59, 59, 999_999_000, time.UTC)
	end := s.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	record(t, s,
		activity.Activity{User: "1", Kind: "like", Target: "😀/%\"", Since: begin},
		activity.Activity{User: "1", Kind: "like", Target: "..", Since: begin},
		activity.Activity{User: "1", Kind: "hide", Target: "p", Since: begin, Until: end},
		activity.Activity{User: "1", Kind: "hide", Target: "over", Until: s.Now().Add(time.Minute)},
		activity.Activity{User: "1", Kind: "block", Target: "2", Since: begin},
		activity.Activity{User: "1", Kind: "seen", Target: "p"},
		activity.Activity{User: "2", Kind: "block", Target: "1"},
		activity.Activity{User: "2", Kind: "hide", Target: "p"},
	)
	s.Ahead.Store(int64(2 * time.Minute))
	want := []exported{
		{User: "1", Kind: "block", Target: "2", Op: "add", Since: begin}, {User: "1", Kind: "hide", Target: "p", Op: "add", Since: begin, Until: &end},
		{User: "1", Kind: "like", Target: "..", Op: "add", Since: begin}, {User: "1", Kind: "like", Target: "😀/%\"", Op: "add", Since: begin},
	}
	if got := exports(t, s.Do(t, "GET", "/v1/users/1/export", "")); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// hides returns n activities of user 1.
func hides(n int) []activity.Activity {
	all := make([]activity.Activity, n)
	for i := range all {
		all[i] = activity.Activity{User: "1", Kind: "hide", Target: fmt.Sprintf("post-%05d", i)}
	}
	return all
}

// TestExportInParts checks the parts of an export, and the write deadline of each.
func TestExportInParts(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{StreamIdle: time.Hour, Timeout: time.Minute}, nil)
	const n, most = 5000, 33 << 10
	record(t, s, hides(n)...)
	w := &controlled{ResponseRecorder: httptest.NewRecorder()}
	before := time.Now()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/users/1/export", http.NoBody))
	res := w.Result()
	res.Request = &http.Request{}
	lines := exports(t, httpapitest.AnswerOf(t, res))
	if len(lines) != n {
		t.Errorf("%d lines", len(lines))
	}
	for i, l := range lines {
		if want := fmt.Sprintf("post-%05d", i); l.Target != want {
			t.Fatalf("line %d: %s", i, l.Target)
		}
	}
	for i := 1; i < len(w.flushed); i++ {
		if size := w.flushed[i] - w.flushed[i-1]; size > most {
			t.Errorf("part %d has %d bytes", i, size)
		}
	}
	if len(w.flushed) < n*50/most {
		t.Errorf("%d parts", len(w.flushed))
	}
	if len(w.write) < len(w.flushed) {
		t.Errorf("%d write deadlines for %d parts", len(w.write), len(w.flushed))
	}
	for _, at := range w.write {
		if at.Before(before.Add(time.Hour)) {
			t.Errorf("write deadline %v, started %v", at, before)
		}
	}
}

// TestExportFails makes the ledger fail or hang, at the first part and later.
func TestExportFails(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context) error{
		"failing": func(context.Context) error { return httpapitest.ErrInjected },
		"hanging": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		for _, at := range []int64{1, 4} {
			t.Run(fmt.Sprintf("%s at call %d", name, at), func(t *testing.T) {
				t.Parallel()
				s := newOwnedService(t, httpapi.Config{Timeout: 3 * time.Second}, func(ctx context.Context, call int64) error {
					if call == at {
						return fail(ctx)
					}
					return nil
				})
				record(t, s, hides(5000)...)
				server := httptest.NewServer(s)
				defer server.Close()
				if at == 1 {
					httpapitest.WantDown(t, "export", request(t, server.Client(), "GET", server.URL+"/v1/users/1/export"), "ledger")
					return
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/users/1/export", http.NoBody)
				httpapitest.Must(t, err)
				res, err := server.Client().Do(r)
				httpapitest.Must(t, err)
				defer res.Body.Close()
				lines := 0
				scanner := bufio.NewScanner(res.Body)
				for scanner.Scan() {
					lines++
				}
				if res.StatusCode != http.StatusOK || lines == 0 || lines > 3000 || scanner.Err() == nil {
					t.Errorf("%d, %d lines, then %v; want a part of the lines, then an error", res.StatusCode, lines, scanner.Err())
				}
				awaitRequests(t, s, 0)
			})
		}
	}
}

// TestExportBreaks makes each operation of the connection fail.
func TestExportBreaks(t *testing.T) {
	s := httpapitest.Open(t)
	record(t, s, hides(1500)...)
	for name, w := range map[string]*httpapitest.BadWriter{
		"deadline": {DeadlineErr: httpapitest.ErrInjected}, "write": {WriteErr: httpapitest.ErrInjected}, "flush": {FlushErr: httpapitest.ErrInjected},
	} {
		w.ResponseRecorder = httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/users/1/export", http.NoBody)
		if !s.Aborted(w, r) && w.Code == 200 {
			t.Errorf("%s: the answer looks complete", name)
		}
		if in, _ := s.Requests(t); in != 0 {
			t.Errorf("%s: %v in progress", name, in)
		}
	}
}

func TestExportHead(t *testing.T) {
	s := httpapitest.Open(t)
	record(t, s, hides(10)...)
	for _, user := range []string{"1", "2"} {
		a := s.Do(t, "HEAD", "/v1/users/"+user+"/export", "")
		if a.Status != 200 || a.Body != "" || a.Header.Get("Content-Type") != "application/x-ndjson" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("user %s: %d %q %v", user, a.Status, a.Body, a.Header)
		}
	}
	if a := s.Do(t, "HEAD", "/v1/users/%0A/export", ""); a.Status != 400 {
		t.Errorf("a malformed id: %d", a.Status)
	}
}

// TestExportIsAStream: exports count as streams.
func TestExportIsAStream(t *testing.T) {
	hold := make(chan struct{})
	s := newOwnedService(t, httpapi.Config{MaxStreams: 1, Timeout: time.Hour}, func(context.Context, int64) error {
		<-hold
		return nil
	})
	addr := s.Start(t)
	const get = "GET /v1/users/1/export HTTP/1.1\r\nHost: x\r\n\r\n"
	first := make(chan httpapitest.Answer, 1)
	go func() { first <- httpapitest.Raw(t, addr, get) }()
	awaitRequests(t, s, 1)
	httpapitest.WantOverloaded(t, "a second export", httpapitest.Raw(t, addr, get), true)
	if a := s.Do(t, "POST", "/v1/activities", httpapitest.Line, "Content-Type", "application/x-ndjson"); a.Status != 503 {
		t.Errorf("a stream: %d %s", a.Status, a.Body)
	}
	s.Want(t, "PUT", "/v1/users/1/hides/p", "", 200, httpapitest.Yes)
	close(hold)
	if lines := exports(t, httpapitest.Await(t, first)); len(lines) != 1 {
		t.Errorf("%v", lines)
	}
	if lines := exports(t, httpapitest.Raw(t, addr, get)); len(lines) != 1 {
		t.Errorf("afterwards %v", lines)
	}
}
