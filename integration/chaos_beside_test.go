package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	tokenTurn    = 10 * time.Second // how long clients use a token; it is valid for one turn more on each side
	tokenRefusal = 5 * time.Second  // upper bound until a token removed a turn ago is refused
	hangupEach   = 2 * time.Second
	askEach      = 100 * time.Millisecond
)

// beside is what -chaos.beside runs while the load is on, to find races. Every instance checks
// tokens, which change, and writes an audit log, which is moved away. Every instance traces all
// requests and compares all feeds with the ledger. beside also requests metrics and the operations
// API, and makes instances reload changed settings. Its methods are safe for concurrent use.
type beside struct {
	dir  string
	turn atomic.Int64 // number of the current token
	args []string     // arguments of every instance
}

func newBeside(t *testing.T) *beside {
	t.Helper()
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	b := &beside{dir: t.TempDir()}
	b.args = []string{
		"--config", b.file("settings.json"), "--auth-file", b.file("tokens.json"), "--rate-limit", "1000000", "--user-rate-limit", "1000000",
		"--sample-rate", "1", "--trace-endpoint", collector.URL, "--trace-sample", "1", "--id-key-file", b.file("id.key"),
	}
	for _, err := range []error{b.writeTokens(), b.writeSettings(0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *beside) file(name string) string { return filepath.Join(b.dir, name) }

func (b *beside) auditLog(instance int) string { return b.file(fmt.Sprintf("audit-%d.log", instance)) }

func tokenOf(turn int64) string { return fmt.Sprint("ff_chaos_", turn) }

// token returns the current token.
func (b *beside) token() string { return tokenOf(b.turn.Load()) }

// writeTokens writes the tokens of this turn, the turn before and the next turn to the file.
func (b *beside) writeTokens() error {
	now := b.turn.Load()
	var tokens []map[string]any
	for turn := now - 1; turn <= now+1; turn++ {
		digest := sha256.Sum256([]byte(tokenOf(turn)))
		tokens = append(tokens, map[string]any{
			"name": tokenOf(turn), "hash": "sha256:" + hex.EncodeToString(digest[:]), "scopes": []string{"feed:read", "activity:write", "ops:read", "ops:write"},
		})
	}
	return b.replace("tokens.json", map[string]any{"tokens": tokens})
}

func (b *beside) writeSettings(n int) error {
	return b.replace("settings.json", map[string]any{
		"log-level": []string{"info", "warn"}[n%2], "max-requests": 512 + n%3, "max-connections": 10_000 + n%3, "scrub-rate": 500 + n%3*100,
	})
}

func (b *beside) replace(name string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	next := b.file(name) + ".next"
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, b.file(name)))
}

// run works until ctx ends, and returns after the last answer.
func (b *beside) run(ctx context.Context, w *world) {
	var all sync.WaitGroup
	all.Go(func() { b.each(ctx, w, tokenTurn, func(int) error { return b.nextTurn(ctx, w) }) })
	all.Go(func() {
		b.each(ctx, w, hangupEach, func(n int) error { return b.hangUp(w.instances[n%len(w.instances)], n) })
	})
	for _, i := range w.instances {
		rng := rand.New(rand.NewPCG(w.seed, 300+uint64(i.index)))
		all.Go(func() {
			b.each(ctx, w, askEach, func(int) error {
				b.ask(context.WithoutCancel(ctx), w.tally, i.target, rng)
				return nil
			})
		})
	}
	all.Wait()
}

func (b *beside) each(ctx context.Context, w *world, every time.Duration, do func(n int) error) {
	for n := 1; wait(ctx, every) == nil; n++ {
		if err := do(n); err != nil {
			w.tally.violatedf("harness", "beside the load: %v", err)
		}
	}
}

