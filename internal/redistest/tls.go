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

// These are names of arguments that set how clients reach a server.
const (
	certArg     = "--tls-cert-file"
	caArg       = "--tls-ca-cert-file"
	passwordArg = "--requirepass"
	yes         = "yes"
)

// certLife is longer than any test run. Certificates are also valid for that long before now,
// because clocks may differ.
const certLife = 24 * time.Hour

// Authority is a certificate authority for tests. It has issued one certificate for servers at
// 127.0.0.1, which it keeps in files. Its methods may be called concurrently.
type Authority struct {
	caFile, certFile, keyFile string
}

// NewAuthority makes an authority with its files in dir. The directory must exist as long as the
// servers run.
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

// issue makes the authority's certificate and the servers' certificate, and writes both to files.
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
	}{
		{a.caFile, "CERTIFICATE", caDER},
		{a.certFile, "CERTIFICATE", serverDER},
		{a.keyFile, "PRIVATE KEY", keyDER},
	} {
		text := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := os.WriteFile(file.path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// CAFile returns the path of the PEM file that clients must trust.
func (a *Authority) CAFile() string {
	return a.caFile
}

// Args returns arguments for Start, StartCluster and StartClusterVia. With them the servers accept
// only TLS, from clients and from one another. Clients need no certificate.
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

// ServerConfig returns a configuration with the certificate, for another server at 127.0.0.1.
func (a *Authority) ServerConfig() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(a.certFile, a.keyFile)
	if err != nil {
		return nil, fmt.Errorf("redistest: reading the servers' certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// ClientConfig returns a configuration that trusts only the authority's servers.
func (a *Authority) ClientConfig() (*tls.Config, error) {
	return clientConfig(a.caFile)
}

// PasswordArgs returns arguments for Start, StartCluster and StartClusterVia. With them the servers
// require the password of clients and of one another.
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

// isSecure reports whether the server uses TLS.
func (s *Server) isSecure() bool {
	return slices.Contains(s.args, certArg)
}

// portArgs returns the arguments that set the port, with or without TLS.
func (s *Server) portArgs(port string) []string {
	if s.isSecure() {
		return []string{"--port", "0", "--tls-port", port}
	}
	return []string{"--port", port}
}

// access returns the TLS configuration of the server's clients, the password, and the part of its
// URL before the host. topology is "" or "+cluster".
func (s *Server) access(topology string) (secure *tls.Config, password, url string) {
	s.T.Helper()
	scheme := "redis"
	if s.isSecure() {
		scheme = "rediss"
		config, err := clientConfig(s.arg(caArg))
		if err != nil {
			s.T.Errorf("%v", err)
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
