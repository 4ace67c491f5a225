package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/examples/dualwrite"
	"github.com/feedfilter/feedfilter/internal/doctest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	movedMembers = 100_000
	movedUsers   = 4_000
	movedWriters = 3
)

// The test runs the guide's commands, in their order, while an app writes and reads as its settings
// say. They move 100,000 members of sets. At no moment does a feed show a blocked user.
func TestLongMigrationGuide(t *testing.T) {
	t.Parallel()
	old, pages, pg := redistest.Start(t), redistest.Start(t), pgtest.Start(t)
	addr := servertest.Addr(servertest.ReservePort(t))
	members := fillSets(t, old.Client())
	fillTable(t, pg)
	app := startApp(t, old.Client(), "http://"+addr, members)
	doctest.Run(t, "../docs/MIGRATION.md", doctest.Config{
		Replace: map[string]string{
			"redis://127.0.0.1:6379/0":                      old.URL(),
			"redis://127.0.0.1:6380/0":                      pages.URL(),
			"postgres://postgres@127.0.0.1:5432/feedfilter": "'" + pg.Schema() + "'",
			"postgres://postgres@127.0.0.1:5432/app":        "'" + pg.URL() + "'",
			"127.0.0.1:8080":                                addr,
		},
		Path:    []string{commandsOf(t, old.URL())},
		Env:     []string{"FEEDFILTER_PAGES=256"}, // as many as suit the data
		AtEnd:   app.stop,
		Timeout: 5 * time.Minute,
	})
	if app.blocks == 0 || app.checks["sets"] == 0 || app.checks["shadow"] == 0 || app.checks["feedfilter"] == 0 {
		t.Errorf("the app has made %d blocks and looked at %v feeds: nothing was tried", app.blocks, app.checks)
	}
	t.Logf("%d blocks and unblocks, feeds looked at by where they were read: %v", app.blocks, app.checks)
}

// fillSets makes sets of sizes that follow Zipf's law, and returns who has whom.
func fillSets(t *testing.T, client *redis.Client) map[string][]string {
	t.Helper()
	weights, sum := make([]float64, movedUsers), 0.0
	for u := range weights {
		weights[u] = 1 / math.Pow(float64(u+1), 0.9)
		sum += weights[u]
	}
	all, left := make(map[string][]string), movedMembers
	for u := range weights {
		n := max(1, int(weights[u]/sum*movedMembers))
		if n = min(n, left-(movedUsers-1-u)); u == movedUsers-1 {
			n = left
		}
		left -= n
		for i := range n {
			user := "u" + strconv.Itoa(u)
			all[user] = append(all[user], fmt.Sprint("m", u, "-", i))
		}
	}
	pipe := client.Pipeline()
	for user, members := range all {
		pipe.SAdd(t.Context(), "blocks:"+user, members)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	return all
}

// fillTable makes a table of 1,000 hides, and one of posts seen within 40 days.
func fillTable(t *testing.T, pg *pgtest.Server) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), `create table hides as select 'u' || n % 90 as user_id, 'p "' || n || '", é' as post_id,
		timestamptz '2026-01-01' + n * interval '1 minute' as hidden_at from generate_series(1, 1000) n;
		create table views as select 'u' || n % 90 as user_id, 's' || n as post_id, now() - n * interval '1 hour' as seen_at
		from generate_series(1, 960) n`)
	if err != nil {
		t.Fatal(err)
	}
}

