package sizing

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// population is a set of users with activities, with a long tail: few have most.
type population struct {
	activities []activity.Activity
	of         []int // activities of each user
}

// populate returns a population with a mean number of activities, a share of them blocks of other
// users, the rest hides of posts.
func populate(users int, mean, blocks float64) population {
	random := rand.New(rand.NewPCG(1, 2))
	const sigma = 1.4
	p := population{of: make([]int, users)}
	for u := range users {
		p.of[u] = int(mean*math.Exp(sigma*random.NormFloat64()-sigma*sigma/2) + random.Float64())
		for i := range p.of[u] {
			a := activity.Activity{User: userID(u), Kind: []string{"hide", "like"}[i%2], Target: fmt.Sprintf("%012d", random.IntN(1e12))}
			if random.Float64() < blocks {
				a.Kind, a.Target = "block", userID((u+1+i*7919)%users)
			}
			p.activities = append(p.activities, a)
		}
	}
	return p
}

// mixed returns the activities of the population in random order, as a running service gets them.
func (p population) mixed() population {
	p.activities = slices.Clone(p.activities)
	random := rand.New(rand.NewPCG(5, 6))
	random.Shuffle(len(p.activities), func(i, j int) { p.activities[i], p.activities[j] = p.activities[j], p.activities[i] })
	return p
}

func userID(n int) string { return fmt.Sprintf("%012d", n) }

// input returns the input that describes the population.
func (p population) input() Input {
	twoWay, square := 0.0, 0.0
	for _, a := range p.activities {
		if a.Kind == "block" {
			twoWay++
		}
	}
	mean := float64(len(p.activities)) / float64(len(p.of))
	for _, n := range p.of {
		square += (float64(n) - mean) * (float64(n) - mean)
	}
	in := example()
	in.Users, in.ActivitiesPerUser = float64(len(p.of)), mean
	in.TwoWay = twoWay / float64(len(p.activities))
	in.Spread = math.Sqrt(square/float64(len(p.of))) / mean
	return in
}

// example returns an input with the command's defaults.
func example() Input {
	return Input{
		Users: 1e6, ActivitiesPerUser: 100, TwoWay: 0.2, FalsePositiveRate: 0.001, FeedsPerSecond: 1000, Spread: 3,
		Candidates: 500, IDBytes: 12, Replicas: 1, Fill: 0.8, NodeGiB: 13,
	}
}

// planned returns the plan for in with the built-in kinds.
func planned(t testing.TB, in Input, pages uint32) *Plan {
	t.Helper()
	p, err := New(in, pages, activity.BuiltinKinds())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// service returns a Recorder with a new ledger and pages in Redis, with the clock now; nil:
// time.Now. It does nothing in the background.
func service(t testing.TB, client redis.UniversalClient, pages uint32, now func() time.Time) *activity.Recorder {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: pages})
	must(t, err)
	store, err := redisstore.New(client, "feed")
	must(t, err)
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: store, Now: now, Passive: true})
	must(t, err)
	t.Cleanup(func() {
		r.Close()
		must(t, l.Close())
	})
	return r
}

// TestLongPagesTakeWhatIsPlanned checks the memory of pages that the service builds, and the bytes
// of feed checks. Both must agree with the model within 3 %.
func TestLongPagesTakeWhatIsPlanned(t *testing.T) {
	const users, pages = 20_000, 256
	cluster, client := startEmpty(t)
	r := service(t, cluster.Client(), pages, nil)
	p := populate(users, 5, 0.2)
	for batch := range slices.Chunk(p.activities, 1000) { // a busy machine takes long for more
		_, err := r.Record(t.Context(), batch)
		must(t, err)
	}
	plan := planned(t, p.input(), pages)
	grown := takenBytes(t, client)
	readAll(t, r, users) // rebuilds all pages
	testFeedBytes(t, r, client, p, plan)
	if n := client.DBSize(t.Context()).Val(); n != 2*pages {
		t.Fatalf("%d strings, want 2 of each of %d pages", n, pages)
	}
	testPageSizes(t, client, plan)
	r.Close()
	t.Logf("%d activities on %d pages, grown to their size by rebuilds: %d bytes", len(p.activities), pages, grown)
	wantNear(t, "memory of rebuilt pages", float64(takenBytes(t, client)), plan.Redis.Pages, 0.03)
	if float64(grown) > plan.Redis.Pages {
		t.Errorf("pages that grew take %d bytes, more than the %.0f planned", grown, plan.Redis.Pages)
	}
}

