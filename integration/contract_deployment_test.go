package integration

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// contractKinds adds one kind of each sort, and limits.
const contractKinds = `{"kinds":[
	{"name":"mute", "target":"user", "effect":"drop", "limit":7},
	{"name":"report", "target":"post", "effect":"drop"},
	{"name":"feud", "target":"user", "effect":"drop", "two_way":true, "limit":3},
	{"name":"mark", "target":"post", "effect":"annotate"}
]}`

// deployment names the servers that services run on: none, or Redis and Postgres.
type deployment struct {
	redis    *cache         // nil: embedded
	postgres *pgtest.Server // nil: embedded
}

// onBoth runs a test on both deployments in parallel.
func onBoth(t *testing.T, test func(t *testing.T, d deployment)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, deployment{})
	})
	t.Run("Redis and Postgres", func(t *testing.T) {
		t.Parallel()
		test(t, deployment{redis: startRedis(t), postgres: pgtest.Start(t)})
	})
}

// contract is a service whose API the terms test.
type contract struct {
	*service
	deployment

	dir    string // its data directory
	filter string // the name of its pages
	ledger string // the URL of its ledger, for another connection
	held   int    // number of terms tested so far
}

// serve starts a service with its own data.
func (d deployment) serve(t *testing.T, filter string, flags ...string) *contract {
	t.Helper()
	c := &contract{deployment: d, dir: t.TempDir(), filter: filter}
	c.ledger = filepath.Join(c.dir, "ledger.db")
	kinds := filepath.Join(t.TempDir(), "kinds.json")
	if err := os.WriteFile(kinds, []byte(contractKinds), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--data-dir", c.dir, "--kinds", kinds, "--filter", filter, "--staleness-bound", "300ms"}, flags...)
	if d.redis != nil {
		c.ledger = d.postgres.Schema()
		args = append(args, "--redis", d.redis.URL(), "--ledger", c.ledger)
	}
	c.service = serve(t, args...)
	c.logOnFailure()
	return c
}

// database opens the ledger directly, without the service.
func (c *contract) database(t *testing.T) *sql.DB {
	t.Helper()
	driver, source := "sqlite", "file:"+c.ledger+"?mode=ro&_pragma=busy_timeout(5000)"
	if c.postgres != nil {
		driver, source = "pgx", c.ledger
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// term is one line of the contract and its test.
type term struct {
	says string
	test trial
}

// trial tests a term. id makes ids that no other term uses.
type trial func(t *testing.T, c *contract, id func(name string) string)

// hold tests each term with ids that no other term uses.
func (c *contract) hold(t *testing.T, terms []term) {
	t.Helper()
	for _, term := range terms {
		t.Run(term.says, func(t *testing.T) {
			c.held++
			prefix := fmt.Sprintf("%d.", c.held)
			term.test(t, c, func(name string) string { return prefix + name })
		})
	}
}

// path joins the parts of a route, and escapes each.
func path(parts ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// heard is the answer to a request.
type heard struct {
	status int
	header http.Header
	body   string
}

// say sends a request, and fails the test if there is no answer. The body is JSON unless a media
// type is given.
func (c *contract) say(t testing.TB, method, path, body string, media ...string) heard {
	t.Helper()
	h, err := c.try(t.Context(), method, path, body, media...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return h
}

// try sends a request like say, but returns the error. Any goroutine may call it.
func (c *contract) try(ctx context.Context, method, path, body string, media ...string) (heard, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return heard{}, err
	}
	if body == "" {
		req.Body = http.NoBody
	} else {
		req.Header.Set("Content-Type", strings.Join(append(media, "application/json")[:1], ""))
	}
	res, err := c.client.Do(req)
	if err != nil {
		return heard{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return heard{res.StatusCode, res.Header, string(text)}, err
}

// wants sends a request, and checks that the answer is 200 and equals want.
func (c *contract) wants(t testing.TB, method, path, body, want string) {
	t.Helper()
	if h := c.say(t, method, path, body); h.status != http.StatusOK || h.body != want {
		t.Errorf("%s %s %.100s: %d %.300s, want 200 %s", method, path, body, h.status, h.body, want)
	}
}

// awaits calls try until it returns nil.
func (*contract) awaits(t *testing.T, what string, try func() error) error {
	t.Helper()
	return servertest.Await(t.Context(), what, func(context.Context) error { return try() })
}

const (
	changed   = `{"changed":true}`
	unchanged = `{"changed":false}`
)

// problem is the content of an error answer.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field"`
	Limit   int    `json:"limit"`
}

// problem decodes an error answer. All errors have the same form.
func (h heard) problem() (problem, error) {
	var e struct {
		Error problem `json:"error"`
	}
	d := json.NewDecoder(strings.NewReader(h.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return problem{}, err
	}
	if e.Error.Code == "" || e.Error.Message == "" || h.header.Get("Content-Type") != "application/json" {
		return e.Error, errors.New("not the shape of errors")
	}
	return e.Error, nil
}

// refuses sends a request, and checks the error: want is "<status> <code>", with a field if the
// error names one.
func (c *contract) refuses(t testing.TB, method, path, body, want string) {
	t.Helper()
	h := c.say(t, method, path, body)
	p, err := h.problem()
	if got := strings.TrimSpace(fmt.Sprintf("%d %s %s", h.status, p.Code, p.Field)); err != nil || got != want {
		t.Errorf("%s %s %.100s: %d %.300s (%v), want %s", method, path, body, h.status, h.body, err, want)
	}
}

// jsonOf returns v as JSON.
func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// read sends a request, checks that the answer is 200, and decodes it into out. out must have all
// fields of the answer.
func (c *contract) read(t testing.TB, method, path, body string, out any) {
	t.Helper()
	h := c.say(t, method, path, body)
	d := json.NewDecoder(strings.NewReader(h.body))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil || h.status != http.StatusOK {
		t.Fatalf("%s %s %.200s: %d %.300s (%v)", method, path, body, h.status, h.body, err)
	}
}

// filtered is the answer to a feed request.
type filtered struct {
	Posts   []map[string]any `json:"posts"`
	Dropped []struct {
		ID          string `json:"id"`
		Kind        string `json:"kind"`
		Actor       string `json:"actor"`
		Unconfirmed bool   `json:"unconfirmed"`
	} `json:"dropped"`
	Next     int `json:"next"`
	Degraded []struct {
		Kind   string `json:"kind"`
		Reason string `json:"reason"`
	} `json:"degraded"`
}

// ask is a feed request. Unset fields are left out.
type ask struct {
	Viewer     string   `json:"viewer"`
	Posts      []post   `json:"posts"`
	Kinds      []string `json:"kinds,omitzero"`
	Annotate   []string `json:"annotate,omitzero"`
	Limit      int      `json:"limit,omitzero"`
	RecordSeen bool     `json:"record_seen,omitzero"`
	Exact      bool     `json:"exact,omitzero"`
}

func (c *contract) check(t testing.TB, a ask) filtered {
	t.Helper()
	var f filtered
	c.read(t, http.MethodPost, "/v1/feed/filter", jsonOf(t, a), &f)
	return f
}

// kept returns the ids of the kept posts. reasons returns why posts were dropped: "p block 2".
func (f filtered) kept() string {
	ids := make([]string, len(f.Posts))
	for i, p := range f.Posts {
		ids[i] = fmt.Sprint(p["id"])
	}
	return strings.Join(ids, " ")
}

func (f filtered) reasons() string {
	all := make([]string, len(f.Dropped))
	for i, d := range f.Dropped {
		all[i] = strings.TrimSpace(d.ID + " " + d.Kind + " " + d.Actor)
	}
	return strings.Join(all, ", ")
}

// sees asks for a feed, and compares the kept posts and the reasons of the others.
func (c *contract) sees(t testing.TB, a ask, kept, reasons string) {
	t.Helper()
	f := c.check(t, a)
	if f.kept() != kept || f.reasons() != reasons || len(f.Degraded) > 0 {
		t.Errorf("feed %.300s\nkeeps %q, drops %q, degraded %v\nwant  %q, drops %q", jsonOf(t, a), f.kept(), f.reasons(), f.Degraded, kept, reasons)
	}
}

// by returns a post of an author, with further actors.
func by(id, author string, actors ...string) post {
	p := post{ID: id, Author: author}
	for _, a := range actors {
		p.Actors = append(p.Actors, a)
	}
	return p
}

// act returns a line of a batch.
func act(user, kind, target, op string) map[string]string {
	return map[string]string{"user": user, "kind": kind, "target": target, "op": op}
}

// batch returns the body of a batch.
func batch(t testing.TB, lines ...map[string]string) string {
	t.Helper()
	return jsonOf(t, map[string]any{"activities": lines})
}

// counts returns how many activities of each kind the service reports for a user.
func (c *contract) counts(t testing.TB, user string) map[string]int {
	t.Helper()
	var a struct{ Counts map[string]int }
	c.read(t, http.MethodGet, path("users", user), "", &a)
	return a.Counts
}

// listed is one page of a list.
type listed struct {
	Items []struct{ Target, Since, Until string }
	Next  string
}

// list reads a whole list page by page, newest first.
func (c *contract) list(t testing.TB, user, plural string, limit int) (targets []string) {
	t.Helper()
	for cursor := ""; ; {
		var l listed
		c.read(t, http.MethodGet, path("users", user, plural)+fmt.Sprintf("?limit=%d&cursor=%s", limit, url.QueryEscape(cursor)), "", &l)
		if len(l.Items) > limit || l.Next != "" && len(l.Items) < limit {
			t.Fatalf("a page of %d items, limit %d, next %q", len(l.Items), limit, l.Next)
		}
		for _, i := range l.Items {
			targets = append(targets, i.Target)
		}
		if cursor = l.Next; cursor == "" {
			return targets
		}
	}
}
