package access_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// authority is a certificate authority, with one certificate for servers and clients.
type authority struct{ ca, cert, key string }

func newAuthority(t *testing.T) authority {
	t.Helper()
	dir := t.TempDir()
	if _, err := redistest.NewAuthority(dir); err != nil {
		t.Fatal(err)
	}
	return authority{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")}
}

func (a authority) pair(t *testing.T) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.cert, a.key)
	must(t, err)
	return pair
}

// client returns a client that trusts the authority. It has a certificate of the authority shows;
// nil: none.
func (a authority) client(t *testing.T, shows *authority) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(a.ca)
	must(t, err)
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(10)}
	c.RootCAs.AppendCertsFromPEM(text)
	if shows != nil {
		pair := shows.pair(t)
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err)
	write(t, to, string(text))
}

// shake connects client and server, and returns the state of the client.
func shake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		defer raw.Close()
		conn := tls.Server(raw, server)
		if err = conn.HandshakeContext(t.Context()); err == nil {
			_, err = conn.Write([]byte("x"))
		}
		served <- err
	}()
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	must(t, err)
	defer raw.Close()
	conn := tls.Client(raw, client)
	_, err = conn.Read(make([]byte, 1)) // with TLS 1.3, the server refuses a client only after the client's handshake
	if err != nil {
		_ = raw.Close()
	}
	return conn.ConnectionState(), errors.Join(err, <-served)
}

func TestCertificates(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	files := access.CertificateFiles{Cert: filepath.Join(t.TempDir(), "cert.pem"), Key: filepath.Join(t.TempDir(), "key.pem")}
	put := func(a authority) {
		copyFile(t, files.Cert, a.cert)
		copyFile(t, files.Key, a.key)
	}
	put(first)
	c, err := access.OpenCertificates(files, slog.New(slog.DiscardHandler))
	must(t, err)
	config := c.Config() // the server keeps this configuration
	if state, err := shake(t, config, first.client(t, nil)); err != nil || state.Version != tls.VersionTLS13 {
		t.Errorf("%x, %v", state.Version, err)
	}
	old := first.client(t, nil)
	old.MaxVersion = tls.VersionTLS12
	if state, err := shake(t, config, old); err != nil || state.Version != tls.VersionTLS12 {
		t.Errorf("TLS 1.2: %x, %v", state.Version, err)
	}
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := shake(t, config, old); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	h2 := first.client(t, nil)
	h2.NextProtos = []string{"h2", "http/1.1"}
	if state, err := shake(t, config, h2); err != nil || state.NegotiatedProtocol != "h2" {
		t.Errorf("negotiated %q, %v", state.NegotiatedProtocol, err)
	}
	if left := first.pair(t).Leaf.NotAfter; !c.Expires().Equal(left) {
		t.Errorf("expires %v, want %v", c.Expires(), left)
	}

	// A certificate without its key, as for a moment while both are being replaced.
	copyFile(t, files.Cert, second.cert)
	if c.Reload(t.Context()) == nil || !c.Stats().Failing {
		t.Error("a certificate without its key is accepted")
	}
	if _, err := shake(t, config, first.client(t, nil)); err != nil {
		t.Errorf("previous certificate: %v", err)
	}
	put(second)
	if err := c.Reload(t.Context()); err != nil || c.Stats() != (access.ReloadStats{Reloads: 1, Failures: 1}) {
		t.Errorf("%v, %+v", err, c.Stats())
	}
	if _, err := shake(t, config, second.client(t, nil)); err != nil {
		t.Errorf("new certificate: %v", err)
	}
	if _, err := shake(t, config, first.client(t, nil)); err == nil {
		t.Error("the old certificate is still in use")
	}
	for _, bad := range []string{"", "x"} {
		write(t, files.Key, bad)
		if _, err := access.OpenCertificates(files, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("with %q as key", bad)
		}
	}
}

func TestClientCertificates(t *testing.T) {
	server, clients, strangers := newAuthority(t), newAuthority(t), newAuthority(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	copyFile(t, ca, clients.ca)
	c, err := access.OpenCertificates(access.CertificateFiles{Cert: server.cert, Key: server.key, ClientCA: ca}, slog.New(slog.DiscardHandler))
	must(t, err)
	config := c.Config()
	right := server.client(t, &clients)
	want := func(what string, client *tls.Config, good bool) {
		t.Helper()
		if _, err := shake(t, config, client); (err == nil) != good {
			t.Errorf("%s: %v", what, err)
		}
	}
	want("the right one", right, true)
	want("none", server.client(t, nil), false)
	want("one of somebody else's", server.client(t, &strangers), false)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		right.MaxVersion = version
		want("the right one", right, true)
		if state, err := shake(t, config, right); err != nil || state.DidResume {
			t.Errorf("TLS %x: resumed: %v, %v", version, state.DidResume, err)
		}
	}
	// Now another authority is trusted. Earlier sessions must not be resumed.
	copyFile(t, ca, strangers.ca)
	must(t, c.Reload(t.Context()))
	want("what was the right one", right, false)
	want("what is now", server.client(t, &strangers), true)
	write(t, ca, "x")
	if c.Reload(t.Context()) == nil {
		t.Error("a file without certificates is accepted")
	}
	want("after a broken file", server.client(t, &strangers), true)
}
