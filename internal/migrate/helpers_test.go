package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/migrate"
)

// world is a service and what a test needs to record in it.
type world struct {
	recorder *activity.Recorder
	client   *client.Client
	url      string
}

// newWorld starts a service with the built-in kinds; block has a limit unless that is 0.
func newWorld(t *testing.T, limit uint32) *world {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	all := activity.BuiltinKinds().All()
	all = slices.Clone(all)
	for i := range all {
		if all[i].Name == "block" {
			all[i].Limit = limit
		}
	}
	all = append(all, activity.Kind{Name: "shun", Plural: "shuns", Target: "domain", Effect: activity.Drop},
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText, Limit: limit})
	kinds, err := activity.NewKinds(all...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}, Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	server := httptest.NewServer(httpapi.New(httpapi.Config{Activities: r}))
	t.Cleanup(server.Close)
	return &world{r, newClient(t, server.URL, server.Client().Transport), server.URL}
}

// newClient returns a client with the transport.
func newClient(t *testing.T, url string, way http.RoundTripper) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{
		JSON:        true, // transports of tests read and change JSON
		MaxAttempts: 1, Token: client.StaticToken("secret"), HTTPClient: &http.Client{Transport: way},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) service(t *testing.T, kind string) *migrate.Service {
	t.Helper()
	k, err := migrate.FindKind(t.Context(), w.client, kind)
	if err != nil {
		t.Fatal(err)
	}
	return &migrate.Service{Kind: k, Client: w.client}
}

// record records "1 block 2", "-1 block 2" to undo it. Phrases have _ in place of spaces.
func (w *world) record(t *testing.T, lines ...string) {
	t.Helper()
	var all []activity.Activity
	for _, line := range lines {
		line, undo := strings.CutPrefix(line, "-")
		f := strings.Fields(line)
		all = append(all, activity.Activity{User: f[0], Kind: f[1], Target: strings.ReplaceAll(f[2], "_", " "), Remove: undo})
	}
	if _, err := w.recorder.Record(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// recorded returns the activities in the ledger, such as "1 block 2", followed by " ends" if there
// is an end.
func (w *world) recorded(t *testing.T) []string {
	t.Helper()
	var all []string
	err := w.recorder.Export(t.Context(), "", func(a activity.Activity) error {
		line := fmt.Sprintf("%s %s %s", a.User, a.Kind, a.Target)
		if !a.Until.IsZero() {
			line += " ends"
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func pattern(t *testing.T, text string) (p migrate.Pattern) {
	t.Helper()
	if err := p.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p
}

// sets returns the source of the sets "blocks:{user}".
func sets(t *testing.T, from redis.UniversalClient) *migrate.Sets {
	t.Helper()
	return &migrate.Sets{Client: from, Keys: pattern(t, "blocks:{user}"), Scores: migrate.NoScores}
}

// importAll imports from a source, and fails the test on an error.
func (w *world) importAll(t *testing.T, kind string, source *migrate.Sets) migrate.Imported {
	t.Helper()
	sum, err := w.newImport(t, kind, source).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func (w *world) newImport(t *testing.T, kind string, source *migrate.Sets) *migrate.Import {
	t.Helper()
	return &migrate.Import{
		Sets: source, Service: w.service(t, kind),
		Bad: func(error) {}, Done: func(int) {},
	}
}

// compare compares, and returns "missing 1 2" for each difference.
func (w *world) compare(t *testing.T, kind string, source *migrate.Sets) (migrate.Compared, []string) {
	t.Helper()
	return run(t, w.comparison(t, kind, source))
}

func (w *world) comparison(t *testing.T, kind string, source *migrate.Sets) *migrate.Comparison {
	t.Helper()
	return &migrate.Comparison{Sets: source, Service: w.service(t, kind), Done: func(int) {}}
}

// run runs a comparison, and returns "missing 1 2" for each difference.
func run(t *testing.T, c *migrate.Comparison) (sum migrate.Compared, found []string) {
	t.Helper()
	sum, all, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		what := "missing "
		if d.Remove {
			what = "extra "
		}
		found = append(found, what+d.User+" "+d.Target)
	}
	return sum, found
}

func sadd(t *testing.T, to redis.UniversalClient, user string, members ...any) {
	t.Helper()
	if err := to.SAdd(t.Context(), "blocks:"+user, members...).Err(); err != nil {
		t.Fatal(err)
	}
}

// phraseSets returns the source of the sets "words:{user}". It calls a function before each SSCAN.
func phraseSets(t *testing.T, app *redis.Client, before func(call int)) *migrate.Sets {
	t.Helper()
	client := redis.NewClient(app.Options())
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(&scans{before: before})
	return &migrate.Sets{Client: client, Keys: pattern(t, "words:{user}"), Scores: migrate.NoScores, Phrases: true}
}

// scans is a hook of SSCAN.
type scans struct {
	hook

	calls  int
	before func(call int)
}

func (s *scans) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "sscan" {
			s.calls++
			s.before(s.calls)
		}
		return next(ctx, command)
	}
}

func (*scans) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// wantLines compares lists of lines.
func wantLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// hooked returns sets that call a function before each Has.
func hooked(t *testing.T, app *redis.Client, before func(call int)) *migrate.Sets {
	t.Helper()
	client := redis.NewClient(app.Options())
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(&hook{before: before})
	return sets(t, client)
}

// hook is a hook of pipelines, which only Has uses.
type hook struct {
	mu     sync.Mutex
	calls  int
	before func(call int)
}

func (*hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() != "sismember" { // go-redis sets connections up with pipelines
			return next(ctx, commands)
		}
		h.mu.Lock()
		h.calls++
		call := h.calls
		h.mu.Unlock()
		h.before(call)
		return next(ctx, commands)
	}
}

// flaky makes some requests fail, before or after the service has processed them.
type flaky struct {
	next http.RoundTripper
	fail func() (before, after bool)
}

var errFlaky = errors.New("the network is bad")

func (f flaky) RoundTrip(req *http.Request) (*http.Response, error) {
	before, after := f.fail()
	if before {
		return nil, errFlaky
	}
	resp, err := f.next.RoundTrip(req)
	if err == nil && after {
		_ = resp.Body.Close()
		return nil, errFlaky
	}
	return resp, err
}
