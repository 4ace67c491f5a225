package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

// leastValidity is how long a certificate should hold yet.
const leastValidity = 14 * 24 * time.Hour

// checkFilterName returns an error unless a filter can have that name.
func checkFilterName(name string) error {
	_, err := redisstore.New(nil, name)
	return err
}

// checkAWS asks AWS where the cache is.
func (d *doctor) checkAWS(ctx context.Context) finding {
	config := d.managed.config
	config.Logger = d.log
	cache, err := elasticache.Open(ctx, config)
	if err != nil {
		return fail(words(err), awsTodo(err))
	}
	d.closers = append(d.closers, func() error { cache.Close(); return nil })
	if err := d.configure(cache); err != nil {
		return fail(words(err), "Correct --redis.")
	}
	mode := "one primary"
	if cache.ClusterMode() {
		mode = "cluster mode"
	}
	encrypted := "no TLS"
	if cache.TLS() {
		encrypted = "TLS"
	}
	return okf("%s: %s, %s, at %s", config.String(), mode, encrypted, cache.Addr())
}

// configure takes over what AWS says of the cache.
func (d *doctor) configure(cache *elasticache.Cache) error {
	if cache.ClusterMode() {
		o, err := d.managed.cluster()
		if err != nil {
			return err
		}
		if err := cache.ConfigureCluster(o, false); err != nil {
			return err
		}
		d.cluster, d.cache = o, cache
		return nil
	}
	o, err := d.managed.single()
	if err != nil {
		return err
	}
	if err := cache.Configure(o, false); err != nil {
		return err
	}
	d.single, d.cache = o, cache
	return nil
}

func awsTodo(err error) string {
	switch {
	case errors.Is(err, elasticache.ErrNotFound):
		return "Correct the name or ?region= in --redis, or use credentials of the account that has the cache."
	case errors.Is(err, elasticache.ErrAccessDenied):
		return "Allow the identity of this process what the error names, or give it valid credentials (and see to this machine's clock)."
	case errors.Is(err, elasticache.ErrNotAvailable):
		return "Wait until the cache is available, or restore it."
	case errors.Is(err, elasticache.ErrNoTLS):
		return "Enable encryption in transit of the cache, or leave out user=."
	case errors.Is(err, elasticache.ErrConfig):
		return "Correct --redis, or the configuration of AWS in the environment."
	default:
		return "Let this machine reach the API of ElastiCache in that region."
	}
}

// known reports whether it is known where the servers are.
func (d *doctor) known() bool { return d.single != nil || d.cluster != nil || d.failover != nil }

// addresses are those that connections are made to first.
func (d *doctor) addresses() (network string, addrs []string) {
	switch {
	case d.cluster != nil:
		return "tcp", d.cluster.Addrs
	case d.failover != nil:
		return "tcp", d.failover.SentinelAddrs
	default:
		return cmp.Or(d.single.Network, "tcp"), []string{d.single.Addr}
	}
}

// checkNetwork makes connections, and nothing with them.
func (d *doctor) checkNetwork(ctx context.Context) finding {
	if !d.known() {
		return skipf("it is not known where the cache is")
	}
	network, addrs := d.addresses()
	errs, took := make([]error, len(addrs)), make([]time.Duration, len(addrs))
	var running sync.WaitGroup
	for i, addr := range addrs {
		running.Go(func() { took[i], errs[i] = connectOnce(ctx, network, addr) })
	}
	running.Wait()
	var longest time.Duration
	var failed []string
	var first error
	for i, addr := range addrs {
		if errs[i] != nil {
			failed = append(failed, words(errs[i]))
			first = cmp.Or(first, errs[i])
			continue
		}
		d.reached = append(d.reached, addr)
		longest = max(longest, took[i])
	}
	switch {
	case len(d.reached) == 0:
		return fail(strings.Join(failed, "; "), networkTodo(first))
	case len(failed) > 0:
		return warn(fmt.Sprintf("%d of %d addresses take connections; %s", len(d.reached), len(addrs), strings.Join(failed, "; ")),
			networkTodo(first))
	case len(addrs) == 1:
		return okf("connected to %s in %s", addrs[0], milliseconds(longest))
	}
	return okf("connected to %d addresses, in %s at most", len(addrs), milliseconds(longest))
}

func connectOnce(ctx context.Context, network, addr string) (time.Duration, error) {
	began := time.Now()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return 0, err
	}
	return time.Since(began), conn.Close()
}

func networkTodo(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "Correct the host in --redis, or the DNS that this machine asks."
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "Start the server, or correct the port in --redis."
	}
	if failure, ok := errors.AsType[net.Error](err); ok && failure.Timeout() {
		return "Let this machine reach the server: a firewall, a security group or a missing route drops what it sends."
	}
	return "See to the network between this machine and the server."
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

// dialTLS returns what makes encrypted connections as the client does; nil: the client makes none.
func (d *doctor) dialTLS() func(ctx context.Context, network, addr string) (net.Conn, error) {
	switch {
	case d.cache != nil && !d.cache.TLS():
		return nil
	case d.cluster != nil && (d.cache != nil || d.cluster.TLSConfig != nil):
		return d.cluster.Dialer
	case d.failover != nil && d.failover.TLSConfig != nil:
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			return redisstore.DialTLS(ctx, network, addr, d.failover.TLSConfig, d.failover.DialTimeout)
		}
	case d.single != nil && (d.cache != nil || d.single.TLSConfig != nil):
		return d.single.Dialer
	}
	return nil
}

