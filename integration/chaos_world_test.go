package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/feedfilter/feedfilter/internal/awstest"
	"github.com/feedfilter/feedfilter/internal/elasticachetest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// topology names the processes that the service runs on.
type topology int

const (
	embedded      topology = iota // one instance with its own ledger and pages
	oneRedis                      // three instances, Redis, Postgres
	redisCluster                  // three instances, a cluster of six, Postgres
	secureCluster                 // the same with TLS and a password
)

const (
	chaosPages = 32
	// maxChaosPages is the upper bound to which faults raise the number of pages.
	maxChaosPages = 64 * chaosPages
	chaosUsers    = 48
	fleetSize     = 3
	// pooledInstance is the index of the instance that reaches PostgreSQL through a PgBouncer.
	pooledInstance = 2
)

// world is a service and all that it runs on, under load and faults. Only the test's goroutine may
// call its methods.
type world struct {
	t         *testing.T
	topology  topology
	rng       *rand.Rand
	seed      uint64
	instances []*instance
	load      *chaosLoad
	tally     *tally
	pages     int    // the last requested number of pages
	victim    int    // index of the instance that the present fault disturbs, if only one
	kinds     string // directory of the instances' files of kinds

	postgres  *pgtest.Server
	schema    string             // URL of the ledger; "": it is embedded
	redis     *cache             // nil unless oneRedis
	cluster   *redistest.Cluster // nil unless there is a cluster
	proxies   []*proxytest.Proxy // oneRedis: by instance; redisCluster: by node
	ledgers   []*proxytest.Proxy // before PostgreSQL, by instance
	snapshots []redisSnapshot
}

// redisSnapshot is a copy of the data of one Redis server.
type redisSnapshot struct {
	server *redistest.Server
	path   string
	taken  time.Time
}

// newWorld starts all processes. They end with the test.
func newWorld(t *testing.T, on topology, seed uint64) *world {
	t.Helper()
	w := &world{t: t, topology: on, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), pages: chaosPages}
	w.kinds = t.TempDir()
	// Some users have more than 32 keys at times, so they get dedicated pages while the load is on.
	args := []string{"--pages", fmt.Sprint(chaosPages), "--dedicated-page", "32"}
	addresses := make([]string, fleetSize) // URL of Redis, by instance
	ledgers := make([]string, fleetSize)   // URL of the ledger, by instance
	switch on {
	case embedded:
		args = append(args, "--data-dir", t.TempDir())
		addresses = addresses[:1]
	case oneRedis:
		w.startOneRedis(addresses)
	case redisCluster:
		w.cluster = startCluster(t, asFlagged(t), 3, w.network, userArgs()...)
		for i := range addresses {
			addresses[i] = clusterURL(asFlagged(t), w.cluster)
			if asFlagged(t) == plainRedis {
				addresses[i] = strings.Replace(addresses[i], "://", "://"+userOf(i)+":any@", 1)
			}
		}
	case secureCluster:
		w.startSecureCluster(addresses)
		args = append(args, "--data-dir", t.TempDir()) // keeps the answers of AWS
	}
	if on != embedded {
		ledgers = w.startPostgres()
	}
	w.startInstances(args, addresses, ledgers)
	w.tally = newTally(grants(on, w.ownProxies()))
	w.load = &chaosLoad{
		model: newChaosModel(chaosUsers, seed), tally: w.tally, seed: seed,
		pace: rate.NewLimiter(rate.Inf, 1), writers: loadWriters, excuses: newExcuses(),
	}
	if on == redisCluster {
		w.load.writers = waitingWriters
	}
	if *chaosFeeds > 0 {
		w.load.pace.SetLimit(rate.Limit(*chaosFeeds))
	}
	for n, i := range w.instances {
		w.load.targets = append(w.load.targets, i.target)
		i.readsReplicas = strings.Contains(addresses[n], "reader=true")
	}
	mute := w.load.targets[0].send(t.Context(), http.MethodPut, "/v1/users/"+mutedForever+"/domain-mutes/d", nil)
	must(t, mute.ok(new(any)))
	must(t, w.warm(t.Context()))
	return w
}

