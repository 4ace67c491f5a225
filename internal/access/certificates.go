package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// CertificateFiles names the files of a server, in PEM.
type CertificateFiles struct {
	Cert, Key string // the chain, leaf first, and its key
	ClientCA  string // certificates that sign client certificates; "": clients need none
}

// Certificates are the certificates in the files, as last read without error. They are safe for
// concurrent use.
type Certificates struct {
	reloader

	clients bool
	inForce atomic.Pointer[tls.Config]
}

// OpenCertificates reads the files. To follow changes, the caller runs [Certificates.Watch].
func OpenCertificates(files CertificateFiles, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{clients: files.ClientCA != ""}
	c.reloader = reloader{
		what:  "the certificate",
		names: []string{files.Cert, files.Key},
		log:   log,
		apply: c.apply,
	}
	if c.clients {
		c.names = append(c.names, files.ClientCA)
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Certificates) apply(contents [][]byte) error {
	certificate, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return fmt.Errorf("the certificate %s and its key %s: %w", c.names[0], c.names[1], err)
	}
	config := serverConfig()
	config.Certificates = []tls.Certificate{certificate}
	if c.clients {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return fmt.Errorf("%s: there is no certificate in it", c.names[2])
		}
		// A resumed session would use the authorities that were trusted at its begin.
		config.SessionTicketsDisabled = true
	}
	c.inForce.Store(config)
	return nil
}

// serverConfig allows HTTP/2, which gRPC needs, and HTTP/1.1.
func serverConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

// Config returns the configuration of a server. Each new connection uses the current certificates.
func (c *Certificates) Config() *tls.Config {
	config := serverConfig()
	config.SessionTicketsDisabled = c.clients
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return c.inForce.Load(), nil
	}
	return config
}

// Expires returns when the current server certificate expires.
func (c *Certificates) Expires() time.Time { return c.inForce.Load().Certificates[0].Leaf.NotAfter }
