package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// DialTLS connects to addr with TLS 1.2 or later, for a client's Dialer. The name that the
// certificate must have is conf.ServerName, or else the host in addr; conf may be nil. It
// ends after timeout; 0: 5 seconds.
//
// Of the connection, the pool of the client can see whether the server has closed it, as of
// one without TLS. Of one that crypto/tls makes it cannot: when a server closes its
// connections, then as many commands as there were connections fail once, which is more
// than retries hide, and enough for [Guard] to give the node up.
func DialTLS(ctx context.Context, network, addr string, conf *tls.Config, timeout time.Duration) (net.Conn, error) {
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("connect with TLS: %w", err)
	}
	if conf == nil {
		conf = &tls.Config{}
	}
	conf = conf.Clone()
	conf.MinVersion = max(conf.MinVersion, tls.VersionTLS12)
	if conf.ServerName == "" {
		conf.ServerName = host
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		// As an error of dialling: nothing was sent, so the client may try again.
		return nil, &net.OpError{Op: "dial", Net: network, Addr: raw.RemoteAddr(), Err: fmt.Errorf("TLS handshake: %w", err)}
	}
	return seeThrough(conn, raw), nil
}
