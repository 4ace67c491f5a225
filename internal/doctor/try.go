package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

const (
	// pings are sent to a server one after another; leastPings to each of a great number of servers.
	pings      = 50
	leastPings = 5
	allPings   = 600

	slowRoundTrip = 2 * time.Millisecond

	triedPages = 16
	usualPages = 16384

	// tokenSkew is how far this machine's clock may be off for AWS to take what it signs.
	tokenSkew = 5 * time.Minute
	clockSkew = time.Second
)

// tryScript calls all that the scripts of the page store call, on a key that nobody has: nothing changes.
const tryScript = `if redis.call('STRLEN', KEYS[1]) ~= 0 then return redis.error_reply('ERR the key is in use') end
redis.call('GETRANGE', KEYS[1], 0, 63)
redis.call('GET', KEYS[1])
redis.call('BITCOUNT', KEYS[1], 8, -1)
redis.call('BITFIELD', KEYS[1], 'GET', 'u1', '0')
redis.call('SETRANGE', KEYS[1], 0, '')
redis.call('SET', KEYS[1], '', 'XX', 'KEEPTTL')
redis.call('PERSIST', KEYS[1])
redis.call('DEL', KEYS[1])
return 1`

// checkScripts runs a script on each server, with its source and by its name.
func (d *Doctor) checkScripts(ctx context.Context) finding {
	if d.seed == nil {
		return skipf("not signed in")
	}
	keys := d.keys(ctx)
	return summarize(d.nodes, func(n *server) finding {
		key, ok := keys[n.addr]
		if !ok {
			return skipf("it serves nothing")
		}
		script := redis.NewScript(tryScript)
		err := script.Eval(ctx, n.client, []string{key}).Err()
		if err == nil {
			err = script.EvalSha(ctx, n.client, []string{key}).Err()
		}
		return d.judgeScript(err)
	})
}

func (d *Doctor) judgeScript(err error) finding {
	switch {
	case err == nil:
		return okf("EVAL, EVALSHA and all that they call")
	case redis.HasErrorPrefix(err, "MOVED"):
		return skipf("a node of a cluster that is not taken for one")
	case redis.HasErrorPrefix(err, "READONLY"):
		return fail("a replica refuses them", "Name the primary in --redis.")
	case redis.HasErrorPrefix(err, "NOPERM"), strings.Contains(err.Error(), "permission"),
		strings.Contains(err.Error(), "can't run this command"): // said of a command within the script
		return fail(words(err), d.permissionTodo())
	case redis.HasErrorPrefix(err, "OOM"), strings.Contains(err.Error(), "OOM command"):
		return fail(words(err), "Give the server more memory: it is full, and refuses writes.")
	}
	if todo := stateTodo(err); todo != "" {
		return fail(words(err), todo)
	}
	return fail(words(err), "See what the server says: the service changes pages by scripts alone.")
}

// keys returns, for each node, a key that it serves and that no page has.
func (d *Doctor) keys(ctx context.Context) map[string]string {
	key := func(i int) string { return fmt.Sprintf("fav:{%s/doctor%d}:bits", d.config.Filter, i) }
	found := make(map[string]string)
	client, ok := d.pages.(*redis.ClusterClient)
	if !ok {
		found[d.nodes[0].addr] = key(0)
		return found
	}
	// Chance leaves none out: each serves more than one slot in 64 times as many as there are of them.
	for i := 0; i < 64*len(d.nodes) && len(found) < len(d.nodes); i++ {
		node, err := client.MasterForKey(ctx, key(i))
		if err != nil {
			continue // nobody serves the slot
		}
		if _, there := found[node.Options().Addr]; !there {
			found[node.Options().Addr] = key(i)
		}
	}
	return found
}

// checkRoundTrip measures how far the servers are.
func (d *Doctor) checkRoundTrip(ctx context.Context) finding {
	if d.seed == nil {
		return skipf("not signed in")
	}
	n := min(pings, max(leastPings, allPings/len(d.nodes)))
	return summarize(d.nodes, func(node *server) finding {
		took, err := ping(ctx, node.client, n)
		if err != nil && len(took) < min(n, leastPings) {
			return fail(fmt.Sprintf("after %d of them: %s", len(took), words(err)), "See whether the server hangs.")
		}
		return judgeRoundTrips(took)
	})
}

// ping measures up to n round trips on one connection.
func ping(ctx context.Context, client *redis.Client, n int) (took []time.Duration, err error) {
	conn := client.Conn()
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.Ping(ctx).Err(); err != nil { // with the sign-in
		return nil, err
	}
	for range n {
		began := time.Now()
		if err := conn.Ping(ctx).Err(); err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

func judgeRoundTrips(took []time.Duration) finding {
	slices.Sort(took)
	median, longest := took[len(took)/2], took[len(took)-1]
	found := fmt.Sprintf("%s, %s at most, of %d", milliseconds(median), milliseconds(longest), len(took))
	if median > slowRoundTrip {
		return warn(found, "Run the service near the server: each feed check waits for one round trip. Are both in the same zone?")
	}
	return okf("%s", found)
}

// checkPageRead reads some pages, as feed checks do.
func (d *Doctor) checkPageRead(ctx context.Context) finding {
	_, isCluster := d.pages.(*redis.ClusterClient)
	switch {
	case d.seed == nil:
		return skipf("not signed in")
	case d.servers.Cluster != nil && (!isCluster || d.clusterErr != nil), d.servers.Cluster == nil && d.nodes[0].mode() == modeCluster:
		return skipf("see cluster")
	}
	f := d.readPages(ctx, d.pages)
	if f.status == Fail || d.servers.Managed == nil || !d.servers.Managed.Reader || d.cache == nil {
		return f
	}
	return d.readReplicas(ctx, f)
}

func (d *Doctor) readPages(ctx context.Context, client redis.UniversalClient) finding {
	store, err := redisstore.New(client, d.config.Filter)
	if err != nil {
		return skipf("%s", words(err))
	}
	pages := uint32(usualPages)
	if n := d.config.Pages; n != 0 {
		pages = n
	}
	if d.ledger != nil && d.ledger.Identity.Pages != 0 {
		pages = d.ledger.Identity.Pages
	}
	n := min(pages, triedPages)
	ids := make([]favfilter.PageID, n)
	for i := range ids {
		ids[i].Number = uint32(i) * (pages / n)
	}
	began := time.Now()
	loaded, err := store.Load(ctx, ids)
	took := time.Since(began)
	if redis.HasErrorPrefix(err, "NOPERM") {
		return fail(words(err), d.permissionTodo())
	}
	if err != nil {
		return fail(words(err), "See to what failed above.")
	}
	there, damaged := 0, 0
	for _, l := range loaded {
		if l.Page != nil {
			there++
		}
		if l.Damage != nil {
			damaged++
		}
	}
	found := fmt.Sprintf("%d pages in %s, of which %d are there", n, milliseconds(took), there)
	if damaged > 0 {
		return warn(fmt.Sprintf("%s and %d damaged", found, damaged),
			"Nothing, if a service runs: it makes them anew. See that nothing else writes keys that begin with fav:{"+d.config.Filter+"/.")
	}
	return okf("%s", found)
}
