package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
)

// checkAWS asks AWS where the cache is. If AWS does not answer, it uses the last answer, as a
// service does.
func checkAWS(ctx context.Context, d *doctor) finding {
	config := d.Redis.Managed.Config
	config.Logger = d.Logger
	file := config.File
	config.File = ""
	text, missing := os.ReadFile(file)
	end, _ := ctx.Deadline() // each check has one
	if missing == nil {
		end = end.Add(-min(4*time.Second, time.Until(end)/2)) // leaves time for the file
	}
	first, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	cache, err := elasticache.Open(first, config)
	if err == nil {
		return d.judgeAWS(cache, &config)
	}
	failed := d.fail("aws", err)
	if missing != nil {
		return failed
	}
	dir, err := os.MkdirTemp("", "feedfilter-doctor-")
	if err != nil {
		return failed
	}
	d.closers = append(d.closers, func() error { return os.RemoveAll(dir) }) // once the cache is closed
	config.File = filepath.Join(dir, filepath.Base(file))                    // a copy, because the client writes AWS's answer to it
	if err := os.WriteFile(config.File, text, 0o600); err != nil {           //nolint:gosec // in a new temporary directory
		return fail(words(err), "Free space in the directory of temporary files.")
	}
	if cache, err = elasticache.Open(ctx, config); err != nil {
		return failed
	}
	f := d.judgeAWS(cache, &config)
	if f.status != OK {
		return f
	}
	return warn(fmt.Sprintf("%s; a service started now uses the last answer of AWS, in %s: %s", failed.found, file, f.found),
		failed.todo+" Without that file, no service starts.")
}

// judgeAWS derives the options of clients from the description of the cache, and judges them.
func (d *doctor) judgeAWS(cache *elasticache.Cache, config *elasticache.Config) finding {
	d.closers = append(d.closers, func() error { cache.Close(); return nil })
	if d.Redis.Managed.Reader {
		if _, _, err := d.Redis.Managed.Options(cache, true); err != nil {
			return fail(words(err), "Remove reader=true from --redis.")
		}
	}
	single, cluster, err := d.Redis.Managed.Options(cache, false)
	if err != nil {
		return fail(words(err), "Correct --redis.")
	}
	mode, encrypted := "one primary", "no TLS"
	if cache.ClusterMode() {
		mode = "cluster mode"
	}
	if d.facts["tls"] = cache.TLS(); cache.TLS() {
		encrypted = "TLS"
	}
	d.connect(single, cluster, nil)
	return okf("%s: %s, %s, at %s", config.String(), mode, encrypted, cache.Addr())
}

// each calls do for all servers at once. It returns the errors, with the servers' addresses, and
// the first one.
func each(servers []*server, do func(*server) error) (failed []string, first error) {
	var running sync.WaitGroup
	for _, s := range servers {
		running.Go(func() { s.err = do(s) })
	}
	running.Wait()
	for _, s := range servers {
		if s.err == nil {
			continue
		}
		text := words(s.err)
		if !strings.Contains(text, s.addr) {
			text = s.addr + ": " + text
		}
		failed, first = append(failed, text), cmp.Or(first, s.err)
	}
	return failed, first
}

// checkNetwork opens connections and closes them at once.
func checkNetwork(ctx context.Context, d *doctor) finding {
	asked, began := d.nodes, time.Now()
	failed, first := each(asked, func(s *server) error { return reach(ctx, d.options.Network, s.addr) })
	d.nodes = slices.DeleteFunc(slices.Clone(asked), func(s *server) bool { return s.err != nil })
	d.facts[noConnection] = len(d.nodes) == 0
	switch {
	case len(d.nodes) == 0:
		return fail(some(failed), d.advice("network", first))
	case first != nil:
		found := fmt.Sprintf("%d of %d addresses accept connections; %s", len(d.nodes), len(asked), some(failed))
		return warn(found, d.advice("network", first))
	case len(asked) == 1:
		return okf("connected to %s in %s", asked[0].addr, since(began))
	}
	return okf("connected to %d addresses in at most %s", len(asked), since(began))
}

