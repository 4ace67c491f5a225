package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// With pages in Redis, and a stopped service or a shared ledger, the commands read the data
// directly.
func TestInsideByThemselves(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.csv")
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, "%d,hide,p\n%d,block,x\n", i, i)
	}
	must(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	flags := []string{"--data-dir", dir, "--redis", "redis://" + server.Addr(), "--log-level", "error"}
	run := func(code int, args ...string) string {
		t.Helper()
		r := feedfilter(t, code, append(args, flags...)...)
		return r.stdout + r.stderr
	}
	run(0, "import", "--pages", "4", file)
	wantContains(t, run(0, "debug", "scrub"), "4 of 4 pages compared with the ledger in ", ": no differences\n")
	wantContains(t, run(0, "debug", "inspect", "user", "x"), "ledger    200 keys: 200 blocked-by\n", "reports all of them")
	wantContains(t, run(0, "debug", "inspect", "key", "block", "7", "x"), "block:U7_Ux: page ", "blocked-by:Ux_U7: page ", "The ledger has it since")

	if n, err := client.Del(t.Context(), "fav:{feed/1}:regions", "fav:{feed/2}:bits", "fav:{feed/2}:regions").Result(); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	wantContains(t, run(0, "debug", "inspect", "page", "1"), "page 1: damaged, of ", "it does not report these keys of the ledger: ", "\n  sequence  -     1\n")
	wantContains(t, run(0, "debug", "inspect", "page", "2"), "page 2: missing, of ")
	wantContains(t, run(0, "debug", "rebuild", "--page", "1"), "rebuilt 1 pages with ")
	wantContains(t, run(0, "debug", "inspect", "page", "1"), "agrees with the ledger", "keys of ")
	wantContains(t, run(0, "debug", "scrub"), ": 1 missing\n")
	wantContains(t, run(0, "debug", "scrub"), ": no differences\n")
	wantContains(t, run(0, "debug", "rebuild", "--all"), "rebuilt 4 pages with 600 keys (")
	wantContains(t, run(0, "debug", "rebuild", "--user", "x"), "rebuilt 1 pages with ")
	wantContains(t, run(1, "debug", "inspect", "page", "4"), "there is no such page")

	// A Redis that refuses writes.
	must(t, client.Del(t.Context(), "fav:{feed/3}:bits").Err())
	must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	wantContains(t, run(1, "debug", "scrub"), ": 1 missing\n", "feedfilter: scrub: 1 pages could not be rebuilt\n")
	wantContains(t, run(1, "debug", "rebuild", "--page", "3"), "rebuild: 1 of 1 pages failed: ")
	server.Kill()
	wantContains(t, run(1, "debug", "scrub"), "feedfilter: scrub: redis at "+server.Addr())
}

// Answers of a program that is not feedfilter, or of a restarted service, are failures.
func TestInsideOfAnOddService(t *testing.T) {
	var answers sync.Map
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, ok := answers.Load(r.Method + " " + r.URL.Path)
		answer, _ := said.(string)
		if strings.HasPrefix(answer, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		if !ok {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = fmt.Fprint(w, answer)
	}))
	t.Cleanup(odd.Close)
	run := func(args ...string) string {
		t.Helper()
		return feedfilter(t, 1, append(args, "--server", odd.URL)...).stderr
	}
	wantContains(t, run("debug", "inspect", "page", "1"), "/v1/ops/pages/1: unexpected answer: 418 I'm a teapot")
	wantContains(t, run("debug", "rebuild", "--all"), "rebuild: GET http://", "/v1/pages: unexpected answer: 418")
	answers.Store("GET /v1/ops/users/1", "<html>")
	wantContains(t, run("debug", "inspect", "user", "1"), "unexpected answer: 200 OK")
	answers.Store("POST /v1/ops/scrub", `{"running":true,"done":1,"all":9,"started":"2026-01-02T00:00:00Z"}`)
	answers.Store("GET /v1/ops/scrub", `{"running":false,"done":0,"all":0,"found":{}}`)
	wantContains(t, run("debug", "scrub"), "the service was restarted; 1 of 9 pages were checked")
	answers.Store("GET /v1/ops/scrub", `{"running":false,"done":5,"all":9,"unasked":2,"failed":3,"trouble":"the service was shut down","started":"2026-01-02T00:00:00Z"}`)
	wantContains(t, run("debug", "scrub"), "scrub: 3 pages could not be rebuilt, 2 could not be checked, it ended early: the service was shut down\n")
}