// TestUndosRebuildPages checks the share of undos that rebuild a page. It builds a page for each of
// the plan, with the keys of users that a hash placed there, and removes every eighth key.
func TestUndosRebuildPages(t *testing.T) {
	t.Parallel()
	const users, number = 20_000, 256
	p := populate(users, 5, 0.2)
	random := rand.New(rand.NewPCG(7, 8))
	hash := func() favfilter.Hash { return favfilter.Hash{H1: random.Uint64(), H2: random.Uint64()} }
	placed, keys := make([]int, users), make([]int, number)
	for u := range placed {
		placed[u] = random.IntN(number)
	}
	for _, a := range p.activities {
		u, err := strconv.Atoi(a.User)
		must(t, err)
		keys[placed[u]]++
		if a.Kind == "block" {
			other, err := strconv.Atoi(a.Target)
			must(t, err)
			keys[placed[other]]++
		}
	}
	size, in := builtinSize(p.input()), p.input()
	jammed, tried := 0, 0
	for _, n := range keys {
		shape, err := pageShape(n, size)
		must(t, err)
		page, err := favfilter.NewPage(favfilter.Header{Identity: favfilter.Identity{Pages: 1}, Shape: shape})
		must(t, err)
		all := make([]favfilter.Hash, n)
		for i := range all {
			all[i] = hash()
			if all[i].Extra = uint8(4 * random.IntN(2)); random.Float64() < 2*in.TwoWay/(1+in.TwoWay) {
				all[i].Extra = 6
			}
			page.Insert(all[i])
		}
		for i := 0; i < n; i += 2 {
			tried++
			batch := favfilter.Batch{Identity: page.Header().Identity, Sequence: 1, Remove: all[i : i+1]}
			if page.Clone().Apply(batch).State == favfilter.Jammed {
				jammed++
			}
		}
	}
	wantNear(t, "share of undos that rebuild a page", float64(jammed)/float64(tried), planned(t, p.input(), number).Pages.Stuck, 0.1)
}

// builtinSize returns the size of keys with the built-in kinds.
func builtinSize(in Input) keySize {
	kinds := activity.BuiltinKinds()
	return keySize{kinds.Rates(in.FalsePositiveRate).Key, in.weights(kinds)}
}

// testPageSizes compares every rebuilt page with the model's size for its keys. The keys of a page
// may weigh more or less than the mean, by a size class of the allocator.
func testPageSizes(t *testing.T, client *redis.Client, plan *Plan) {
	t.Helper()
	size, sum, wanted := builtinSize(plan.Input), 0.0, 0.0
	for n := range plan.Pages.Number {
		raw, err := client.Get(t.Context(), pageName(n)+":bits").Bytes()
		must(t, err)
		h, err := favfilter.DecodeHeader(raw)
		must(t, err)
		_, want, err := pageBytes(pageName(n), int(h.Count), size)
		must(t, err)
		got := float64(bulk(len(raw)))
		if sum, wanted = sum+got, wanted+want; math.Abs(got/want-1) > 0.26 {
			t.Errorf("page %d of %d keys has %g bytes to be read, planned %g", n, h.Count, got, want)
		}
	}
	wantNear(t, "bytes of all pages", sum, wanted, 0.02)
}

// testFeedBytes checks feeds of users in proportion to their activities, and compares the bytes
// that the server received and sent.
func testFeedBytes(t *testing.T, r *activity.Recorder, client *redis.Client, p population, plan *Plan) {
	t.Helper()
	const feeds = 4000
	in, out := netBytes(t, client)
	own := int64(2500) // the INFO that netBytes requests
	random := rand.New(rand.NewPCG(3, 4))
	for range feeds {
		_, err := r.View(t.Context(), p.activities[random.IntN(len(p.activities))].User, r.Kinds().All())
		must(t, err)
	}
	in2, out2 := netBytes(t, client)
	wantNear(t, "bytes of a feed's request", float64(in2-in)/feeds, plan.Redis.Request, 0.05)
	wantNear(t, "bytes of a feed's answer", float64(out2-out-own)/feeds, plan.Redis.Reply, 0.05)
}

// TestLongLedgerTakesWhatIsPlanned checks that the ledger in PostgreSQL takes the planned space,
// with short and long ids. The table must agree within 5 %. The indexes, whose pages fill in waves
// as they grow, must agree within 10 %.
func TestLongLedgerTakesWhatIsPlanned(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures PostgreSQL, which changes rarely")
	}
	server := pgtest.Start(t)
	for _, length := range []int{12, 36} {
		t.Run(fmt.Sprint("ids of ", length), func(t *testing.T) {
			p := populate(10_000, 10, 0.2)
			in := p.input()
			in.IDBytes = float64(length)
			plan := planned(t, in, 256)
			got := recordInPostgres(t, server.Schema(), p.mixed(), length)
			wantNear(t, "rows", got.Rows, plan.Ledger.Rows, 0.001)
			wantNear(t, "bytes of the table", got.Table, plan.Ledger.Table, 0.05)
			wantNear(t, "bytes of the indexes", got.Indexes, plan.Ledger.Indexes, 0.1)
		})
	}
}

