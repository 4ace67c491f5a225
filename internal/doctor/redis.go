package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// unknownVersion is the version of a server that does not report it.
const unknownVersion = "of unknown version"

// server is a server, and what it reports.
type server struct {
	addr   string
	client *redis.Client
	info   map[string]string // fields of INFO and CLUSTER INFO; empty if refused
}

// redis connects to the servers, and asks each what it is.
func (d *doctor) redis(ctx context.Context) finding {
	if d.Connect == nil {
		return skip("pages are in the process (no --redis)")
	}
	var err error
	if d.client, d.close, err = d.Connect(ctx); err != nil {
		return d.fail(err)
	}
	var took time.Duration
	for range 2 { // the first PING opens a connection
		began := time.Now()
		if err := d.client.Ping(ctx).Err(); err != nil {
			return d.fail(err)
		}
		took = time.Since(began)
	}
	if err := d.find(ctx); err != nil {
		return d.fail(err)
	}
	f := d.each(func(s *server) finding { return okf("%s, %s", s.version(), s.login()) })
	f.found = fmt.Sprintf("%s answered in %.2f ms: %s", d.Redis, took.Seconds()*1000, f.found)
	return f
}

// find asks the server, or all primaries of the cluster. It returns the error of one that does not
// answer.
func (d *doctor) find(ctx context.Context) error {
	cluster, ok := d.client.(*redis.ClusterClient)
	if !ok {
		only := d.client.(*redis.Client) //nolint:forcetypeassert // the only other one
		d.servers = []*server{{addr: d.Redis, client: only}}
		return d.servers[0].ask(ctx)
	}
	var mu sync.Mutex
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, primary *redis.Client) error {
		s := &server{addr: primary.Options().Addr, client: primary}
		if err := s.ask(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.addr, err)
		}
		mu.Lock()
		defer mu.Unlock()
		d.servers = append(d.servers, s)
		return nil
	})
	slices.SortFunc(d.servers, func(a, b *server) int { return cmp.Compare(a.addr, b.addr) })
	return err
}

// ask fills in what the server reports of itself.
func (s *server) ask(ctx context.Context) error {
	s.info = make(map[string]string)
	err := s.read(s.client.Info(ctx).Result())
	if err == nil && s.info["cluster_enabled"] == "1" {
		err = s.read(s.client.ClusterInfo(ctx).Result())
	}
	return err
}

// read reads lines of name:value. Servers may refuse the command to the service's user.
func (s *server) read(text string, err error) error {
	if redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown command") {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			s.info[name] = value
		}
	}
	return nil
}

// number returns a field that is a whole number, 0 or more. It returns false if the server does not
// report one.
func (s *server) number(name string) (uint64, bool) {
	n, err := strconv.ParseUint(s.info[name], 10, 64)
	return n, err == nil
}

// version names the engine. Others than Redis also report a redis_version, which they are
// compatible with.
func (s *server) version() string {
	for _, engine := range []string{"Valkey", "Dragonfly", "Garnet", "Kvrocks"} {
		if version := s.info[strings.ToLower(engine)+"_version"]; version != "" {
			return engine + " " + version
		}
	}
	return "Redis " + cmp.Or(s.info["redis_version"], unknownVersion)
}

// Versions returns the engines and versions of the servers, such as "Redis 7.0.15", or "" if a
// server does not say.
func Versions(ctx context.Context, client redis.UniversalClient) (string, error) {
	d := &doctor{client: client}
	if err := d.find(ctx); err != nil {
		return "", err
	}
	var all []string
	for _, s := range d.servers {
		version := s.version()
		if strings.HasSuffix(version, unknownVersion) {
			return "", nil
		}
		all = append(all, version)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", "), nil
}

// login describes how the client signs in.
func (s *server) login() string {
	if o := s.client.Options(); o.Password == "" && o.CredentialsProviderContext == nil {
		return "without a password"
	}
	return "with a password"
}

// tls judges the certificates of the servers. Without TLS to a public address, others could read
// passwords.
func (d *doctor) tls(ctx context.Context) finding {
	const least = 14 // days that a certificate should still be valid
	return d.each(func(s *server) finding {
		o := s.client.Options()
		conn, err := o.Dialer(ctx, o.Network, o.Addr)
		if err != nil {
			return d.fail(err)
		}
		_ = conn.Close() // nothing was sent
		if encrypted, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
			expires := encrypted.ConnectionState().PeerCertificates[0].NotAfter // a server has one
			days := int(time.Until(expires).Hours() / 24)
			if days < least {
				return warn(fmt.Sprintf("certificate expires in %d days", days), "Renew the certificate.")
			}
			return okf("certificate valid for %d days", days)
		}
		return judgePlain(conn.RemoteAddr())
	})
}

