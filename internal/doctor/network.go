package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
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
	first, cancel := context.WithTimeout(ctx, 6*time.Second) // leaves time for the file
	defer cancel()
	cache, err := elasticache.Open(first, config)
	if err == nil {
		return d.judgeAWS(cache, &config)
	}
	text, missing := os.ReadFile(file)
	dir, full := os.MkdirTemp("", "feedfilter-doctor-")
	if full != nil || missing != nil {
		_ = os.Remove(dir)
		return d.fail("aws", err)
	}
	d.closers = append(d.closers, func() error { return os.RemoveAll(dir) }) // once the cache is closed
	config.File = filepath.Join(dir, filepath.Base(file))                    // a copy, because the client writes AWS's answer to it
	if err := os.WriteFile(config.File, text, 0o600); err != nil {           //nolint:gosec // in a new temporary directory
		return fail(words(err), "Free space in the directory of temporary files.")
	}
	cache, refused := elasticache.Open(ctx, config)
	if refused != nil {
		return d.fail("aws", err)
	}
	f := d.judgeAWS(cache, &config)
	if f.status != OK {
		return f
	}
	return warn(fmt.Sprintf("%s; a service started now uses the last answer of AWS, in %s: %s", words(err), file, f.found),
		d.advice("aws", err)+" Without that file, no service starts.")
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

// checkNetwork opens connections and closes them at once.
func checkNetwork(ctx context.Context, d *doctor) finding {
	errs, began := make([]error, len(d.addrs)), time.Now()
	var running sync.WaitGroup
	for i, addr := range d.addrs {
		running.Go(func() { errs[i] = reach(ctx, d.network, addr) })
	}
	running.Wait()
	var reached, failed []string
	for i, addr := range d.addrs {
		if errs[i] == nil {
			reached = append(reached, addr)
		} else {
			failed = append(failed, words(errs[i]))
		}
	}
	first, asked := cmp.Or(errs...), len(d.addrs)
	d.addrs, d.facts["connection"] = reached, len(reached) > 0
	switch {
	case len(reached) == 0:
		return fail(some(failed), d.advice("network", first))
	case first != nil:
		return warn(fmt.Sprintf("%d of %d addresses accept connections; %s", len(reached), asked, some(failed)), d.advice("network", first))
	case asked == 1:
		return okf("connected to %s in %s", reached[0], since(began))
	}
	return okf("connected to %d addresses in at most %s", asked, since(began))
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

// checkTLS checks the servers' certificates.
func checkTLS(ctx context.Context, d *doctor) finding {
	if d.dial == nil {
		return judgePlain(ctx, d.network, d.addrs)
	}
	const least = 14 // days that a certificate should still be valid
	var f finding
	left := math.MaxInt
	for _, addr := range d.addrs {
		conn, err := d.dial(ctx, d.network, addr)
		if err != nil {
			d.facts["connection"] = false
			return d.fail("tls", err)
		}
		_ = conn.Close() // nothing was sent
		encrypted, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
		if !ok {
			return skipf("a connection of another kind")
		}
		state := encrypted.ConnectionState()
		leaf := state.PeerCertificates[0] // a server has one
		if days := int(leaf.NotAfter.Sub(d.Now()).Hours() / 24); days < left {
			left = days
			f = okf("%s, certificate of %s, %d days left", tls.VersionName(state.Version), nameOf(leaf), days)
		}
	}
	if left < least {
		return warn(f.found, "Renew the certificate.")
	}
	return f
}

func nameOf(c *x509.Certificate) string {
	if len(c.DNSNames) > 0 {
		return c.DNSNames[0]
	}
	return c.Subject.String()
}

// judgePlain warns of connections without TLS to a public address: others could read passwords.
func judgePlain(ctx context.Context, network string, addrs []string) finding {
	if network == "unix" {
		return okf("none needed, local socket")
	}
	for _, addr := range addrs {
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
	}
	return okf("none, on a private network")
}

// checkSentinel asks the sentinels for the primary, and connects to it.
func checkSentinel(ctx context.Context, d *doctor) finding {
	d.facts["connection"] = false
	name := d.Redis.Failover.MasterName
	var first error
	var failed []string
	primary, agree := "", 0
	for _, addr := range d.addrs {
		answer, err := d.askSentinel(ctx, addr)
		if err != nil {
			first, failed = cmp.Or(first, err), append(failed, addr+": "+words(err))
			continue
		}
		if primary = cmp.Or(primary, answer); primary == answer {
			agree++
		}
	}
	if primary == "" {
		return fail(some(failed), d.advice("sentinel", first))
	}
	if err := reach(ctx, "tcp", primary); err != nil {
		return fail("the primary: "+words(err), d.advice("network", err))
	}
	found := fmt.Sprintf("%d of %d sentinels report %s at %s", agree, len(d.addrs), name, primary)
	asked := len(d.addrs)
	d.addrs, d.facts["connection"] = []string{primary}, true
	if agree < asked {
		return warn(found, "Check the sentinels that disagree: they do not count in an election.")
	}
	return okf("%s", found)
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
	for _, addr := range d.addrs {
		client, began := d.client(addr), time.Now()
		err := client.Ping(ctx).Err()
		if err == nil {
			d.closers = append(d.closers, client.Close)
			d.nodes, d.pages, d.facts["session"] = []*server{{addr: addr, client: client}}, client, true
			return okf("%s answered %s in %s", addr, d.user, since(began))
		}
		_ = client.Close()
		first = cmp.Or(first, err)
	}
	return d.fail("sign-in", first)
}