// BenchmarkLedgerBytes reports the bytes per row of the ledger in PostgreSQL, from which rowBytes
// and indexBytes come.
func BenchmarkLedgerBytes(b *testing.B) {
	server := pgtest.Start(b)
	people := populate(20_000, 10, 0.2)
	for _, length := range []int{12, 24, 36, 64} {
		for order, p := range map[string]population{"mixed": people.mixed(), "user by user": people} {
			b.Run(fmt.Sprintf("ids of %d, %s", length, order), func(b *testing.B) {
				got := recordInPostgres(b, server.Schema(), p, length)
				b.ReportMetric(got.Table/got.Rows, "B-table/row")
				b.ReportMetric(got.Indexes/got.Rows, "B-indexes/row")
			})
		}
	}
}

// recordInPostgres records the population with ids of a length, and returns the size of its rows.
func recordInPostgres(t testing.TB, url string, p population, length int) Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: 256})
	must(t, err)
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}})
	must(t, err)
	longer := strings.Repeat("0", length-len(userID(0)))
	all := make([]activity.Activity, len(p.activities))
	for i, a := range p.activities {
		a.User, a.Target = longer+a.User, longer+a.Target
		all[i] = a
	}
	for batch := range slices.Chunk(all, 1000) {
		_, err := r.Record(t.Context(), batch)
		must(t, err)
	}
	r.Close()
	must(t, l.Close())
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { must(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	var got Ledger
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM entries`).Scan(&got.Rows))
	must(t, conn.QueryRow(t.Context(), `
SELECT sum(pg_table_size(relid)), sum(pg_indexes_size(relid)) FROM pg_partition_tree('entries') WHERE isleaf`).Scan(&got.Table, &got.Indexes))
	return got
}

// readAll reads the activities of each user, which rebuilds missing pages.
func readAll(t *testing.T, r *activity.Recorder, users int) {
	t.Helper()
	ledgers := r.Kinds().All()[:1]
	for u := range users {
		_, err := r.View(t.Context(), userID(u), ledgers)
		must(t, err)
	}
}

// takenBytes returns the memory of the server's keys: it removes them and compares.
func takenBytes(t *testing.T, client *redis.Client) int64 {
	t.Helper()
	with := usedBytes(t, client)
	must(t, client.FlushAll(t.Context()).Err())
	return with - usedBytes(t, client)
}

// usedBytes returns the memory that the server uses, with only this client, because clients'
// buffers count.
func usedBytes(t *testing.T, client *redis.Client) int64 {
	t.Helper()
	least := int64(math.MaxInt64)
	for range 20 { // a client may reconnect; its buffers only add memory
		must(t, client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		least = min(least, infoValue(t, client, "memory", "used_memory"))
	}
	return least
}

// startEmpty starts a cluster of one node, to measure its memory. From the first call of a command
// on, the server takes 24 KB for its latencies; so startEmpty calls the commands that takenBytes
// uses.
func startEmpty(t *testing.T) (*redistest.Cluster, *redis.Client) {
	t.Helper()
	cluster := redistest.StartCluster(t, 1, 0)
	client := cluster.Nodes()[0].Client()
	takenBytes(t, client)
	return cluster, client
}

func netBytes(t *testing.T, client *redis.Client) (in, out int64) {
	t.Helper()
	return infoValue(t, client, "stats", "total_net_input_bytes"), infoValue(t, client, "stats", "total_net_output_bytes")
}

func infoValue(t *testing.T, client *redis.Client, section, name string) int64 {
	t.Helper()
	info, err := client.Info(context.WithoutCancel(t.Context()), section).Result()
	must(t, err)
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.ParseInt(text, 10, 64)
			must(t, err)
			return n
		}
	}
	t.Fatalf("the server's INFO has no %s", name)
	return 0
}

func wantNear(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within*want) {
		t.Errorf("%s: %.5g, planned %.5g: off by %+.1f %%", what, got, want, 100*(got-want)/want)
	} else {
		t.Logf("%s: %.5g, planned %.5g: off by %+.1f %%", what, got, want, 100*(got-want)/want)
	}
}
