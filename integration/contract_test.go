package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// contractKinds adds a kind with a limit, and one for fan-outs.
const contractKinds = `{"kinds":[
	{"name":"mute", "target":"user", "effect":"drop", "limit":2},
	{"name":"tag-mute", "target":"tag", "effect":"drop", "fanout":true}
]}`

// deployment names the servers that a service runs on: none, or Redis and PostgreSQL.
type deployment struct {
	redis    *cache         // nil: embedded
	postgres *pgtest.Server // nil: embedded
}

// TestContract makes every call of the API on both deployments. Package httpapi tests the calls.
func TestContract(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		deployment{}.serve(t).calls(t)
	})
	t.Run("Redis and PostgreSQL", func(t *testing.T) {
		t.Parallel()
		c := deployment{redis: startRedis(t), postgres: pgtest.Start(t)}.serve(t)
		c.calls(t)
		c.outage(t)
	})
}

// contract is a service whose API a test calls.
type contract struct {
	*service
	deployment
}

// serve starts a service with one page.
func (d deployment) serve(t *testing.T) *contract {
	t.Helper()
	kinds := filepath.Join(t.TempDir(), "kinds.json")
	must(t, os.WriteFile(kinds, []byte(contractKinds), 0o600))
	args := []string{"--data-dir", t.TempDir(), "--kinds", kinds, "--pages", "1", "--false-positive-rate", "1e-6", "--staleness-bound", "300ms"}
	if d.redis != nil {
		args = append(args, "--redis", d.redis.URL(), "--ledger", d.postgres.Schema())
	}
	c := &contract{serve(t, args...), d}
	c.logOnFailure()
	return c
}

// times matches what answers have of the present time.
var times = regexp.MustCompile(`"2[^"]*T[^"]*Z"`)

// wants sends a request, and checks the status and the answer, in which each time is "T". A line of
// want that ends in "..." is only the start of the answer.
func (c *contract) wants(t *testing.T, method, path, body string, status int, want string) {
	t.Helper()
	code, got, err := c.ask(t.Context(), method, path, body)
	got = times.ReplaceAllString(got, `"T"`)
	start, cut := strings.CutSuffix(want, "...")
	if err != nil || code != status || got != want && !(cut && strings.HasPrefix(got, start)) {
		t.Errorf("%s %s %.200s: %d %.600s, %v; want %d %s", method, path, body, code, got, err, status, want)
	}
}

// calls makes every call once. The ids have every byte that paths, Redis or SQL might mishandle.
func (c *contract) calls(t *testing.T) {
	t.Helper()
	const changed, unchanged = `{"changed":true}`, `{"changed":false}`
	const user, id = "/v1/users/a%2F1%25_%F0%9F%98%80", `a/1%_😀`
	const blocked = `{"id":"b","author":"b"}`
	c.wants(t, "PUT", user+"/blocks/b", "", 200, changed)
	c.wants(t, "PUT", user+"/blocks/b", "", 200, unchanged)
	c.wants(t, "PUT", user+"/hides/p%2F%5C%27%22%7B%7D%2A", "", 200, changed)
	c.wants(t, "PUT", user+"/mutes/m?until=2100-01-01T00:00:00Z", "", 200, changed)
	c.wants(t, "PUT", user+"/mutes/n", "", 200, changed)
	c.wants(t, "PUT", user+"/mutes/o", "", 409, `{"error":{"code":"limit_reached","message":"limit of 2 mutes reached","limit":2}}`)
	c.wants(t, "DELETE", user+"/mutes/n", "", 200, changed)
	c.wants(t, "POST", user+"/seen", `{"posts":["s"]}`, 200, `{"recorded":1}`)
	c.wants(t, "POST", "/v1/activities", `{"activities":[{"user":"`+id+`","kind":"like","target":"l","op":"add"},{"user":"t","kind":"tag-mute","target":"go","op":"add"}]}`,
		200, `{"results":[{"changed":true},{"changed":true}]}`)
	c.wants(t, "POST", user+"/preview", `{"kind":"mute","targets":["m","x","y"]}`, 200, `{"new":2,"present":1,"total":3,"limit":2,"over":true}`)
	c.wants(t, "GET", user, "", 200, `{"counts":{"block":1,"hide":1,"like":1,"mute":1,"tag-mute":0}}`)
	c.wants(t, "GET", user+"/mutes", "", 200, `{"items":[{"target":"m","since":"T","until":"T"}]}`)
	c.wants(t, "GET", user+"/mutes?limit=0", "", 400, `{"error":{"code":"out_of_range"...`)
	c.wants(t, "GET", "/v1/kinds", "", 200, `{"kinds":[{"name":"block","plural":"blocks"...`)

	feed := `{"viewer":"` + id + `","posts":[` + blocked + `,{"id":"p/\\'\"{}*","author":"x"},{"id":"l","author":"m"},{"id":"s","author":"x"},{"id":"l","author":"x"}],` +
		`"annotate":["like"],"record_seen":true}`
	c.wants(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[{"id":"l","like":true}],"dropped":[{"id":"b","kind":"block","actor":"b"},`+
		`{"id":"p/\\'\"{}*","kind":"hide"},{"id":"l","kind":"mute","actor":"m"},{"id":"s","kind":"seen"}],"degraded":[]}`)
	c.wants(t, "POST", "/v1/feed/filter", `{"viewer":"`+id+`","posts":[`+blocked+`,{"id":"l","author":"x"}],"exact":true,"answer":"dropped"}`,
		200, `{"dropped":[{"index":0,"kind":"block","actor":"b"},{"index":1,"kind":"seen","unconfirmed":true}],"degraded":[]}`)
	c.wants(t, "POST", "/v1/feed/filter", `{"viewer":"b","posts":[{"id":"q","author":"`+id+`"}]}`, 200, `{"posts":[],"dropped":[{"id":"q","kind":"block","actor":"`+id+`"}],"degraded":[]}`)
	c.wants(t, "POST", "/v1/feed/explain", `{"viewer":"`+id+`","post":`+blocked+`}`, 200,
		`{"dropped":true,"reasons":[{"kind":"block","effect":"drop","actor":"b","direction":"by_viewer","certainty":"certain","since":"T"}],"page":...`)
	c.wants(t, "POST", "/v1/fanout/filter", `{"author":"b","facets":{"tag":["go"]},"viewers":["x","`+id+`","t"]}`, 200,
		`{"dropped":[{"viewer":"`+id+`","kind":"block","actor":"b"},{"viewer":"t","kind":"tag-mute","target":"go"}],"degraded":[]}`)

	c.wants(t, "GET", user+"/export", "", 200, `{"user":"`+id+`","kind":"block","target":"b","op":"add","since":"T"}`+"\n...")
	c.wants(t, "DELETE", user, "", 200, `{"deleted":4}`)
	c.wants(t, "GET", user+"/export", "", 200, "")
	c.wants(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[{"id":"b","like":false},{"id":"p/\\'\"{}*","like":false},{"id":"l","like":false},{"id":"s","like":false}],"dropped":[{"id":"l","kind":"seen"}],"degraded":[]}`)
}

