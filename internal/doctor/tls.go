package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/feedfilter/feedfilter/favfilter/redisstore"
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
			return redisstore.DialTLS(ctx, network, addr, d.servers.Failover.TLSConfig, d.servers.Failover.DialTimeout)
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
