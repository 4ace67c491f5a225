// Package redisurl parses the URLs of Redis servers: one server, a cluster, servers behind
// Sentinel, or a cache of Amazon ElastiCache.
package redisurl

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/favfilter/redisstore/tlsdial"
)

const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// serverDefaults returns the default settings of a client. The query can change them.
func serverDefaults() map[string]string {
	return map[string]string{
		"dial_timeout":      "1s",
		"read_timeout":      "2s",
		"write_timeout":     "2s",
		"max_retries":       "2", // of a command, after a network error
		"min_retry_backoff": "8ms",
		"max_retry_backoff": "256ms",
		"pool_size":         strconv.Itoa(10 * runtime.GOMAXPROCS(0)), // of each node
	}
}

// clusterDefaults returns the default settings of a cluster's client, which counts redirections and
// network errors together.
func clusterDefaults() map[string]string {
	d := serverDefaults()
	delete(d, "max_retries")
	d["max_redirects"] = "5"
	return d
}

// withDefaults returns the query with the defaults that it does not set.
func withDefaults(query string, defaults map[string]string) string {
	q, err := url.ParseQuery(query)
	if err != nil {
		return query // parsing the URL fails later
	}
	for name, value := range defaults {
		if !q.Has(name) {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// Servers are the servers of a URL. Exactly one of the four fields is set.
type Servers struct {
	Single   *redis.Options
	Cluster  *redis.ClusterOptions
	Failover *redis.FailoverOptions
	Managed  *Managed
}

const forms = "redis://<host>:<port>/<db>, rediss://<host>:<port>/<db>, unix://<socket>, " +
	"redis+cluster://<host>:<port>,..., rediss+cluster://..., " +
	"redis+sentinel://<host>:<port>,.../<master>/<db>, rediss+sentinel://..., " +
	"elasticache://<replication group>?region=<region>&user=<user> or elasticache-serverless://..."

// Parse parses a URL. Its errors contain only the scheme and mistakes in the query, because the
// rest may contain a password.
func Parse(text string) (*Servers, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme == elastiCache || scheme == elastiCacheServerless {
		managed, err := parseManaged(text)
		if err != nil {
			return nil, fmt.Errorf(
				"%w: want %s://<name>?region=<region>&user=<user> or secret=<id>",
				explain(err, rest), scheme,
			)
		}
		return &Servers{Managed: managed}, nil
	}
	transport, topology, _ := strings.Cut(scheme, "+")
	if !slices.Contains([]string{"redis", "rediss"}, transport) && scheme != "unix" {
		return nil, fmt.Errorf("%q is not supported: want %s", Scheme(text), forms)
	}
	s := &Servers{}
	var err error
	switch topology {
	case "":
		s.Single, err = parseSingle(text)
	case "cluster":
		s.Cluster, err = parseCluster(transport, rest)
	case "sentinel":
		s.Failover, err = parseSentinel(transport, rest)
	default:
		return nil, fmt.Errorf("%q is not supported: want %s", Scheme(text), forms)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: want %s", explain(err, rest), forms)
	}
	return s, nil
}

// explain returns errNotURL for a mistake in what follows the scheme, or err itself. A reserved
// character in a password hides the @ from the parser, which then misreads the password.
func explain(err error, rest string) error {
	_, path, _ := strings.Cut(strings.NewReplacer("?", "/", "#", "/").Replace(rest), "/")
	beforeValues, _, _ := strings.Cut(path, "=")
	if strings.Contains(beforeValues, "@") || strings.ContainsFunc(rest, unicode.IsSpace) {
		return errNotURL
	}
	return err
}

// Scheme returns the scheme of a URL, which errors may show. It returns "" for text without one,
// such as "host=db password=...".
func Scheme(text string) string {
	scheme, _, _ := strings.Cut(regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`).FindString(text), ":")
	return scheme
}

var (
	errNotURL = errors.New("not a URL: remove white space, and percent-encode all characters " +
		"of the user name and the password but letters, digits and -._~")
	errPort     = errors.New("the port is not a number from 1 to 65535")
	errDatabase = errors.New("the path is not a database number")
	errHosts    = errors.New("the hosts are not <host>:<port>,<host>:<port>,")
	errReplicas = errors.New("pages are read only from primaries: " +
		"read_only, replica_only and route_ options are not allowed")
)

func parseSingle(text string) (*redis.Options, error) {
	u, err := url.Parse(text)
	_, rest, _ := strings.Cut(text, "://")
	if isBadPort(err) && !strings.Contains(rest, ",") {
		return nil, errPort
	}
	if err != nil || manyColons(u) {
		return nil, errNotURL
	}
	if !isPort(u.Port()) {
		return nil, errPort
	}
	if u.Scheme != "unix" && !isDatabase(strings.Trim(u.Path, "/")) {
		return nil, errDatabase
	}
	u.RawQuery = withDefaults(u.RawQuery, serverDefaults())
	return serverOptions(u.String())
}

// serverOptions returns the options of a client of one server.
func serverOptions(text string) (*redis.Options, error) {
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = noMaintNotifications()
	o.DialerRetries = 1 // retries of commands dial again
	if o.TLSConfig != nil {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return tlsdial.Dial(ctx, network, addr, o.TLSConfig, o.DialTimeout)
		}
	}
	return o, nil
}

func parseCluster(transport, rest string) (*redis.ClusterOptions, error) {
	a, err := splitAuthority(rest, redisPort)
	if err != nil {
		return nil, err
	}
	if strings.Trim(a.path, "/") != "" {
		return nil, errors.New("a cluster has no databases: remove the path")
	}
	o, err := clusterOptions(a.url(transport, "", clusterDefaults()))
	if err != nil {
		return nil, err
	}
	o.Addrs = a.hosts
	return o, nil
}

// clusterOptions returns the options of a client of a cluster.
func clusterOptions(text string) (*redis.ClusterOptions, error) {
	o, err := redis.ParseClusterURL(text)
	if err != nil {
		return nil, err
	}
	if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
		return nil, errReplicas
	}
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = noMaintNotifications()
	o.DialerRetries = cmp.Or(o.DialerRetries, 1)
	if o.TLSConfig != nil {
		o.TLSConfig.MinVersion = tls.VersionTLS12
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return tlsdial.Dial(ctx, network, addr, o.TLSConfig, o.DialTimeout)
		}
	}
	return o, nil
}

// parseSentinel parses the part after redis+sentinel://. The user and password before the hosts are
// for Sentinel; the query has those for Redis.
func parseSentinel(transport, rest string) (*redis.FailoverOptions, error) {
	a, err := splitAuthority(rest, sentinelPort)
	if err != nil {
		return nil, err
	}
	master, database, _ := strings.Cut(strings.Trim(a.path, "/"), "/")
	if master, err = url.PathUnescape(master); err != nil || master == "" {
		return nil, errors.New("the path does not begin with the name of a master")
	}
	if !isDatabase(database) {
		return nil, errDatabase
	}
	o, err := redis.ParseFailoverURL(a.url(transport, database, serverDefaults()))
	if err != nil {
		return nil, err
	}
	if o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly {
		return nil, errReplicas
	}
	o.MasterName = master
	o.SentinelAddrs = a.hosts
	o.DialerRetries = cmp.Or(o.DialerRetries, 1)
	o.ContextTimeoutEnabled = true
	return o, nil
}

// noMaintNotifications disables maintenance notifications: Valkey rejects the command that requests
// them.
func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// manyColons reports whether the host has too many colons, which [url.Parse] accepts.
func manyColons(u *url.URL) bool {
	return strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "[")
}

func isDatabase(text string) bool {
	return strings.Trim(text, "0123456789") == "" && len(text) < 6
}

// authority is the part of a URL with several hosts, which url.Parse does not accept.
type authority struct {
	user  string // with the @, if any
	hosts []string
	path  string
	query string
}

func splitAuthority(rest, port string) (authority, error) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndex(rest[:end], "@") + 1
	a := authority{user: rest[:at]}
	for host := range strings.SplitSeq(rest[at:end], ",") {
		u, err := url.Parse("redis://" + host)
		if isBadPort(err) || err == nil && !isPort(u.Port()) {
			return a, errPort
		}
		if err != nil || u.Hostname() == "" || u.User != nil || manyColons(u) {
			return a, errHosts
		}
		a.hosts = append(a.hosts, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	}
	u, err := url.Parse(rest[end:])
	if err != nil || u.Fragment != "" {
		return a, errNotURL
	}
	a.path, a.query = u.EscapedPath(), u.RawQuery
	for _, name := range []string{"addr", "master_name"} {
		if u.Query().Has(name) {
			return a, fmt.Errorf("unexpected option: %s", name)
		}
	}
	if _, err := url.Parse("redis://" + a.user + "host"); err != nil {
		return a, errNotURL
	}
	return a, nil
}

// isBadPort reports whether an error of [url.Parse] is about the port.
func isBadPort(err error) bool {
	return err != nil && strings.Contains(err.Error(), "invalid port")
}

// isPort reports whether text is a port, or "" for the default one.
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}

// url returns the URL of the first host, with the path and a query with defaults.
func (a authority) url(transport, path string, defaults map[string]string) string {
	return transport + "://" + a.user + a.hosts[0] + "/" + path + "?" +
		withDefaults(a.query, defaults)
}

// Name returns the addresses of the servers, for people to read.
func (s *Servers) Name() string {
	switch {
	case s.Managed != nil:
		return s.Managed.Config.String()
	case s.Cluster != nil:
		return strings.Join(s.Cluster.Addrs, ",")
	case s.Failover != nil:
		return strings.Join(s.Failover.SentinelAddrs, ",")
	default:
		return s.Single.Addr
	}
}

// Client returns a client of servers that are not Managed.
func (s *Servers) Client() redis.UniversalClient { //nolint:ireturn // one of three
	switch {
	case s.Cluster != nil:
		return redis.NewClusterClient(s.Cluster)
	case s.Failover != nil:
		return redis.NewFailoverClient(s.Failover)
	default:
		return redis.NewClient(s.Single)
	}
}
