package tlsdial_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter/redisstore/tlsdial"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// tlsFront accepts TLS connections for a server without TLS.
type tlsFront struct {
	addr  string
	roots *x509.CertPool

	mu    sync.Mutex
	conns []net.Conn
}

func startTLSFront(t *testing.T, backend string) *tlsFront {
	t.Helper()
	web := httptest.NewTLSServer(nil) // it has a certificate for loopback addresses
	defer web.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	f := &tlsFront{addr: listener.Addr().String(), roots: x509.NewCertPool()}
	f.roots.AddCert(web.Certificate())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", backend) //nolint:noctx // loopback
			if err != nil {
				_ = conn.Close()
				continue
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn, server)
			f.mu.Unlock()
			for _, pair := range [][2]net.Conn{{conn, server}, {server, conn}} {
				running.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.cut()
		running.Wait()
	})
	return f
}

// cut closes all connections, and returns the number of clients that had one.
func (f *tlsFront) cut() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.conns) / 2
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.conns = nil
	return n
}

// client returns a client that does not retry.
func (f *tlsFront) client(t *testing.T, conf *tls.Config) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: f.addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 10,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return tlsdial.Dial(ctx, network, addr, conf, time.Minute)
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A client does not use connections that the server closed while they were idle, even without
// retries.
func TestDialClosedIdle(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("on Windows, only use of a connection shows that it was closed")
	}
	front := startTLSFront(t, redistest.Start(t).Addr())
	client := front.client(t, &tls.Config{RootCAs: front.roots, MinVersion: tls.VersionTLS12})
	for range 2 {
		var busy sync.WaitGroup
		for range 10 {
			busy.Go(func() { _ = client.BLPop(t.Context(), 100*time.Millisecond, "nothing").Err() })
		}
		busy.Wait()
		had := front.cut()
		if had < 5 {
			t.Fatalf("%d connections were open", had)
		}
		for range had {
			if err := client.Ping(t.Context()).Err(); err != nil {
				t.Errorf("after %d connections were closed: %v", had, err)
			}
		}
	}
}

// Dial refuses a server whose certificate is not trusted or is for another host.
func TestDialRefuses(t *testing.T) {
	front := startTLSFront(t, redistest.Start(t).Addr())
	for says, conf := range map[string]*tls.Config{
		"unknown authority": nil,
		"not other.test":    {RootCAs: front.roots, ServerName: "other.test", MinVersion: tls.VersionTLS12},
	} {
		err := front.client(t, conf).Ping(t.Context()).Err()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}

// Dial does not wait for a server that never answers.
func TestDialTimeout(t *testing.T) {
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	conn, err := tlsdial.Dial(t.Context(), "tcp", silent.Addr().String(), nil, 20*time.Millisecond)
	if err == nil {
		_ = conn.Close()
		t.Error("it connected")
	}
}
