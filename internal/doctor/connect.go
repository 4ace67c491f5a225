package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// known reports whether the addresses of the servers are known.
func (d *Doctor) known() bool {
	return d.servers.Single != nil || d.servers.Cluster != nil || d.servers.Failover != nil
}

// addresses returns the addresses to connect to first.
func (d *Doctor) addresses() (network string, addrs []string) {
	switch {
	case d.servers.Cluster != nil:
		return "tcp", d.servers.Cluster.Addrs
	case d.servers.Failover != nil:
		return "tcp", d.servers.Failover.SentinelAddrs
	default:
		return cmp.Or(d.servers.Single.Network, "tcp"), []string{d.servers.Single.Addr}
	}
}

// checkNetwork opens connections and closes them at once.
func (d *Doctor) checkNetwork(ctx context.Context) finding {
	if !d.known() {
		return skipf("the address of the cache is unknown")
	}
	network, addrs := d.addresses()
	errs, took := make([]error, len(addrs)), make([]time.Duration, len(addrs))
	var running sync.WaitGroup
	for i, addr := range addrs {
		running.Go(func() { took[i], errs[i] = connectOnce(ctx, network, addr) })
	}
	running.Wait()
	var longest time.Duration
	var failed []string
	var first error
	for i, addr := range addrs {
		if errs[i] != nil {
			failed = append(failed, words(errs[i]))
			first = cmp.Or(first, errs[i])
			continue
		}
		d.reached = append(d.reached, addr)
		longest = max(longest, took[i])
	}
	switch {
	case len(d.reached) == 0:
		return fail(strings.Join(failed, "; "), networkTodo(first))
	case len(failed) > 0:
		return warn(fmt.Sprintf("%d of %d addresses accept connections; %s", len(d.reached), len(addrs), strings.Join(failed, "; ")),
			networkTodo(first))
	case len(addrs) == 1:
		return okf("connected to %s in %s", addrs[0], milliseconds(longest))
	}
	return okf("connected to %d addresses in at most %s", len(addrs), milliseconds(longest))
}

func connectOnce(ctx context.Context, network, addr string) (time.Duration, error) {
	began := time.Now()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return 0, err
	}
	return time.Since(began), conn.Close()
}

func networkTodo(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "Correct the host in --redis, or this machine's DNS."
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "Start the server, or correct the port in --redis."
	}
	if failure, ok := errors.AsType[net.Error](err); ok && failure.Timeout() {
		return "Let this machine reach the server: a firewall, a security group or a missing route drops its packets."
	}
	return "Check the network between this machine and the server."
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
