package ledger

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// canceler decides which calls that were given up also send a cancel request. The driver sends one
// for each such call, on a connection of its own, so that the server ends the statement at once.
//
//   - A server that answers gets cancel requests. While it does not answer, they would pile up.
//   - None goes through a pooler, which keeps it until the server takes it. PgBouncer 1.18 ends if
//     it cannot pass on a cancel request before its sender leaves. Without one, the server ends an
//     abandoned statement within the time limits of the session.
type canceler struct {
	dial pgconn.DialFunc
	gone atomic.Bool // the last call that ended got no answer in time
}

// noCancel is the network of a cancel request that is not sent.
const noCancel = "no cancel request"

var errNoCancel = errors.New("cancel request not sent")

// connect is the dialer of connections and cancel requests. The driver sends the cancel request of
// a connection to its remote address.
func (c *canceler) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if network == noCancel {
		return nil, errNoCancel
	}
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return serverConn{conn, &serverAddr{of: c, network: network, address: address}}, nil
}

// note notes how a call ended.
func (c *canceler) note(err error) {
	_, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil || refused:
		c.gone.Store(false)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errStalled):
		c.gone.Store(true)
	}
}

// serverConn is a connection with a serverAddr.
type serverConn struct {
	net.Conn

	addr *serverAddr
}

// RemoteAddr returns the address of cancel requests.
func (c serverConn) RemoteAddr() net.Addr { return c.addr }

// serverAddr is where a connection leads to.
type serverAddr struct {
	of               *canceler
	network, address string      // as dialed
	direct           atomic.Bool // there is no pooler; false: it is not known yet
}

// Network returns the network for a cancel request.
func (a *serverAddr) Network() string {
	if !a.direct.Load() || a.of.gone.Load() {
		return noCancel
	}
	return a.network
}

func (a *serverAddr) String() string { return a.address }

// serverOf returns the address of a connection that a canceler has dialed.
func serverOf(conn *pgconn.PgConn) *serverAddr {
	addr, _ := conn.Conn().RemoteAddr().(*serverAddr)
	return addr
}
