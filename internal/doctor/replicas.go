package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// readReplicas reads the pages once more, as feeds do that are to read replicas, and adds to primary, which is what came of
// reading them from the primaries, who has answered. A service goes on without replicas, so nothing here is a failure of it.
func (d *Doctor) readReplicas(ctx context.Context, primary finding) finding {
	var answered answers
	client, err := d.replicaClient(&answered)
	if err != nil {
		return fail("from replicas: "+words(err), "Leave out reader=true in --redis.")
	}
	defer func() { _ = client.Close() }()
	const goOn = "feeds are read from primaries as long"
	if f := d.readPages(ctx, client); f.status == Fail {
		return warn(fmt.Sprintf("%s; from replicas: %s; %s", primary.found, f.found, goOn),
			"See to the replicas, or leave out reader=true in --redis.")
	}
	replicas, primaries := d.judgeAnswers(ctx, client, answered.addrs())
	switch {
	case len(primaries) == 0 && len(replicas) == 0:
		primary.found += "; who answers for replicas is not told"
		return primary
	case len(replicas) == 0:
		return warn(fmt.Sprintf("%s; where replicas were asked, primaries answered: no replica does", primary.found),
			"Add replicas, or bring back those that there were: with reader=true feeds were to be kept from the primaries.")
	case len(primaries) > 0:
		return warn(fmt.Sprintf("%s; where replicas were asked, %d of %d that answered are primaries: %s",
			primary.found, len(primaries), len(primaries)+len(replicas), some(primaries)),
			"See to the replicas of these primaries: with reader=true feeds were to be kept from them.")
	}
	primary.found += "; from replicas too"
	return primary
}

// replicaClient returns a client that reads from the replicas of the cache, as that of the service, and tells who answers.
//
//nolint:ireturn // there are two kinds
func (d *Doctor) replicaClient(answered *answers) (redis.UniversalClient, error) {
	single, cluster, err := d.servers.Managed.Options(d.cache, true)
	switch {
	case err != nil:
		return nil, err
	case cluster != nil:
		cluster.NewClient = func(o *redis.Options) *redis.Client {
			client := redis.NewClient(o)
			client.AddHook(answersOf{answered, o.Addr})
			return client
		}
		return redis.NewClusterClient(cluster), nil
	}
	return redis.NewClient(single), nil
}

// judgeAnswers tells replicas from primaries among those in a cluster that answered. Without a cluster whoever is behind the
// endpoint of the readers says what he is.
func (d *Doctor) judgeAnswers(ctx context.Context, client redis.UniversalClient, addrs []string) (replicas, primaries []string) {
	single, ok := client.(*redis.Client)
	if !ok {
		known := make(map[string]bool)
		for _, n := range d.nodes {
			known[n.addr] = true
		}
		for _, addr := range addrs {
			if known[addr] {
				primaries = append(primaries, addr)
			} else {
				replicas = append(replicas, addr)
			}
		}
		return replicas, primaries
	}
	info, _ := single.Info(ctx).Result() // none: it is refused
	switch addr := single.Options().Addr; infoFields(info)["role"] {
	case "":
		return nil, nil
	case rolePrimary:
		return nil, []string{addr}
	default:
		return []string{addr}, nil
	}
}

// some names some of a list.
func some(names []string) string {
	shown := names[:min(len(names), someNodes)]
	if len(shown) == len(names) {
		return strings.Join(shown, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), len(names)-len(shown))
}

// answers are the addresses of who answered to reads.
type answers struct {
	mu  sync.Mutex
	who map[string]bool
}

func (a *answers) add(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.who == nil {
		a.who = make(map[string]bool)
	}
	a.who[addr] = true
}

func (a *answers) addrs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.who))
}

// answersOf is a [redis.Hook] that notes when a node has answered.
type answersOf struct {
	all  *answers
	addr string
}

// DialHook implements [redis.Hook].
func (answersOf) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (h answersOf) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && cmd.Name() == "mget" {
			h.all.add(h.addr)
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (h answersOf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if cmd.Name() == "mget" && cmd.Err() == nil {
				h.all.add(h.addr)
				break
			}
		}
		return err
	}
}
