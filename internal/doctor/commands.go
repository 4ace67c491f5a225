package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

const triedPages, usualPages = 16, 16384

// tryScript calls all that the scripts of the page store call, on a key that nobody has: nothing
// changes.
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

// checkCommands sends what the service sends: scripts to each server, and reads of pages.
func (d *Doctor) checkCommands(ctx context.Context) finding {
	if d.seed == nil {
		return skipf("not signed in")
	}
	keys := d.keys(ctx)
	scripts := summarize(d.nodes, func(n *server) finding {
		key, ok := keys[n.addr]
		if !ok {
			return skipf("it serves nothing")
		}
		script := redis.NewScript(tryScript)
		err := script.Eval(ctx, n.client, []string{key}).Err()
		if err == nil {
			err = script.EvalSha(ctx, n.client, []string{key}).Err()
		}
		return d.judgeCommand(err)
	})
	_, isCluster := d.pages.(*redis.ClusterClient)
	if d.servers.Cluster != nil && (!isCluster || d.clusterErr != nil) || d.servers.Cluster == nil && d.nodes[0].mode() == modeCluster {
		return scripts // no page can be read: see topology
	}
	return worse(scripts, d.readPages(ctx))
}

func (d *Doctor) judgeCommand(err error) finding {
	switch {
	case err == nil:
		return okf("EVAL, EVALSHA and all that they call")
	case redis.HasErrorPrefix(err, "MOVED"):
		return skipf("a node of a cluster that is not taken for one")
	case redis.HasErrorPrefix(err, "READONLY"):
		return fail("a replica refuses scripts", "Name the primary in --redis.")
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
	// Chance leaves none out: each serves more than one slot in 64 times as many as there are of
	// them.
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

// readPages reads some pages, as feed checks do.
func (d *Doctor) readPages(ctx context.Context) finding {
	store, err := redisstore.New(d.pages, d.config.Filter)
	if err != nil {
		return okf("") // the configuration's business
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
	loaded, err := store.Load(ctx, ids)
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fail(words(err), d.permissionTodo())
	case err != nil:
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
	found := fmt.Sprintf("%d pages read, %d are there", n, there)
	if damaged > 0 {
		return warn(fmt.Sprintf("%s and %d damaged", found, damaged),
			"Nothing, if a service runs: it rebuilds them. See that nothing else writes keys that begin with fav:{"+d.config.Filter+"/.")
	}
	return okf("%s", found)
}
