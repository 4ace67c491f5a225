package opspage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/ops"
	"github.com/feedfilter/feedfilter/internal/opspage"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// hostile is a user's id that contains markup.
const hostile = `<img src=x onerror="document.title='taken'">`

// service is a complete service with pages in the process.
type service struct {
	*httptest.Server

	recorder *activity.Recorder // nil without a ledger
	token    string             // token with all scopes; "": no token is required
	reader   string             // token without ops:read
}

// guarded makes the service require tokens.
func (s *service) guarded(t *testing.T) limits.Access {
	t.Helper()
	s.token, s.reader = access.NewToken(), access.NewToken()
	file := filepath.Join(t.TempDir(), "tokens.json")
	text := fmt.Sprintf(`{"tokens":[{"name":"all","hash":%q,"scopes":["feed:read","activity:write","ops:read","ops:write"]},{"name":"reader","hash":%q,"scopes":["feed:read"]}]}`,
		access.HashToken(s.token), access.HashToken(s.reader))
	must(t, os.WriteFile(file, []byte(text), 0o600))
	tokens, err := access.OpenTokens(access.TokensConfig{File: file})
	must(t, err)
	return limits.Access{Tokens: tokens}
}

// startReal starts a service whose users block and hide. With withLedger, it has a ledger in
// SQLite; without, it requires tokens.
func startReal(t *testing.T, withLedger bool) *service {
	t.Helper()
	s := new(service)
	var guard limits.Access
	if !withLedger {
		guard = s.guarded(t)
	}
	about := ops.About{Version: "v9.8.7", Ledger: "none", PageStore: "memory"}
	var activities activity.Activities
	if withLedger {
		about.Ledger = "sqlite"
		s.recorder = openRecorder(t)
		activities = s.recorder
	} else {
		plain, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, FalsePositiveRate: 1e-6})
		must(t, err)
		activities = plain
	}
	t.Cleanup(activities.Close)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	handler := httpapi.New(httpapi.Config{Activities: activities, About: about, Access: guard, Background: func(do func(context.Context)) {
		go func() { defer close(ended); do(ctx) }()
	}})
	s.Server = httptest.NewServer(handler)
	t.Cleanup(func() { s.Close(); cancel(); <-ended })
	s.traffic(t)
	return s
}

// openRecorder opens a recorder on SQLite. Its staleness bound is long, so that polls are in time
// on an overloaded machine.
func openRecorder(t *testing.T) *activity.Recorder {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r, err := activity.Open(t.Context(), activity.Config{
		Ledger: l, Store: &favfilter.Memory{}, FalsePositiveRate: 1e-6, StalenessBound: time.Minute,
	})
	must(t, err)
	return r
}

// traffic makes users 0 to 59 block another user. The first of them also hides posts.
func (s *service) traffic(t *testing.T) {
	t.Helper()
	for i := range 60 {
		s.send(t, http.MethodPut, fmt.Sprintf("/v1/users/%d/blocks/t%d", i, i), "")
	}
	for i := range 40 {
		s.send(t, http.MethodPut, fmt.Sprintf("/v1/users/0/hides/p%d", i), "")
	}
	s.send(t, http.MethodPut, "/v1/users/0/blocks/"+strings.ReplaceAll(strings.ReplaceAll(hostile, "=", "%3D"), " ", "%20"), "")
}

func (s *service) send(t *testing.T, method, path, body string) {
	t.Helper()
	must(t, s.call(t, method, path, body))
}

func (s *service) call(t *testing.T, method, path, body string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := s.Client().Do(r)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return nil
}

// busy asks for feeds until stop is called, so that the last minute has some on a slow machine too.
// It returns when the service has counted one. Each feed drops a post.
func (s *service) busy(t *testing.T) (stop func()) {
	t.Helper()
	ended := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			if err := s.call(t, http.MethodPost, "/v1/feed/filter", `{"viewer":"7","posts":[{"id":"p1","author":"t7"},{"id":"p2","author":"n"}]}`); err != nil {
				t.Error(err)
			}
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	})
	err := servertest.Await(t.Context(), "a step of the history has feeds", func(ctx context.Context) error {
		if feeds := s.get(ctx, t, "/v1/ops/history")["feeds"].([]any); len(feeds) == 0 || feeds[len(feeds)-1] == 0.0 {
			return errNotYet
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return func() { close(ended); asking.Wait() }
}

// get returns the answer to a call.
func (s *service) get(ctx context.Context, t *testing.T, path string) (answer object) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, http.NoBody)
	must(t, err)
	res, err := s.Client().Do(r)
	must(t, err)
	defer res.Body.Close()
	must(t, json.NewDecoder(res.Body).Decode(&answer))
	return answer
}