// startSecureCluster starts a cluster that requires a password. The first instance gets the
// cluster's URL. The others ask AWS for the address and for the password of a user. That user has
// the rights that the Terraform module grants. The last instance reads replicas.
func (w *world) startSecureCluster(addresses []string) {
	w.t.Helper()
	const password = "of the cluster"
	user := append([]string{"--user", "feed-user", ">" + password}, accessString(w.t)...)
	w.cluster = redistest.StartClusterVia(w.t, 3, 1, w.network, slices.Concat(authority.Args(), redistest.PasswordArgs(password), user)...)
	aws := awstest.Start(w.t)
	aws.PutGroup("feed", awstest.Group{Cluster: true, TLS: true, Token: true, Addr: w.cluster.Addrs()[0]})
	aws.PutSecret("user", `{"username":"feed-user","password":"`+password+`"}`)
	aws.Use(w.t)
	addresses[0] = w.cluster.URL()
	for i := 1; i < len(addresses); i++ {
		addresses[i] = "elasticache://feed?secret=user"
	}
	addresses[len(addresses)-1] += "&reader=true"
}

// startOneRedis starts a Redis with one proxy for each instance. A serverless cache names its
// endpoints to clients, so it has one proxy for each endpoint.
func (w *world) startOneRedis(addresses []string) {
	w.t.Helper()
	if kind := asFlagged(w.t); kind == elasticachetest.Serverless {
		w.redis = startCache(w.t, kind, w.network)
		for i := range addresses {
			addresses[i] = w.redis.URL()
		}
		return
	}
	w.redis = startRedis(w.t)
	for i := range addresses {
		addresses[i] = "redis://" + w.network(w.redis.Addr()) + "/0"
	}
}

// startPostgres starts PostgreSQL with one proxy for each instance. One of them leads to a
// PgBouncer. It returns the URL of the ledger for each instance.
func (w *world) startPostgres() (urls []string) {
	w.t.Helper()
	w.postgres = pgtest.Start(w.t)
	w.schema = w.postgres.Schema()
	for n := range fleetSize {
		text := w.schema
		if n == pooledInstance {
			text = w.postgres.StartBouncer("session", "server_login_retry=1").URL(w.schema)
		}
		u, err := url.Parse(text)
		must(w.t, err)
		w.ledgers = append(w.ledgers, proxytest.Start(w.t, u.Host))
		u.Host = w.ledgers[n].Addr()
		urls = append(urls, u.String())
	}
	return urls
}

// ownProxies reports whether each instance has a proxy of its own before Redis.
func (w *world) ownProxies() bool {
	return w.topology == oneRedis && asFlagged(w.t) != elasticachetest.Serverless
}

// kindsFile is the path of an instance's file of kinds.
func (w *world) kindsFile(instance int) string {
	return filepath.Join(w.kinds, fmt.Sprintf("kinds-%d.json", instance))
}

func (w *world) writeKinds(instance int, text string) error {
	return os.WriteFile(w.kindsFile(instance), []byte(text), 0o600)
}

// network starts another proxy in front of a server, and returns its address.
func (w *world) network(addr string) string {
	p := proxytest.Start(w.t, addr)
	w.proxies = append(w.proxies, p)
	return p.Addr()
}

// startInstances starts one instance for each URL of Redis.
func (w *world) startInstances(args, redis, ledgers []string) {
	w.t.Helper()
	for n, address := range redis {
		must(w.t, w.writeKinds(n, chaosKinds))
		own := slices.Concat(args, []string{"--kinds", w.kindsFile(n)})
		if address != "" {
			own = append(own, "--redis", address, "--ledger", ledgers[n])
		}
		w.instances = append(w.instances, newInstance(w.t, n, own...))
	}
}

// underLoad calls during while the load is on, and returns after the last answer. The load also
// ends if the test ends during the call.
func (w *world) underLoad(during func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.tally.start = time.Now()
	var wg sync.WaitGroup
	wg.Go(func() { w.load.run(ctx) })
	if w.schema != "" {
		wg.Go(func() { w.load.excuses.watch(ctx, w.schema) })
	}
	for _, g := range w.load.targets {
		wg.Go(func() { g.watchIdle(ctx) })
	}
	stop := func() {
		cancel()
		wg.Wait()
	}
	w.t.Cleanup(stop)
	during()
	stop()
}