// reach opens a connection and closes it.
func reach(ctx context.Context, network, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

func since(began time.Time) string { return fmt.Sprintf("%.2f ms", time.Since(began).Seconds()*1000) }

func checkTLS(ctx context.Context, d *doctor) finding {
	look := d.judgePlain
	if d.facts["tls"] {
		look = d.judgeTLS
	}
	f := summarize(d.nodes, func(s *server) finding { return look(ctx, s.addr) })
	d.facts[noConnection] = f.status == Fail
	return f
}

// judgeTLS judges a server's certificate.
func (d *doctor) judgeTLS(ctx context.Context, addr string) finding {
	const least = 14 // days that a certificate should still be valid
	conn, err := d.options.Dialer(ctx, d.options.Network, addr)
	if err != nil {
		return d.fail("tls", err)
	}
	_ = conn.Close() // nothing was sent
	encrypted, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return skipf("a connection of another kind")
	}
	state := encrypted.ConnectionState()
	leaf := state.PeerCertificates[0] // a server has one
	days := int(leaf.NotAfter.Sub(d.Now()).Hours() / 24)
	return judge(fmt.Sprintf("%s, certificate of %s, %d days left", tls.VersionName(state.Version), nameOf(leaf), days),
		rule{days < least, Warn, "", "Renew the certificate."})
}

func nameOf(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return cmp.Or(append(names, c.Subject.String())...)
}

// judgePlain warns of a connection without TLS to a public address: others could read passwords.
func (d *doctor) judgePlain(ctx context.Context, addr string) finding {
	if d.options.Network == "unix" {
		return okf("none needed, local socket")
	}
	host, _, _ := net.SplitHostPort(addr)
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return skipf("none; %s: %v", addr, err)
	}
	for _, ip := range ips {
		if ip = ip.Unmap(); !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() {
			return warn("none, and "+ip.String()+" is a public address", "Enable TLS on the server, and use rediss:// in --redis.")
		}
	}
	return okf("none, on a private network")
}

// checkSentinel asks the sentinels for the primary, and connects to it.
func checkSentinel(ctx context.Context, d *doctor) finding {
	d.facts[noConnection] = true
	failed, first := each(d.nodes, func(s *server) (err error) { s.primary, err = d.askSentinel(ctx, s.addr); return err })
	primary, agree, asked := "", 0, len(d.nodes)
	for _, s := range d.nodes {
		if primary = cmp.Or(primary, s.primary); s.err == nil && s.primary == primary {
			agree++
		}
	}
	if primary == "" {
		return fail(some(failed), d.advice("sentinel", first))
	}
	if err := reach(ctx, "tcp", primary); err != nil {
		return fail("the primary: "+words(err), d.advice("network", err))
	}
	d.nodes, d.facts[noConnection] = []*server{{addr: primary}}, false
	return judge(fmt.Sprintf("%d of %d sentinels report %s at %s", agree, asked, d.Redis.Failover.MasterName, primary),
		rule{agree < asked, Warn, "", "Check the sentinels that disagree: they do not count in an election."})
}

func (d *doctor) askSentinel(ctx context.Context, addr string) (primary string, err error) {
	o, f := d.options, d.Redis.Failover
	o.Addr, o.Username, o.Password, o.DB = addr, f.SentinelUsername, f.SentinelPassword, 0
	client := redis.NewSentinelClient(&o)
	defer func() { _ = client.Close() }()
	answer, err := client.GetMasterAddrByName(ctx, f.MasterName).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", fmt.Errorf("knows no primary %s", f.MasterName)
	case err == nil && len(answer) != 2:
		return "", fmt.Errorf("answers %q", answer)
	case err != nil:
		return "", err
	}
	return net.JoinHostPort(answer[0], answer[1]), nil
}

// checkSignIn signs in and sends PING, to one server after another until one answers.
func checkSignIn(ctx context.Context, d *doctor) finding {
	var first error
	for _, s := range d.nodes {
		o, began := d.options, time.Now()
		o.Addr = s.addr
		s.client = redis.NewClient(&o)
		d.closers = append(d.closers, s.client.Close)
		err := s.client.Ping(ctx).Err()
		if err == nil {
			d.nodes, d.facts[noSession] = []*server{s}, false
			return okf("%s answered %s in %s", s.addr, d.user, since(began))
		}
		first = cmp.Or(first, err)
	}
	return d.fail("sign-in", first)
}
