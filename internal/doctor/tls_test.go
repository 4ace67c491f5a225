package doctor

import (
	"crypto/x509"
	"net"
	"testing"
)

// Without TLS, the finding depends on the server's address.
func TestPlain(t *testing.T) {
	t.Parallel()
	d := newDoctor(Config{})
	for addr, want := range map[string]string{
		"127.0.0.1:6379":     "ok none, on a private network",
		"[::1]:6379":         "ok none, on a private network",
		"10.1.2.3:6379":      "ok none, on a private network",
		"192.0.2.1:6379":     "warn none, and 192.0.2.1 is a public address",
		"[2001:db8::1]:6379": "warn none, and 2001:db8::1 is a public address",
	} {
		if f := d.judgePlain(t.Context(), addr); f.status.String()+" "+f.found != want {
			t.Errorf("%s: %v %s, want %s", addr, f.status, f.found, want)
		}
	}
	d.options.Network = "unix"
	if f := d.judgePlain(t.Context(), "/run/redis.sock"); f.status != OK {
		t.Errorf("%+v", f)
	}
}

// A certificate without a host name has that of its first address.
func TestNameOf(t *testing.T) {
	t.Parallel()
	c := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}
	if got := nameOf(c); got != "10.0.0.1" {
		t.Errorf("%q", got)
	}
}