// An interrupted command reports its progress.
func TestInsideInterrupted(t *testing.T) {
	for command, want := range map[string]string{
		"debug rebuild --all": "rebuild: interrupted (interrupt); 1 pages rebuilt so far",
		"debug scrub":         "scrub: interrupted (interrupt); 1 of 9 pages were checked; the service continues",
	} {
		var asked atomic.Int64
		ctx, interrupt := context.WithCancelCause(t.Context())
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.Method + " " + r.URL.Path {
			case "GET /v1/pages":
				_, _ = fmt.Fprintf(w, `{"homes":%[1]d,"shared_pages":%[1]d,"dedicated_pages":0}`, rebuiltAtOnce+1)
			case "POST /v1/ops/scrub":
				_, _ = fmt.Fprint(w, `{"running":true,"done":1,"all":9,"started":"2026-01-02T00:00:00Z"}`)
			case "POST /v1/ops/pages/0/rebuild":
				_, _ = fmt.Fprint(w, `{"number":0}`)
			default: // the other pages, or the status of the scrub
				if asked.Add(1) == rebuiltAtOnce || command == "debug scrub" { // page 0 is done by now
					interrupt(interruption{syscall.SIGINT})
				}
				<-r.Context().Done()
			}
		}))
		t.Cleanup(service.Close)
		err := execute(ctx, append(strings.Fields(command), "--server", service.URL), stdio{os.Stdin, os.Stdout, os.Stderr})
		if err == nil || err.Error() != want || exitCode(err) != 130 {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
}

// All pages are rebuilt: shared pages of a later layout, and dedicated pages, some of whose numbers
// nobody has any more. A dedicated page that is removed meanwhile is looked for, and counts as
// failed.
func TestRebuildAll(t *testing.T) {
	for _, dedicated := range []int{3, 4} {
		want := map[uint32]bool{4: true, 5: true, 6: true, 7: true}
		for _, n := range []uint32{0, 3, 9} {
			want[ledger.DedicatedPages+n] = true
		}
		var mu sync.Mutex
		got := make(map[uint32]int)
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			var number uint32
			_, err := fmt.Sscanf(r.URL.Path, "/v1/ops/pages/%d/rebuild", &number)
			switch {
			case r.URL.Path == "/v1/pages":
				_, _ = fmt.Fprintf(w, `{"homes":2,"shared_pages":4,"dedicated_pages":%d}`, dedicated)
			case err != nil || !want[number]:
				w.WriteHeader(http.StatusNotFound)
				_, _ = fmt.Fprint(w, `{"error":{"code":"not_found","message":"there is no such page"}}`)
			default:
				mu.Lock()
				defer mu.Unlock()
				got[number]++
				_, _ = fmt.Fprintf(w, `{"number":%d,"keys":10,"bytes":100}`, number)
			}
		}))
		t.Cleanup(service.Close)
		if dedicated == 3 {
			ran := feedfilter(t, 0, "debug", "rebuild", "--all", "--server", service.URL)
			wantContains(t, ran.stdout, "rebuilt 7 pages with 70 keys (700 bytes) in ")
		} else { // one is gone, and its number may be any
			s, err := client.New(service.URL, client.Options{})
			must(t, err)
			c := rebuildCmd{All: true, maxLeft: 100}
			answer, first, err := c.rebuild(t.Context(), stdio{}, s)
			must(t, err)
			if answer.Rebuilt != 7 || answer.Keys != 70 || answer.Failed != 1 || refusal(first) != "not_found" {
				t.Errorf("rebuilt %+v, first error %v", answer, first)
			}
		}
		for number := range want {
			if got[number] != 1 {
				t.Errorf("page %d was rebuilt %d times", number, got[number])
			}
		}
	}
}
