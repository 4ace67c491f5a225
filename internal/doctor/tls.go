package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/feedfilter/feedfilter/favfilter/redisstore/tlsdial"
)

// leastValidity is how long a certificate should hold yet.
const leastValidity = 14 * 24 * time.Hour

// dialTLS returns what makes encrypted connections as the client does; nil: the client makes none.
func (d *Doctor) dialTLS() func(ctx context.Context, network, addr string) (net.Conn, error) {
	switch {
	case d.cache != nil && !d.cache.TLS():
		return nil
	case d.servers.Cluster != nil && (d.cache != nil || d.servers.Cluster.TLSConfig != nil):
		return d.servers.Cluster.Dialer
	case d.servers.Failover != nil && d.servers.Failover.TLSConfig != nil:
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			return tlsdial.Dial(ctx, network, addr, d.servers.Failover.TLSConfig, d.servers.Failover.DialTimeout)
		}
	case d.servers.Single != nil && (d.cache != nil || d.servers.Single.TLSConfig != nil):
		return d.servers.Single.Dialer
	}
	return nil
}

// checkTLS looks at the certificates.
func (d *Doctor) checkTLS(ctx context.Context) finding {
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
			return fail(words(err), tlsTodo(err))
		}
		_ = conn.Close() // nothing was sent
		encrypted, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
		if !ok {
			return skipf("a connection of another kind")
		}
		state := encrypted.ConnectionState()
		leaf := state.PeerCertificates[0] // a server has one
		if l := leaf.NotAfter.Sub(d.config.Now()); l < left {
			left = l
			f = okf("%s, certificate of %s, %d days left", tls.VersionName(state.Version), nameOf(leaf), int(l.Hours()/24))
		}
	}
	if left < leastValidity {
		return warn(f.found, "Have the certificate renewed.")
	}
	return f
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
	return "See that the server has TLS at this port, or use redis:// in place of rediss://."
}

// judgePlain judges connections without TLS. Anyone on the network path can read passwords.
func judgePlain(ctx context.Context, network string, addrs []string) finding {
	if network == "unix" {
		return okf("none, on a socket of this machine")
	}
	for _, addr := range addrs {
		host, _, _ := net.SplitHostPort(addr)
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return skipf("none; %s: %v", addr, err)
		}
		for _, ip := range ips {
			if ip = ip.Unmap(); !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() {
				return warn("none, and "+ip.String()+" is a public address",
					"Encrypt: enable TLS at the server, and use rediss:// in --redis.")
			}
		}
	}
	return okf("none, on a private network")
}
