package awstest

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/elasticachetest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// Front stands in front of a Redis server like ElastiCache. Clients connect with TLS, and sign in
// with an IAM token, which the front checks. The front signs in to the server with a password.
type Front struct {
	Name, User string // name of the cache, and of the user that may sign in
	Serverless bool

	roots    *x509.CertPool
	pem      []byte
	addr     string
	conns    *servertest.Conns
	backend  string // address of the server
	password string // of User there

	mu      sync.Mutex
	signIns int
	refused []error
}

// StartFront returns a front of the server at backend, where user has that password. The front ends
// with the test.
func StartFront(t testing.TB, name string, serverless bool, backend, user, password string) *Front {
	t.Helper()
	web := httptest.NewTLSServer(nil) // it has a certificate for loopback addresses
	defer web.Close()
	secure := &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	listener, err := tls.Listen("tcp", servertest.Addr(servertest.ReservePort(t)), secure)
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{
		Name: name, User: user, Serverless: serverless,
		roots: x509.NewCertPool(), addr: listener.Addr().String(), backend: backend, password: password,
	}
	f.roots.AddCert(web.Certificate())
	f.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	f.conns = servertest.Serve(listener, func(conns *servertest.Conns, conn net.Conn) {
		_ = f.serve(conns, conn, time.Now())
		conns.Drop(conn)
	})
	t.Cleanup(func() {
		f.conns.Close()
		f.conns.Wait()
	})
	return f
}

// Addr returns the address for clients.
func (f *Front) Addr() string { return f.addr }

// Roots returns a pool with the certificate of the front.
func (f *Front) Roots() *x509.CertPool { return f.roots }

// CAFile returns a file with the certificate, for the variable SSL_CERT_FILE.
func (f *Front) CAFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, f.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Cut closes all connections.
func (f *Front) Cut() { f.conns.Cut() }

// SignIns returns the number of accepted tokens, and the reasons why others were refused.
func (f *Front) SignIns() (taken int, refused []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.signIns, f.refused
}

func (f *Front) serve(conns *servertest.Conns, conn net.Conn, accepted time.Time) error {
	server, err := net.Dial("tcp", f.backend) //nolint:noctx // loopback
	if err != nil {
		return err
	}
	if !conns.Hold(server) {
		return nil
	}
	defer conns.Drop(server)
	in, out := bufio.NewReader(conn), bufio.NewReader(server)
	for signedIn := false; !signedIn; {
		command, err := elasticachetest.ReadRequest(in)
		if err != nil {
			return err
		}
		if signedIn, err = f.signIn(conn, accepted, command); err != nil {
			return err
		}
		if signedIn {
			command[len(command)-1] = f.password
			if err := command.Write(server); err != nil {
				return err
			}
		}
	}
	go func() {
		_, _ = out.WriteTo(conn)
		_ = conn.Close()
	}()
	_, err = in.WriteTo(server)
	return err
}

// signIn answers a command of a client that has not signed in. The token must not be signed in an
// earlier second than the one in which the connection was accepted.
func (f *Front) signIn(conn net.Conn, accepted time.Time, command []string) (bool, error) {
	hello := len(command) == 5 && strings.EqualFold(command[0], "hello") &&
		strings.EqualFold(command[2], "auth")
	if !hello && (len(command) != 3 || !strings.EqualFold(command[0], "auth")) {
		_, err := io.WriteString(conn, "-NOAUTH Authentication required.\r\n")
		return false, err
	}
	user, token := command[len(command)-2], command[len(command)-1]
	err := CheckToken(token, f.Name, f.User, f.Serverless, time.Now())
	if err == nil && user != f.User {
		err = fmt.Errorf("the user is %q", user)
	}
	if err == nil {
		_, date, _ := strings.Cut(token, "X-Amz-Date=")
		signed, _ := time.Parse("20060102T150405Z", date[:min(16, len(date))])
		if signed.Before(accepted.Truncate(time.Second)) {
			err = errors.New("the token is older than the connection")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.refused = append(f.refused, err)
		const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		_, err = io.WriteString(conn, wrong)
		return false, err
	}
	f.signIns++
	return true, nil
}