// commandsOf returns a directory with feedfilter and with set-flag, which leaves a setting of the
// app in a Redis and waits until the app has it.
func commandsOf(t *testing.T, url string) string {
	t.Helper()
	dir := builtCommands(t)
	script := "#!/bin/sh -e\nredis-cli -u " + url + " set flag:$1 $2 >flag.log\n" +
		"until [ \"$(redis-cli -u " + url + " get has:$1)\" = $2 ]; do sleep 0.02; done\n"
	if err := os.WriteFile(filepath.Join(dir, "set-flag"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// movingApp is an app that blocks, unblocks and reads feeds all the time, where its settings say.
type movingApp struct {
	t      *testing.T
	client *redis.Client
	ended  context.Context
	stop   func()

	settings sync.RWMutex // a reader holds it while it acts on them
	writes   string       // sets, both, feedfilter, none
	reads    dualwrite.Reads
	both     *dualwrite.Blocks

	mu     sync.Mutex
	blocks int
	checks map[dualwrite.Reads]int
}

func startApp(t *testing.T, client *redis.Client, url string, members map[string][]string) *movingApp {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: movedWriters}
	ctx, cancel := context.WithCancel(t.Context())
	a := &movingApp{
		t: t, client: client, ended: ctx, writes: "sets", reads: dualwrite.FromSets, checks: make(map[dualwrite.Reads]int),
		both: &dualwrite.Blocks{Sets: client, Keys: "blocks:", URL: url, Client: &http.Client{Transport: transport}},
	}
	var running sync.WaitGroup
	running.Go(a.followSettings)
	for w := range movedWriters {
		mine := make(map[string]map[string]bool)
		for user, targets := range members {
			if n, _ := strconv.Atoi(user[1:]); n%movedWriters == w {
				mine[user] = make(map[string]bool)
				for _, target := range targets {
					mine[user][target] = true
				}
			}
		}
		running.Go(func() { a.live(uint64(w), mine) })
	}
	a.stop = func() {
		cancel()
		running.Wait()
		transport.CloseIdleConnections()
	}
	t.Cleanup(a.stop)
	return a
}

// followSettings takes settings over as soon as nobody acts on the former ones.
func (a *movingApp) followSettings() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for a.ended.Err() == nil {
		for _, name := range []string{"writes", "reads", "keys"} {
			value, err := a.client.Get(a.ended, "flag:"+name).Result()
			if err != nil { // not set yet, or at the end
				continue
			}
			a.settings.Lock()
			switch name {
			case "writes":
				a.writes = value
			case "reads":
				a.reads = dualwrite.Reads(value)
			default:
				a.both.Keys = value
			}
			a.settings.Unlock()
			if name == "reads" && a.looked(dualwrite.Reads(value)) == 0 { // a step of the guide that tries nothing proves nothing
				continue
			}
			a.client.Set(a.ended, "has:"+name, value, 0)
		}
		<-tick.C
	}
}

// looked is how many feeds were looked at that were read there.
func (a *movingApp) looked(reads dualwrite.Reads) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checks[reads]
}

// live is what some users do: blocked is whom they have blocked, acknowledged where the settings
// say.
func (a *movingApp) live(seed uint64, blocked map[string]map[string]bool) {
	random := rand.New(rand.NewPCG(7, seed))
	users := slices.Sorted(maps.Keys(blocked))
	tick := time.NewTicker(20 * time.Millisecond) // the service has more to do than this
	defer tick.Stop()
	for n := 0; a.ended.Err() == nil; n++ {
		<-tick.C
		// Half of them are users of whom nothing is special, half those with the most.
		user := users[random.IntN(len(users))]
		if n%2 == 0 {
			user = users[random.IntN(20)]
		}
		if err := a.act(user, blocked[user], fmt.Sprint("new", random.IntN(30)), random); err != nil && a.ended.Err() == nil {
			a.t.Errorf("user %s: %v", user, err)
			return
		}
	}
}

// act blocks somebody new, or unblocks anybody, and has a feed read.
func (a *movingApp) act(user string, blocked map[string]bool, target string, random *rand.Rand) error {
	a.settings.RLock()
	defer a.settings.RUnlock()
	block := !blocked[target]
	if random.IntN(4) == 0 {
		for target = range blocked {
			break
		}
		block = len(blocked) == 0
	}
	if a.writes != "none" {
		if err := a.write(user, target, block); err != nil {
			return err
		}
		delete(blocked, target)
		if block {
			blocked[target] = true
		}
		a.mu.Lock()
		a.blocks++
		a.mu.Unlock()
	}
	authors := []string{"somebody-else"}
	for target := range blocked {
		if authors = append(authors, target); len(authors) > 20 {
			break
		}
	}
	hidden, err := a.both.Hidden(a.ended, a.reads, user, authors, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	for _, author := range authors[1:] {
		if !slices.Contains(hidden, author) {
			return fmt.Errorf("a feed read from %s shows %s, whom they have blocked", a.reads, author)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks[a.reads]++
	return nil
}

// write writes where the settings say.
func (a *movingApp) write(user, target string, block bool) error {
	switch {
	case a.writes == "sets" && block:
		return a.client.SAdd(a.ended, "blocks:"+user, target).Err()
	case a.writes == "sets":
		return a.client.SRem(a.ended, "blocks:"+user, target).Err()
	case a.writes == "both" && block:
		return a.both.Block(a.ended, user, target)
	case a.writes == "both":
		return a.both.Unblock(a.ended, user, target)
	}
	method := http.MethodDelete
	if block {
		method = http.MethodPut
	}
	req, err := http.NewRequestWithContext(a.ended, method, a.both.URL+"/v1/users/"+user+"/blocks/"+target, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := a.both.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