func judgePlain(addr net.Addr) finding {
	tcp, ok := addr.(*net.TCPAddr)
	switch {
	case !ok:
		return okf("none needed, local socket")
	case tcp.IP.IsLoopback() || tcp.IP.IsPrivate() || tcp.IP.IsLinkLocalUnicast():
		return okf("none, on a private network")
	}
	return warn(
		"none, and "+tcp.IP.String()+" is a public address",
		"Enable TLS on the server, and use rediss:// in --redis.",
	)
}

// topology judges the role of each server, its replicas, and its view of its cluster.
func (d *doctor) topology(context.Context) finding {
	f := d.each(d.judgeTopology)
	if f.status == Fail && len(d.servers) == 1 {
		d.servers = nil // the wrong server
	}
	return f
}

func (d *doctor) judgeTopology(s *server) finding {
	const slots = 16384
	_, asCluster := d.client.(*redis.ClusterClient)
	replicas, told := s.number("connected_slaves")
	assigned, counted := s.number("cluster_slots_assigned")
	failing, _ := s.number("cluster_slots_fail")
	suspect, _ := s.number("cluster_slots_pfail")
	state := cmp.Or(s.info["cluster_state"], "ok")
	found := fmt.Sprintf("primary, replicas: %d", replicas)
	if counted {
		found += fmt.Sprintf(
			", cluster %s, %d of %d slots assigned, %d on unreachable nodes",
			state, assigned, slots, failing+suspect,
		)
	}
	switch {
	case cmp.Or(s.info["server_mode"], s.info["redis_mode"]) == "sentinel": // of Valkey, of Redis
		return fail("a sentinel", "Use redis+sentinel://<host>:<port>/<primary> in --redis.")
	case s.info["cluster_enabled"] == "1" && !asCluster:
		return fail(
			"a node of a cluster",
			"Use redis+cluster://<host>:<port>, or rediss+cluster:// for TLS, in --redis.",
		)
	case s.info["role"] == "":
		return skip("not reported")
	case s.info["role"] != "master":
		return fail(
			"a replica of "+net.JoinHostPort(s.info["master_host"], s.info["master_port"]),
			"Name the primary in --redis, or its sentinels or cluster. "+
				"If it does, a failover is in progress: run doctor again.",
		)
	case counted && assigned < slots:
		return fail(
			found,
			"Assign the unserved slots (redis-cli --cluster fix): pages in them cannot be stored.",
		)
	case state != "ok" || failing > 0:
		return fail(found, "Restart the failed nodes, or fail over to their replicas.")
	case suspect > 0:
		return warn(found, "Check the nodes that do not answer the others.")
	case told && replicas == 0 && !d.Serverless:
		return warn(found, "Add a replica: "+d.lost())
	}
	return okf("%s", found)
}

// lost says what happens to pages that Redis loses.
func (d *doctor) lost() string {
	if d.Ledger == "" {
		return "pages that Redis loses are gone, as there is no ledger."
	}
	return "pages that Redis loses are rebuilt from the ledger, but `seen` windows are gone."
}

// memory judges how full each server is, and its eviction policy: rebuilding evicted pages costs
// time.
func (d *doctor) memory(context.Context) finding { return d.each(d.judgeMemory) }

func (d *doctor) judgeMemory(s *server) finding {
	const full, mib = 80, 1 << 20 // percent at most, and bytes
	used, told := s.number("used_memory")
	limit, _ := s.number("maxmemory")
	evicted, _ := s.number("evicted_keys")
	policy := cmp.Or(s.info["maxmemory_policy"], "unknown")
	found, percent := fmt.Sprintf("%.1f MiB used, no limit set", float64(used)/mib), 0.0
	if limit > 0 {
		percent = float64(used) / float64(limit) * 100
		found = fmt.Sprintf(
			"%.1f of %.1f MiB used, %.0f %%", float64(used)/mib, float64(limit)/mib, percent,
		)
	}
	found += fmt.Sprintf(", policy %s, %d keys evicted since the server started", policy, evicted)
	switch {
	case !told:
		return skip("not reported")
	case strings.HasPrefix(policy, "allkeys"):
		return fail(found, "Set maxmemory-policy noeviction: "+d.lost())
	case percent > full:
		return warn(
			found,
			"Give the server more memory, or spread the pages over more nodes: "+
				"a full server refuses writes.",
		)
	case evicted > 0:
		return warn(found, "Give the server more memory: "+d.lost())
	case strings.HasPrefix(policy, "volatile") && !d.Serverless:
		return warn(
			found,
			"Set maxmemory-policy noeviction: `seen` windows may be evicted early; blocks are not.",
		)
	}
	return okf("%s", found)
}