// nextTurn makes the next token the current one. Before that, it checks that every instance refuses
// the token that was removed a turn ago.
func (b *beside) nextTurn(ctx context.Context, w *world) error {
	out := b.turn.Load() - 2
	for _, i := range w.instances {
		asked := time.Now()
		for out >= 0 {
			r := i.sendAs(ctx, tokenOf(out), http.MethodGet, "/v1/kinds", nil)
			if r.err != nil || r.status == http.StatusUnauthorized {
				w.tally.count("old tokens refused", 1)
				break
			}
			if time.Since(asked) > tokenRefusal {
				w.tally.violatedf("access", "instance %d answers %d to a token that was taken out %v ago", i.index, r.status, tokenTurn+tokenRefusal)
				break
			}
			if wait(ctx, askEach) != nil {
				return nil //nolint:nilerr // the load has ended
			}
		}
	}
	b.turn.Add(1)
	return b.writeTokens()
}

// hangUp moves the audit log away, changes the settings, and makes the instance reload them if it
// runs.
func (b *beside) hangUp(i *instance, n int) error {
	if err := b.writeSettings(n); err != nil {
		return err
	}
	name := b.auditLog(i.index)
	if err := os.Rename(name, name+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return i.hangUp()
}

// hangUp sends SIGHUP, if the instance runs.
func (i *instance) hangUp() error {
	i.lifeMu.Lock() // a killed instance has pid 0
	defer i.lifeMu.Unlock()
	if i.pid == 0 {
		return nil
	}
	return syscall.Kill(i.pid, syscall.SIGHUP)
}

// ask makes a random call that the load does not make.
func (b *beside) ask(ctx context.Context, y *tally, g *target, rng *rand.Rand) {
	if g.up() != nil {
		return
	}
	const user = "probe0"
	calls := []struct {
		method, path string
		body         any
	}{
		{"GET", "/metrics", nil},
		{"GET", "/v1/stats", nil},
		{"GET", "/openapi.json", nil},
		{"GET", "/ops", nil},
		{"GET", "/v1/pages", nil},
		{"GET", "/v1/ops/health", nil},
		{"GET", "/v1/ops/history?window=15m", nil},
		{"GET", "/v1/ops/pages/0", nil},
		{"GET", "/v1/ops/scrub", nil},
		{"POST", "/v1/ops/scrub", nil},
		{"POST", "/v1/ops/pages/0/rebuild", nil},
		{"GET", "/v1/ops/users/" + user, nil},
		{"GET", "/v1/ops/users/" + user + "/keys/like/p1", nil},
		{"GET", "/v1/users/" + user + "/export", nil},
		{"POST", "/v1/feed/explain", map[string]any{"viewer": user, "post": map[string]string{"id": "p1", "author": "a"}}},
		{"POST", "/v1/feed/filter", map[string]any{
			"viewer": user, "posts": []post{{ID: fmt.Sprint("p", rng.IntN(1000)), Author: "a"}}, "record_seen": true, "exact": rng.IntN(2) == 0,
		}},
	}
	c := calls[rng.IntN(len(calls))]
	r := g.send(ctx, c.method, c.path, c.body)
	switch {
	case r.err != nil && g.mayBreak(r.sent, r.done):
		y.count("asked beside, cut", 1)
	case r.err != nil:
		y.violatedf("beside", "%s %s at instance %d: %v", c.method, c.path, g.index, r.err)
	case r.status == http.StatusOK, r.status == http.StatusAccepted:
		y.count("asked beside", 1)
	case r.status == http.StatusServiceUnavailable, r.status == http.StatusNotFound, r.status == http.StatusConflict: // store or page missing
		y.count("asked beside, unavailable", 1)
	default:
		y.violatedf("beside", "%s %s at instance %d: %d %s", c.method, c.path, g.index, r.status, r.body)
	}
}

// TestRacesAreFound expects the report of the race detector in races, and no other line of the log.
func TestRacesAreFound(t *testing.T) {
	const sound = `{"msg":"listening"}` + "\n"
	const race = "==================\nWARNING: DATA RACE\nRead at 0x1 by goroutine 7:\n  main.main()\n"
	for text, want := range map[string]string{sound: "", sound + race: strings.TrimPrefix(race, "==================\n")} {
		i := &instance{target: newTarget(0, "", nil), races: &tailLog{max: 1000}}
		listening := make(chan bool, 1)
		i.follow(strings.NewReader(text), listening)
		if got := i.races.String(); got != want || !<-listening {
			t.Errorf("log %q: races %q, want %q", text, got, want)
		}
	}
}
