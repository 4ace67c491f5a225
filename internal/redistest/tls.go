package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// Arguments that say how a server is reached.
const (
	certArg     = "--tls-cert-file"
	caArg       = "--tls-ca-cert-file"
	passwordArg = "--requirepass"
	yes         = "yes"
)

// certLife is longer than any test run, and begins that long ago: clocks may be off.
const certLife = 24 * time.Hour

// Authority is a certificate authority of tests. It has issued one certificate, for
// servers at 127.0.0.1, and keeps it in files. Its methods may be called concurrently.
type Authority struct {
	caFile, certFile, keyFile string
}

// NewAuthority makes an authority that keeps its files in dir, which has to outlive the
// servers.
func NewAuthority(dir string) (*Authority, error) {
	a := &Authority{
		caFile:   filepath.Join(dir, "ca.pem"),
		certFile: filepath.Join(dir, "server.pem"),
		keyFile:  filepath.Join(dir, "server.key"),
	}
	if err := a.issue(); err != nil {
		return nil, fmt.Errorf("redistest: making certificates in %s: %w", dir, err)
	}
	return a, nil
}

// issue makes the authority's own certificate and that of the servers, and writes them.
func (a *Authority) issue() error {
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "the authority of a test"},
		NotBefore:             now.Add(-certLife),
		NotAfter:              now.Add(certLife),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: servertest.Host},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.ParseIP(servertest.Host)},
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, &serverKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		path, kind string
		der        []byte
	}{{a.caFile, "CERTIFICATE", caDER}, {a.certFile, "CERTIFICATE", serverDER}, {a.keyFile, "PRIVATE KEY", keyDER}} {
		text := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := os.WriteFile(file.path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// CAFile is the file, in PEM, that clients of the servers have to trust.
func (a *Authority) CAFile() string {
	return a.caFile
}

// Args are arguments for Start, StartCluster and StartClusterVia, which make the servers
// speak TLS and nothing else: with clients, of which they ask no certificate, and with one
// another.
func (a *Authority) Args() []string {
	return []string{
		certArg, a.certFile,
		"--tls-key-file", a.keyFile,
		caArg, a.caFile,
		"--tls-auth-clients", "no",
		"--tls-replication", yes,
		"--tls-cluster", yes,
	}
}

// ServerConfig returns the certificate with which another server at 127.0.0.1 can present itself.
func (a *Authority) ServerConfig() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(a.certFile, a.keyFile)
	if err != nil {
		return nil, fmt.Errorf("redistest: reading the servers' certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// ClientConfig trusts the authority's servers and no others.
func (a *Authority) ClientConfig() (*tls.Config, error) {
	return clientConfig(a.caFile)
}

// PasswordArgs are arguments for Start, StartCluster and StartClusterVia, which make the
// servers ask for the password, of clients and of one another.
func PasswordArgs(password string) []string {
	return []string{passwordArg, password, "--masterauth", password}
}

func clientConfig(caFile string) (*tls.Config, error) {
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("redistest: reading whom to trust: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("redistest: reading whom to trust: no certificate in %s", caFile)
	}
	return &tls.Config{RootCAs: pool, ServerName: servertest.Host, MinVersion: tls.VersionTLS12}, nil
}

// isSecure reports whether the server speaks TLS.
func (s *Server) isSecure() bool {
	return slices.Contains(s.args, certArg)
}

// portArgs name the port, of TLS or not.
func (s *Server) portArgs(port string) []string {
	if s.isSecure() {
		return []string{"--port", "0", "--tls-port", port}
	}
	return []string{"--port", port}
}

// access returns the TLS configuration of the server's clients, and the beginning of its URL, up to
// the host. topology is "" or "+cluster".
func (s *Server) access(topology string) (secure *tls.Config, password, url string) {
	s.t.Helper()
	scheme := "redis"
	if s.isSecure() {
		scheme = "rediss"
		config, err := clientConfig(s.arg(caArg))
		if err != nil {
			s.t.Errorf("%v", err)
		}
		secure = config
	}
	password = s.arg(passwordArg)
	return secure, password, scheme + topology + "://" + userinfo(password)
}

func userinfo(password string) string {
	if password == "" {
		return ""
	}
	return url.UserPassword("", password).String() + "@"
}
