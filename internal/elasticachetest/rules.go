package elasticachetest

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is one of the two kinds of caches.
type Kind int

// A node-based cache has its own servers, alone or as a cluster. A serverless cache is a service
// that uses the protocol of a cluster over TLS.
const (
	NodeBased Kind = iota + 1
	Serverless
)

// String returns the name of the kind.
func (k Kind) String() string {
	if k == Serverless {
		return "serverless"
	}
	return "node-based"
}

// The lists follow the page "Supported and restricted Valkey, Memcached, and Redis OSS commands" of
// the ElastiCache user guide, from general knowledge in 2026. They were not copied from the page.
// Lines with another source say so. A name alone stands for the command with all of its
// subcommands.
const (
	neverAvailable = `
		acl deluser, acl load, acl save, acl setuser,
			bgrewriteaof, bgsave, config, debug, migrate, psync, replicaof, save, shutdown, slaveof, sync,
			cluster addslots, cluster addslotsrange, cluster bumpepoch, cluster delslots,
			cluster delslotsrange, cluster failover, cluster flushslots, cluster forget, cluster links,
			cluster meet, cluster setslot,
		` +
		// Each of these is refused because it changes what the service itself manages.
		`cluster replicate, cluster reset, cluster saveconfig, cluster set-config-epoch, ` +
		`failover, module, replconf,` +
		// Only Redis 8 and later has this command; Valkey rejects it.
		`client maint_notifications`
	notServerless = `
		acl log, client caching, client getredir, client id, client info, client kill, client list,
		client no-evict, client pause, client tracking, client trackinginfo, client unblock,
		client unpause, cluster count-failure-reports, fcall, fcall_ro, function, keys, lastsave,
		latency, memory, monitor, move, object, pfdebug, pfselftest, psubscribe, pubsub numpat,
		punsubscribe, script kill, select, slowlog, swapdb, wait,
	` +
		// These are newer than the list, or similar to its commands.
		`client no-touch, commandlog, script debug, waitaof`
)

const (
	// The limits are for a serverless cache. The count includes the name of the command, which is
	// the stricter reading.
	maxArguments = 3999
	maxScript    = 4 << 20 // bytes
)

// rules are the commands that a kind of cache lacks: "config" or "client id".
type rules struct {
	kind  Kind
	lacks map[string]bool
}

func newRules(kind Kind) rules {
	r := rules{kind: kind, lacks: make(map[string]bool)}
	list := neverAvailable
	if kind == Serverless {
		list += "," + notServerless
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.Join(strings.Fields(name), " "); name != "" {
			r.lacks[name] = true
		}
	}
	return r
}

// verdict is the decision on a command. The zero value allows it.
type verdict struct {
	why  string // reason for the test; "": allowed
	says string // the error that the client gets
}

// command judges a command by its name and its first argument, which may be "". Case does not
// matter.
func (r rules) command(name, sub string) verdict {
	command := strings.ToLower(name)
	both := command + " " + strings.ToLower(sub)
	switch {
	case r.lacks[command]:
		return verdict{
			why:  command,
			says: fmt.Sprintf("ERR unknown command '%s', with args beginning with: ", name),
		}
	case r.lacks[both]:
		help := strings.ToUpper(name) + " HELP"
		return verdict{why: both, says: fmt.Sprintf("ERR unknown subcommand '%s'. Try %s.", sub, help)}
	}
	return verdict{}
}

// request judges a whole command of a client.
func (r rules) request(q Request) verdict {
	name := strings.ToLower(q.arg(0))
	if v := r.command(q.arg(0), q.arg(1)); v.why != "" {
		if v.why == name {
			for _, arg := range q[1:min(len(q), 3)] {
				v.says += fmt.Sprintf("'%s' ", arg)
			}
		}
		return v
	}
	if r.kind != Serverless {
		return verdict{}
	}
	script := 0 // index of the script's argument
	switch name {
	case "eval", "evalsha", "eval_ro", "evalsha_ro":
		script = 1
	case "script":
		script = 2
	}
	size := len(q.arg(script))
	switch {
	case len(q) > maxArguments:
		return refused(
			"%s with %d arguments, its name included: at most %d are taken", name, len(q), maxArguments,
		)
	case script > 0 && size > maxScript:
		return refused("%s of %d bytes: at most %d are taken", name, size, maxScript)
	case script == 1 && len(q) > 2 && !isCount(q.arg(2)):
		return verdict{
			why:  name + " without keys",
			says: "ERR Lua scripts without any input keys are not supported.",
		}
	}
	return verdict{}
}

func refused(format string, args ...any) verdict {
	why := fmt.Sprintf(format, args...)
	return verdict{why: why, says: "ERR " + why}
}

func isCount(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0
}