// testReal checks that every view shows what a healthy service has done and holds.
func testReal(b *chromium, s *service) func(*testing.T) {
	return func(t *testing.T) {
		if _, err := s.recorder.Scrubber().Scrub(0); err != nil {
			t.Fatal(err)
		}
		for s.recorder.Scrubber().ScrubStatus().Running {
			time.Sleep(time.Millisecond)
		}
		res, err := s.Client().Get(s.URL + opspage.Path) //nolint:noctx // ends with the server
		must(t, err)
		_ = res.Body.Close()
		for header, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"} {
			if got := res.Header.Get(header); got != want {
				t.Errorf("%s: %q, want %q", header, got, want)
			}
		}
		tab := open(t, b, s.URL, "#/live", look{})
		tab.settled()
		defer s.busy(t)()
		tab.refresh()
		tab.want(".sentence", "Answering feeds. No problems found.")
		tab.want("#verdict-facts", "v9.8.7 · up")
		tab.want("#verdict-facts", "pages in the process · ledger in SQLite · 16 pages · 162 keys")
		for _, figure := range []string{"Feeds", "Typical feed", "Slow feeds", "Dropped posts", "Poll age"} {
			if v := tab.text(fmt.Sprintf("[data-figure=%q] .value span", figure)); v == "–" || v == "0" || strings.HasPrefix(v, "NOTHING") {
				t.Errorf("%s: %s", figure, v)
			}
		}
		tab.want("[data-figure='Dropped posts'] .meaning", "block")
		tab.want("[aria-label='Dropped posts']", "block")

		s.checkPage(t, tab)

		tab.visit("#/search")
		tab.search("0", "p8", hostile)
		tab.want("form + .stack", "0 has blocked "+hostile+", the author.")
		tab.want("form + .stack", "0 has hidden p8.")
		tab.want("form + .stack", "DELETE /v1/users/0/hides/p8")

		tab.visit("#/growth")
		tab.want("[data-figure=Keys] .value", "162")
		tab.want("[data-figure=Pages] .meaning", "16 pages, 0 of them dedicated to heavy users.")
		tab.want("[aria-label='Keys per page']", "No reshape is running. There are 16 pages, as requested.")
		tab.want("[aria-label='Keys per page']", "Too little history for a forecast")
	}
}

// checkPage opens the page with the most keys, and rebuilds it.
func (s *service) checkPage(t *testing.T, tab *tab) {
	t.Helper()
	var fullest *pages.PageInside
	for n := range uint32(s.recorder.Stats().SharedPages) {
		in, err := s.recorder.Inside().InspectPage(t.Context(), n)
		must(t, err)
		if fullest == nil || in.Ledger.Keys > fullest.Ledger.Keys {
			fullest = in
		}
	}
	tab.visit(fmt.Sprintf("#/page/%d", fullest.Number))
	tab.want(".notice", "Sound: it reports every key that the ledger has.")
	tab.want("[aria-label='Page and ledger']", fmt.Sprintf("Keys held %[1]d %[1]d yes", fullest.Ledger.Keys))
	tab.want("[aria-label='Users on this page']", fmt.Sprintf("with %d keys", fullest.Ledger.Keys))
	tab.click(".head button")
	tab.click("dialog[open] .main")
	tab.until("document.body.innerText.includes('Rebuilt in')")
	tab.settled()
	value[bool](tab, "(location.hash = '#/page/99', true)")
	tab.until("document.getElementById('problem').innerText.includes('There is no such page.')")
}

// testPlain checks that the page distinguishes a token without the scope from one that has it. It
// also checks that views say so if there is no ledger.
func testPlain(b *chromium, s *service) func(*testing.T) {
	return func(t *testing.T) {
		tab := open(t, b, s.URL, "#/live", look{})
		signIn := func(token string) {
			t.Helper()
			tab.until("document.getElementById('token').open")
			tab.fill("#token-value", token)
			tab.click("#token-form .main")
		}
		signIn(s.reader)
		tab.until("document.querySelector('.sentence').innerText.includes('does not have the scope ops:read')")
		tab.click("#forget")
		signIn(s.token)
		tab.settled()
		tab.want("#verdict-facts", "no ledger")
		tab.want("[data-figure='Poll age']", "There is no ledger to poll.")
		tab.until("document.querySelector('[aria-label=\"Poll age\"] .plot').innerText.includes('There is no ledger to poll.')")
		tab.visit("#/page/0")
		tab.want(".notice", "Without a ledger, it cannot be compared.")
		s.send(t, http.MethodPut, "/v1/users/1/blocks/2", "")
		tab.refresh()
		for _, of := range []string{"incarnation", "rebuilt larger", "Changes of the ledger"} {
			if said := tab.text("[aria-label='Details']"); strings.Contains(said, of) {
				t.Errorf("a page without a ledger mentions %q: %s", of, said)
			}
		}
		tab.visit("#/growth")
		tab.want("[aria-label='Keys per page']", "Without a ledger, each page grows as needed")
		tab.want("[data-figure=Keys] .value", "–")
		if said := tab.text("[aria-label='Keys per page']"); strings.Contains(said, "reshape") || strings.Contains(said, "due from") {
			t.Errorf("without a ledger there is no reshape: %s", said)
		}
		tab.visit("#/search")
		tab.search("1", "p1", "t1")
		tab.want(".notice", "This needs a ledger, and the service runs without one.")
	}
}