// checkTLS looks at the certificates.
func (d *doctor) checkTLS(ctx context.Context) finding {
	if len(d.reached) == 0 {
		return skipf("no connection")
	}
	network, _ := d.addresses()
	dial := d.dialTLS()
	if dial == nil {
		return judgePlain(ctx, network, d.reached)
	}
	var f finding
	left := time.Duration(1<<63 - 1)
	for _, addr := range d.reached {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			d.reached = nil
			if speaksPlain(ctx, network, addr) {
				return fail("the server at "+addr+" answers without TLS, and --redis asks for it",
					"Use redis:// in place of rediss://, or the port that has TLS.")
			}
			return fail(words(err), tlsTodo(err))
		}
		_ = conn.Close() // nothing was sent
		encrypted, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
		if !ok {
			return skipf("a connection of another kind")
		}
		state := encrypted.ConnectionState()
		leaf := state.PeerCertificates[0] // a server has one
		if l := leaf.NotAfter.Sub(d.now()); l < left {
			left = l
			f = okf("%s, certificate of %s, %d days left", tls.VersionName(state.Version), nameOf(leaf), int(l.Hours()/24))
		}
	}
	if left < leastValidity {
		return warn(f.found, "Have the certificate renewed.")
	}
	return f
}

// speaksPlain tells whether a server answers who does not encrypt. Nothing secret is sent.
func speaksPlain(ctx context.Context, network, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var answer [1]byte
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	if _, err := conn.Read(answer[:]); err != nil {
		return false
	}
	return answer[0] == '+' || answer[0] == '-'
}

func nameOf(c *x509.Certificate) string {
	switch {
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.IPAddresses) > 0:
		return c.IPAddresses[0].String()
	}
	return c.Subject.String()
}

func tlsTodo(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "Use a name in --redis that the certificate has."
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "Have the certificate renewed, or set this machine's clock."
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "Have this machine trust who issued the certificate: SSL_CERT_FILE names a file of authorities."
	}
	return "See to the server's TLS settings, and that nothing between it and this machine cuts connections."
}

// judgePlain judges connections without TLS: whoever is on the way can read passwords.
func judgePlain(ctx context.Context, network string, addrs []string) finding {
	if network == "unix" {
		return okf("none, on a socket of this machine")
	}
	where := "on this machine"
	for _, addr := range addrs {
		host, _, _ := net.SplitHostPort(addr)
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return skipf("none; %s: %v", addr, err)
		}
		for _, ip := range ips {
			if f := judgePlainTo(ip.Unmap()); f != "" {
				return warn("none, and "+f, "Encrypt: enable TLS at the server, and use rediss:// in --redis.")
			}
			if !ip.Unmap().IsLoopback() {
				where = "on a private network"
			}
		}
	}
	return okf("none, %s", where)
}

// judgePlainTo says what is wrong with an address; "": nothing.
func judgePlainTo(ip netip.Addr) string {
	if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() {
		return ""
	}
	return ip.String() + " is a public address"
}

// checkSentinel asks the sentinels who the primary is, and connects to it.
func (d *doctor) checkSentinel(ctx context.Context) finding {
	if len(d.reached) == 0 {
		return skipf("no connection")
	}
	votes := make(map[string]int)
	var first error
	var failed []string
	for _, addr := range d.reached {
		primary, err := d.askSentinel(ctx, addr)
		if err != nil {
			first = cmp.Or(first, err)
			failed = append(failed, addr+": "+words(err))
			continue
		}
		votes[primary]++
		if votes[primary] > votes[d.primary] {
			d.primary = primary
		}
	}
	if d.primary == "" {
		return fail(andMore(failed[:min(len(failed), someNodes)], len(failed)-someNodes), d.sentinelTodo(first))
	}
	if _, err := connectOnce(ctx, "tcp", d.primary); err != nil {
		d.primary = ""
		return fail("the primary: "+words(err), networkTodo(err))
	}
	found := fmt.Sprintf("%d of %d say that %s is at %s", votes[d.primary], len(d.reached), d.failover.MasterName, d.primary)
	if votes[d.primary] < len(d.reached) {
		return warn(found, "See to the sentinels that do not: they do not count in an election.")
	}
	return okf("%s", found)
}

var errNoPrimary = errors.New("knows no primary of that name")

func (d *doctor) askSentinel(ctx context.Context, addr string) (primary string, err error) {
	o := d.failover
	client := redis.NewSentinelClient(&redis.Options{
		Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword, Dialer: d.dialTLS(),
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, MaintNotificationsConfig: noMaintNotifications(),
	})
	defer func() { _ = client.Close() }()
	answer, err := client.GetMasterAddrByName(ctx, o.MasterName).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", errNoPrimary
	case err != nil:
		return "", err
	case len(answer) != 2:
		return "", fmt.Errorf("answers %q", answer)
	}
	return net.JoinHostPort(answer[0], answer[1]), nil
}

func (d *doctor) sentinelTodo(err error) string {
	switch {
	case errors.Is(err, errNoPrimary):
		return fmt.Sprintf("Correct the name of the primary in --redis, %s, or have the sentinels monitor it.", d.failover.MasterName)
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOPERM"):
		return "Give Sentinel's own user and password before the hosts: redis+sentinel://<user>:<password>@<host>:<port>/<primary>."
	case isRedisReply(err):
		return "Name sentinels in --redis, whose port is 26379 by default, and not the servers that they watch."
	}
	return networkTodo(err)
}