// repair is the time from the end of a fault until every instance had recovered.
type repair struct {
	feeds  time.Duration // every instance answered a feed
	whole  time.Duration // and then one with nothing degraded
	writes time.Duration // and then acknowledged a write
}

// warm waits until every instance answers every user's feed from Redis, and then has all pages
// scrubbed. The next fault may take away the ledger. A page needs the ledger if Redis lost it, or
// if an instance does not use its shard again yet.
func (w *world) warm(ctx context.Context) error {
	for _, user := range w.load.model.users {
		for _, g := range w.load.targets {
			if err := untilWhole(ctx, g, func() reply {
				return g.send(ctx, http.MethodPost, "/v1/feed/filter", feedRequest{Viewer: user, Posts: []post{{ID: "p", Author: "a"}}})
			}, `"degraded":[]`); err != nil {
				return fmt.Errorf("feed of %s: %w", user, err)
			}
		}
	}
	return w.load.targets[0].scrub(ctx)
}

// scrub has the instance compare all pages with the ledger, until none is left that it could not
// read or rebuild.
func (g *target) scrub(ctx context.Context) error {
	for {
		if err := untilWhole(ctx, g, func() reply {
			return g.send(ctx, http.MethodPost, "/v1/ops/scrub", map[string]int{"rate": 100_000})
		}, ""); err != nil {
			return fmt.Errorf("begin a scrub: %w", err)
		}
		var ended struct {
			Running         bool
			Failed, Unasked int
		}
		ended.Running = true
		for ended.Running {
			if err := wait(ctx, 5*time.Millisecond); err != nil {
				return fmt.Errorf("scrub: %w: %+v", err, ended)
			}
			if err := g.send(ctx, http.MethodGet, "/v1/ops/scrub", nil).ok(&ended); err != nil {
				return fmt.Errorf("progress of a scrub: %w", err)
			}
		}
		if ended.Failed+ended.Unasked == 0 {
			return nil
		}
	}
}

// untilWhole sends a request until the answer is a success that contains part.
func untilWhole(ctx context.Context, g *target, send func() reply, part string) error {
	for a := send(); a.err != nil || a.status/100 != 2 || !bytes.Contains(a.body, []byte(part)); a = send() {
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("instance %d still answers %d %s: %w", g.index, a.status, a.body, errors.Join(err, a.err))
		}
	}
	return nil
}

// repaired waits until the service has recovered.
func (w *world) repaired() (r repair, err error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), repairLimit)
	defer cancel()
	start := time.Now()
	feed := func(g *target) reply {
		return g.send(ctx, "POST", "/v1/feed/filter", feedRequest{Viewer: "probe", Posts: []post{{ID: "p", Author: "a"}}})
	}
	for _, stage := range []struct {
		took *time.Duration
		do   func(g *target) reply
		part string
	}{
		{&r.feeds, feed, ""},
		{&r.whole, feed, `"degraded":[]`},
		{&r.writes, func(g *target) reply {
			return g.send(ctx, "PUT", fmt.Sprintf("/v1/users/probe%d/likes/p%d", g.index, time.Now().UnixMilli()%1000), nil)
		}, ""},
	} {
		for _, i := range w.instances {
			if err := untilWhole(ctx, i.target, func() reply { return stage.do(i.target) }, stage.part); err != nil {
				return r, err
			}
		}
		*stage.took = time.Since(start)
	}
	return r, w.warm(ctx)
}

// repairLimit is how long the service may take to recover from a fault.
const repairLimit = 30 * time.Second

// verdict fails the test if any promise was broken.
func (w *world) verdict() {
	w.t.Helper()
	found, messages := w.tally.violations()
	if len(found) == 0 {
		return
	}
	_, _ = fmt.Fprintf(os.Stderr, "--- %s, seed %d: the logs\n%s", w.t.Name(), w.seed, logs(w.instances))
	w.t.Errorf("seed %d: promises broken: %v\n%s", w.seed, found, strings.Join(messages, "\n"))
}
