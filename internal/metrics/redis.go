package metrics

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

// Labels of a client, and of one of its nodes.
const (
	labelClient = "client"
	labelNode   = "node"
)

// Reasons why commands fail.
const (
	failNetwork = "network"
	failTimeout = "timeout"
	failPool    = "pool"    // no connection was free in time
	failBreaker = "breaker" // not sent: the node failed or refused recently
	failReply   = "reply"   // the server answered with an error
)

// Redis counts the commands and connections of clients of Redis.
type Redis struct {
	seconds          *prometheus.HistogramVec
	commands, failed *prometheus.CounterVec
	sent, received   *prometheus.CounterVec
	pages            prometheus.Counter

	mu       sync.Mutex
	nodes    map[nodeName]weak.Pointer[redis.Client] // those that left a cluster disappear
	breakers map[string]*redisstore.Breakers         // by client
}

type nodeName struct{ client, addr string }

// Redis adds the metrics of the Redis clients that are watched.
func (r *Registry) Redis() *Redis {
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.registry.MustRegister(v)
		return v
	}
	d := &Redis{
		seconds: prometheus.NewHistogramVec(durations("feedfilter_redis_round_trip_seconds",
			"Duration of commands and pipelines, retries included."),
			[]string{labelClient, labelNode}),
		commands: vector("feedfilter_redis_commands_total",
			"Commands sent to Redis.", labelClient, "command"),
		failed: vector("feedfilter_redis_errors_total",
			"Round trips that failed, unless cancelled by the caller.", labelClient, labelNode, "reason"),
		sent: vector("feedfilter_redis_sent_bytes_total",
			"Bytes sent, before encryption.", labelClient),
		received: vector("feedfilter_redis_received_bytes_total",
			"Bytes received, after decryption.", labelClient),
		pages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "feedfilter_page_read_bytes_total", Help: "Bytes of pages read from Redis."}),
		nodes:    make(map[nodeName]weak.Pointer[redis.Client]),
		breakers: make(map[string]*redisstore.Breakers),
	}
	r.registry.MustRegister(d.seconds, d.pages)
	r.add(d.states)
	return d
}

// states sends the states of pools and breakers.
func (d *Redis) states(to sink) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for client, breakers := range d.breakers {
		reads, writes := breakers.Open()
		for node, isOpen := range reads {
			gauge(to, "feedfilter_redis_breaker_open", "1 while reads of a node are suspended.",
				truth(isOpen), labelClient, client, labelNode, node)
		}
		for node, isOpen := range writes {
			gauge(to, "feedfilter_redis_writes_breaker_open",
				"1 while writes to a node are suspended.",
				truth(isOpen), labelClient, client, labelNode, node)
		}
	}
	for name, node := range d.nodes {
		client := node.Value()
		if client == nil {
			delete(d.nodes, name)
			continue
		}
		s := client.PoolStats()
		pool(to, s, labelClient, name.client, labelNode, name.addr, "pool", "commands")
		if s.PipelineStats != nil {
			s := (*redis.PoolStats)(s.PipelineStats)
			pool(to, s, labelClient, name.client, labelNode, name.addr, "pool", "pipelines")
		}
	}
}

func pool(to sink, s *redis.PoolStats, labels ...string) {
	const connections = "feedfilter_redis_pool_connections"
	const help = "Connections to Redis, used or idle."
	used := s.TotalConns - min(s.TotalConns, s.IdleConns)
	gauge(to, connections, help, used, append(labels, "state", "used")...)
	gauge(to, connections, help, s.IdleConns, append(labels, "state", "idle")...)
	counter(to, "feedfilter_redis_pool_hits_total",
		"Times an idle connection was available.", s.Hits, labels...)
	counter(to, "feedfilter_redis_pool_misses_total",
		"Times no idle connection was available.", s.Misses, labels...)
	counter(to, "feedfilter_redis_pool_timeouts_total",
		"Times no connection became free in time.", s.Timeouts, labels...)
	counter(to, "feedfilter_redis_pool_stale_total",
		"Stale connections removed from the pool.", s.StaleConns, labels...)
}

// Watch counts the commands of client under name: "pages" or "replicas". Call it once, before the
// client is guarded and used.
func (d *Redis) Watch(name string, client redis.UniversalClient) {
	switch c := client.(type) {
	case *redis.ClusterClient:
		c.OnNewNode(func(node *redis.Client) { d.watchNode(name, node) })
	case *redis.Client:
		d.watchNode(name, c)
	}
}

func (d *Redis) watchNode(client string, node *redis.Client) {
	name := nodeName{client, node.Options().Addr}
	node.AddHook(d.node(name))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[name] = weak.Make(node)
}

