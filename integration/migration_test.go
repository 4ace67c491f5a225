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
	movedMembers = 30_000
	movedUsers   = 1_200
	movedWriters = 3
)

// TestLongMigrationGuide runs the commands of the guide in order, while an app writes and reads as
// its settings say. The guide moves 30,000 members of sets. No feed may ever show a blocked user.
func TestLongMigrationGuide(t *testing.T) {
	t.Parallel()
	old, pages, pg := redistest.Start(t), redistest.Start(t), pgtest.Start(t, "wal_level=logical")
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
		Env:     []string{"FEEDFILTER_PAGES=256"}, // suits the amount of data
		AtEnd:   app.stop,
		Timeout: 5 * time.Minute,
	})
	if app.blocks == 0 || app.checks["sets"] == 0 || app.checks["shadow"] == 0 || app.checks["feedfilter"] == 0 {
		t.Errorf("the app made %d blocks and checked %v feeds: too few", app.blocks, app.checks)
	}
	t.Logf("%d blocks and unblocks, feeds checked by source: %v", app.blocks, app.checks)
}

// fillSets makes sets whose sizes follow Zipf's law, and returns the members of each user's set.
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

// fillTable makes a table with 1,000 hides, and one with posts seen in the last 40 days.
func fillTable(t *testing.T, pg *pgtest.Server) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.URL())
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), `create table hides as select 'u' || n % 90 as user_id, 'p "' || n || '", é' as post_id,
		timestamptz '2026-01-01' + n * interval '1 minute' as hidden_at from generate_series(1, 1000) n;
		create table views as select 'u' || n % 90 as user_id, 's' || n as post_id, now() - n * interval '1 hour' as seen_at
		from generate_series(1, 960) n`)
	must(t, err)
}

// commandsOf returns a directory with feedfilter and with set-flag. set-flag writes a setting of
// the app to Redis, and waits until the app has read it.
func commandsOf(t *testing.T, url string) string {
	t.Helper()
	dir := builtCommands(t)
	script := "#!/bin/sh -e\nredis-cli -u " + url + " set flag:$1 $2 >flag.log\n" +
		"until [ \"$(redis-cli -u " + url + " get has:$1)\" = $2 ]; do sleep 0.02; done\n"
	must(t, os.WriteFile(filepath.Join(dir, "set-flag"), []byte(script), 0o700))
	return dir
}

// movingApp is an app that constantly blocks, unblocks and reads feeds, as its settings say.
type movingApp struct {
	t      *testing.T
	client *redis.Client
	ended  context.Context
	stop   func()

	settings sync.RWMutex // held for reading while a step uses the settings
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

// followSettings adopts a changed setting after the steps that use the old one have ended.
func (a *movingApp) followSettings() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for a.ended.Err() == nil {
		for _, name := range []string{"writes", "reads", "keys"} {
			value, err := a.client.Get(a.ended, "flag:"+name).Result()
			if err != nil { // the setting is missing, or the test ends
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
			if name == "reads" && a.looked(dualwrite.Reads(value)) == 0 { // each step of the guide must check at least one feed
				continue
			}
			a.client.Set(a.ended, "has:"+name, value, 0)
		}
		<-tick.C
	}
}

// looked returns how many feeds were checked that were read from that source.
func (a *movingApp) looked(reads dualwrite.Reads) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checks[reads]
}

// live acts for some users until the test ends. blocked holds the users that each has blocked, as
// acknowledged.
func (a *movingApp) live(seed uint64, blocked map[string]map[string]bool) {
	random := rand.New(rand.NewPCG(7, seed))
	users := slices.Sorted(maps.Keys(blocked))
	tick := time.NewTicker(20 * time.Millisecond) // leave the processor to the service
	defer tick.Stop()
	for n := 0; a.ended.Err() == nil; n++ {
		<-tick.C
		// Every second step is by one of the first 20 users in the order of names, so their sets
		// change often.
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

// act blocks a new user or unblocks a blocked one, and checks a feed.
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

// write writes a block or its removal to where the settings say.
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