// tryScript calls every command that the scripts of the page store call, on an unused key, so that
// nothing changes.
const tryScript = `if redis.call('STRLEN', KEYS[1]) ~= 0 then
	return redis.error_reply('ERR the key is in use')
end
redis.call('GETRANGE', KEYS[1], 0, 63)
redis.call('GET', KEYS[1])
redis.call('BITCOUNT', KEYS[1], 8, -1)
redis.call('BITFIELD', KEYS[1], 'GET', 'u1', '0')
redis.call('SETRANGE', KEYS[1], 0, '')
redis.call('SET', KEYS[1], '', 'XX')
redis.call('PERSIST', KEYS[1])
redis.call('DEL', KEYS[1])
return 1`

// tryAtomic adds 1 to a counter. It calls commands between the read and the write: a server whose
// scripts are not atomic may run another script there.
const tryAtomic = `local n = redis.call('GET', KEYS[1]) or 0
for _ = 1, 20 do redis.call('STRLEN', KEYS[1]) end
redis.call('SET', KEYS[1], n + 1, 'EX', 60)
return n + 1`

// atomic runs tryAtomic on a key of its own, from several connections at once. It returns an error
// if two scripts had the same result: the server ran one during the other.
func (s *server) atomic(ctx context.Context, key string) error {
	const callers, each = 8, 25
	key = strings.TrimSuffix(key, "bits") + rand.Text()
	defer s.client.Del(context.WithoutCancel(ctx), key)
	script, counts := redis.NewScript(tryAtomic), make([]string, callers*each)
	errs := make([]error, callers)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			var sent []redis.Cmder
			sent, errs[caller] = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for range each {
					script.Eval(ctx, p, []string{key})
				}
				return nil
			})
			for i, one := range sent {
				reply := one.(*redis.Cmd) //nolint:forcetypeassert // EVAL has this type
				counts[caller*each+i] = fmt.Sprint(reply.Val())
			}
		})
	}
	group.Wait()
	if err := cmp.Or(errs...); err != nil {
		return err
	}
	slices.Sort(counts)
	if lost := len(counts) - len(slices.Compact(counts)); lost > 0 {
		return fmt.Errorf("scripts are not atomic: %d of %d updates were lost", lost, callers*each)
	}
	return nil
}

// commands sends to each server what the service sends.
func (d *doctor) commands(ctx context.Context) finding {
	return d.each(func(s *server) finding {
		key := d.keyOn(ctx, s)
		if key == "" {
			return skip("it serves no slots")
		}
		keys, script := []string{key}, redis.NewScript(tryScript)
		err := script.Eval(ctx, s.client, keys).Err()
		if err == nil {
			err = script.EvalSha(ctx, s.client, keys).Err()
		}
		if err == nil {
			err = s.client.MGet(ctx, keys...).Err()
		}
		if err == nil {
			err = s.atomic(ctx, key)
		}
		if err != nil {
			return d.fail(err)
		}
		return okf(
			"MGET, EVAL, EVALSHA and the commands in scripts work; concurrent scripts lost no update",
		)
	})
}

// keyOn returns a key that the server stores and that no page uses; "" if it serves no slots.
func (d *doctor) keyOn(ctx context.Context, s *server) string {
	cluster, ok := d.client.(*redis.ClusterClient)
	// 64 keys per node: the chance that a node with slots serves none of them is negligible.
	for i := range 64 * len(d.servers) {
		key := fmt.Sprintf("fav:{%s/doctor%d}:bits", d.Filter, i)
		if !ok {
			return key
		}
		if node, err := cluster.MasterForKey(ctx, key); err == nil && node.Options().Addr == s.addr {
			return key
		}
	}
	return ""
}

// fail reports an error of Redis or AWS, and what to do about the first pattern that it matches.
func (d *doctor) fail(err error) finding {
	text := words(err)
	for _, r := range slices.Concat(notReached(), notAdmitted(d.Filter), notServed()) {
		if regexp.MustCompile(r.pattern).MatchString(text) {
			return fail(text, r.todo)
		}
	}
	return fail(text, "Fix what the server reports: the service changes pages only by scripts.")
}

// remedy is what to do about errors that match a pattern.
type remedy struct{ pattern, todo string }