// Breakers adds the breakers of a watched client.
func (d *Redis) Breakers(name string, b *redisstore.Breakers) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.breakers[name] = b
}

// redisNode counts the commands of a client to one node. It implements [redis.Hook].
type redisNode struct {
	seconds               prometheus.Observer
	commands              *prometheus.CounterVec
	failed                map[string]prometheus.Counter
	sent, received, pages prometheus.Counter
}

func (d *Redis) node(name nodeName) *redisNode {
	labels := prometheus.Labels{labelClient: name.client, labelNode: name.addr}
	n := &redisNode{
		seconds:  d.seconds.With(labels),
		commands: d.commands.MustCurryWith(prometheus.Labels{labelClient: name.client}),
		failed:   make(map[string]prometheus.Counter),
		sent:     d.sent.WithLabelValues(name.client),
		received: d.received.WithLabelValues(name.client),
		pages:    d.pages,
	}
	for _, reason := range []string{failNetwork, failTimeout, failPool, failBreaker, failReply} {
		n.failed[reason] = d.failed.WithLabelValues(name.client, name.addr, reason)
	}
	return n
}

// DialHook implements [redis.Hook].
func (n *redisNode) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		counted := countedConn{conn, n.received, n.sent}
		if socket, ok := conn.(syscall.Conn); ok {
			return countedSocket{counted, socket}, nil
		}
		return counted, nil
	}
}

// ProcessHook implements [redis.Hook].
func (n *redisNode) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		start := time.Now()
		err := next(ctx, cmd)
		reason := failureOf(err)
		if reason == failReply && cmd.Name() == introduction {
			reason = ""
		}
		if n.done(start, reason) {
			n.count(cmd)
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (n *redisNode) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		start := time.Now()
		err := next(ctx, cmds)
		if n.done(start, worst(err, cmds)) {
			for _, cmd := range cmds {
				n.count(cmd)
			}
		}
		return err
	}
}

// introduction is the command by which a client introduces itself on a new connection. Not every
// server knows it.
const introduction = "client"

// worst returns why a pipeline failed, from err or the error of a command; "" if it did not fail.
// If the sign-in is refused, unsent commands have no error.
func worst(err error, cmds []redis.Cmder) (reason string) {
	if _, ok := errors.AsType[redis.Error](err); !ok { // a server's error belongs to a command
		reason = failureOf(err)
	}
	told := false
	for i := 0; reason == "" && i < len(cmds); i++ {
		told = told || cmds[i].Err() != nil
		if cmds[i].Name() != introduction {
			reason = failureOf(cmds[i].Err())
		}
	}
	if reason == "" && !told {
		reason = failureOf(err)
	}
	return reason
}

// done counts the end of a round trip, and reports whether the round trip was made.
func (n *redisNode) done(start time.Time, reason string) bool {
	if reason != "" {
		n.failed[reason].Inc()
	}
	if reason == failBreaker || reason == failPool {
		return false
	}
	n.seconds.Observe(time.Since(start).Seconds())
	return true
}

func (n *redisNode) count(cmd redis.Cmder) {
	n.commands.WithLabelValues(cmd.Name()).Inc() // all names are in this program
	read, ok := cmd.(*redis.Cmd)
	if !ok || cmd.Name() != "mget" { // only MGET reads pages
		return
	}
	size := 0
	values, _ := read.Slice() // none if the command failed
	for _, val := range values {
		if page, ok := val.(string); ok {
			size += len(page)
		}
	}
	n.pages.Add(float64(size))
}

// failureOf returns why a round trip failed; "" if it did not, or if its error is normal.
func failureOf(err error) string {
	switch {
	case err == nil, errors.Is(err, redis.Nil), errors.Is(err, context.Canceled),
		errors.Is(err, redis.ErrClosed):
		return ""
	case errors.Is(err, redisstore.ErrUnavailable):
		return failBreaker
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return failPool
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		switch code, _, _ := strings.Cut(reply.Error(), " "); code {
		case "NOSCRIPT", "MOVED", "ASK": // the client follows these
			return ""
		default:
			return failReply
		}
	}
	var slow net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &slow) && slow.Timeout() {
		return failTimeout
	}
	return failNetwork
}

// countedConn counts the bytes of a connection.
type countedConn struct {
	net.Conn

	received, sent prometheus.Counter
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(float64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(float64(n))
	return n, err
}

// countedSocket is a countedConn whose end the client's pool can detect.
type countedSocket struct {
	countedConn
	syscall.Conn
}