// outage stops first Redis, then PostgreSQL.
func (c *contract) outage(t *testing.T) {
	t.Helper()
	const feed = `{"viewer":"v","posts":[{"id":"p","author":"b"},{"id":"s","author":"x"},{"id":"k","author":"x"}]}`
	const blocked = `"dropped":[{"id":"p","kind":"block","actor":"b"}`
	const unavailable = `{"error":{"code":"unavailable"...`
	c.wants(t, "PUT", "/v1/users/v/blocks/b", "", 200, `{"changed":true}`)
	c.wants(t, "POST", "/v1/users/v/seen", `{"posts":["s"]}`, 200, `{"recorded":1}`)
	c.redis.Kill()
	c.wants(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[{"id":"s"},{"id":"k"}],`+blocked+`],"degraded":[{"kind":"seen"...`)
	c.wants(t, "PUT", "/v1/users/v/hides/k", "", 200, `{"changed":true}`)
	c.wants(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[{"id":"s"}],`+blocked+`,{"id":"k","kind":"hide"}],"degraded":[{"kind":"seen"...`)
	c.wants(t, "POST", "/v1/users/v/seen", `{"posts":["k"]}`, 503, unavailable)
	c.redis.Restart()
	c.await(t, "nothing is degraded, and the page is back", func(ctx context.Context) error {
		_, body, err := c.ask(ctx, http.MethodPost, "/v1/feed/filter", feed)
		if keys, _ := c.redis.Client().Keys(ctx, "fav:{feed/0}:bits").Result(); err != nil || !strings.HasSuffix(body, `"degraded":[]}`) || len(keys) == 0 {
			return fmt.Errorf("%s, pages %v, %w", body, keys, err)
		}
		return nil
	})
	c.postgres.Kill()
	c.wants(t, "PUT", "/v1/users/v/hides/q", "", 503, unavailable)
	c.wants(t, "GET", "/v1/users/v/blocks", "", 503, unavailable)
	c.wants(t, "GET", "/v1/users/v/export", "", 503, unavailable)
	c.wants(t, "DELETE", "/v1/users/v", "", 503, unavailable)
	c.wants(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[{"id":"s"}],`+blocked+`,{"id":"k","kind":"hide"}],"degraded":[]}`)
	c.wants(t, "POST", "/v1/users/v/seen", `{"posts":["s"]}`, 200, `{"recorded":1}`)
	c.postgres.Restart()
	c.await(t, "writes are taken", func(ctx context.Context) error {
		if code, body, err := c.ask(ctx, http.MethodPut, "/v1/users/v/hides/q", ""); err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %s, %w", code, body, err)
		}
		return nil
	})
}

// ask sends a request with JSON, and returns the status and the body of its answer.
func (c *contract) ask(ctx context.Context, method, path, body string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body == "" {
		req.Body = http.NoBody
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// await calls done until it returns nil.
func (*contract) await(t *testing.T, what string, done func(ctx context.Context) error) {
	t.Helper()
	if err := servertest.Await(t.Context(), what, done); err != nil {
		t.Error(err)
	}
}