// notReached returns the remedies of errors before a server answers.
func notReached() []remedy {
	return []remedy{
		{"^open (replication group|serverless)|invalid configuration",
			"Do what the error says; see also docs/ELASTICACHE.md."},
		{"sentinels.*redis: nil",
			"Correct the name of the primary in --redis, or have the sentinels monitor it."},
		{"sentinels.*unknown command",
			"Name the sentinels in --redis (port 26379), not the servers that they monitor."},
		{"sentinels.*(NOAUTH|WRONGPASS|NOPERM|DENIED)",
			"Give the sentinels' own user and password before the hosts in --redis."},
		{"certificate is (not )?valid for|cannot validate certificate for|legacy Common Name",
			"Use a host name in --redis that the certificate contains."},
		{"certificate has expired",
			"Renew the certificate, or set this machine's clock."},
		{"unknown authority",
			"Make this machine trust the issuer of the certificate: " +
				"SSL_CERT_FILE names a file of authorities."},
		{"certificate required|bad certificate",
			"Set tls-auth-clients to no or optional on the server: the service has no certificate."},
		{"tls: |TLS handshake",
			"Check that the server has TLS at this port, or use redis:// instead of rediss://."},
		{"lookup ",
			"Correct the host in --redis, or this machine's DNS."},
		{"refused",
			"Start the server, or correct the port in --redis."},
	}
}

// notAdmitted returns the remedies of a server that does not admit the service.
func notAdmitted(filter string) []remedy {
	return []remedy{
		{"WRONGPASS|invalid password",
			"Correct the user or password in --redis. For a user of IAM, grant this process's identity " +
				"elasticache:Connect on the cache and the user, add the user to the cache's user group, " +
				"and check this machine's clock."},
		{"without any password configured",
			"Remove the password: the server has none."},
		{"NOAUTH",
			"Give a user and password in --redis; behind Sentinel, in its query; " +
				"for ElastiCache, user=<user> for IAM or secret=<id> for an AUTH token."},
		{"DENIED",
			"Set a password, or turn protected mode off: " +
				"the server accepts only connections from its own machine."},
		{"max number of clients",
			"Raise maxclients of the server, or use fewer connections " +
				"(pool_size=<n> in the query of --redis)."},
		{"secretsmanager|secret ",
			"Put the token into the secret, and let this process read it " +
				"(secretsmanager:GetSecretValue)."},
		{"NOPERM|permission|can't run this command",
			"Grant the user the permissions of the service: " + AccessRule(filter) + "."},
	}
}

// notServed returns the remedies of a server that cannot serve the service.
func notServed() []remedy {
	return []remedy{
		{"cluster support disabled",
			"Use redis:// or rediss:// in --redis: the server is not a node of a cluster."},
		{"READONLY|MASTERDOWN",
			"Name the primary in --redis."},
		{"not atomic",
			"Use a server that runs scripts one at a time, or set it to: " +
				"otherwise pages break under load. On Dragonfly, do not set disable-atomicity."},
		{"OOM",
			"Give the server more memory: it is full, and refuses writes."},
		{"LOADING",
			"Wait until the server has loaded its data."},
		{"BUSY",
			"Wait until the running script ends, or end it with SCRIPT KILL."},
		{"MISCONF",
			"Free the server's disk, or correct its directory: " +
				"it cannot save its data, and refuses writes until it can."},
		{"NOREPLICAS",
			"Restart its replicas, or lower min-replicas-to-write: " +
				"the server refuses writes while it has too few."},
		{"DB index is out of range|SELECT is not allowed",
			"Correct or remove the database number at the end of --redis."},
		{"invalid reply|can't parse",
			"Correct the host and port in --redis: the server there does not speak the Redis protocol."},
		{"CLUSTERDOWN",
			"Restore the lost nodes, or run redis-cli --cluster fix."},
		{"no answer in time|i/o timeout|timed out|EOF|reset",
			"Check whether the server hangs, what it logs, and whether it requires TLS (rediss://). " +
				"A firewall, a security group or a missing route may drop packets; " +
				"a cluster may announce wrong addresses."},
	}
}

// AccessRule returns the permissions that a filter with that name needs, as a rule for ACL SETUSER.
func AccessRule(filter string) string {
	return "~fav:{" + filter + "/* " +
		"+auth +hello +ping +client|setname +command +info +cluster|slots +cluster|info +asking " +
		"+readonly +mget +get +getrange +strlen +bitcount +bitfield +set +setrange +del +persist " +
		"+eval +evalsha"
}
