// Package tlsdial connects Redis clients with TLS so that their pools notice closed connections.
package tlsdial

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial connects to addr with TLS 1.2 or later; use it in a client's Dialer. The certificate must be
// for conf.ServerName or, if that is empty, for the host in addr; conf may be nil. Dial ends after
// timeout, or after 5 seconds if timeout is 0.
//
// The client's pool can detect that the server has closed the connection, as it can without TLS. It
// cannot with a connection of crypto/tls: one command then fails on each closed connection. Retries
// do not hide so many failures, and they can open a circuit breaker.
func Dial(
	ctx context.Context, network, addr string, conf *tls.Config, timeout time.Duration,
) (net.Conn, error) {
	conf = cmp.Or(conf, &tls.Config{}).Clone()
	conf.MinVersion = max(conf.MinVersion, tls.VersionTLS12)
	d := tls.Dialer{Config: conf, NetDialer: &net.Dialer{Timeout: cmp.Or(timeout, 5*time.Second)}}
	conn, err := d.DialContext(ctx, network, addr)
	if op, ok := errors.AsType[*net.OpError](err); err != nil && !(ok && op.Op == "dial") {
		// A dial error tells the client that nothing was sent, so it may retry.
		return nil, &net.OpError{
			Op:  "dial",
			Net: network,
			Err: fmt.Errorf("TLS handshake with %s: %w", addr, err),
		}
	}
	if err != nil {
		return nil, err
	}
	return seeThrough(conn.(*tls.Conn)), nil //nolint:forcetypeassert // as the Dialer promises
}
