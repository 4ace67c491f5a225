package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// checkSignIn signs in and sends PING, to one server after another until one answers.
func (d *Doctor) checkSignIn(ctx context.Context) finding {
	if len(d.reached) == 0 || d.servers.Failover != nil && d.primary == "" {
		return skipf("no connection") // or the TLS check failed
	}
	addrs := d.reached
	if d.servers.Failover != nil {
		addrs = []string{d.primary}
	}
	var first error
	for _, addr := range addrs {
		client := d.client(addr)
		began := time.Now()
		err := client.Ping(ctx).Err()
		if err == nil {
			d.closers = append(d.closers, client.Close)
			d.seed = client
			d.nodes = []*server{{addr: addr, client: client}}
			d.pages = client
			return okf("%s answered %s in %s", addr, d.who(), milliseconds(time.Since(began)))
		}
		_ = client.Close()
		first = cmp.Or(first, err)
	}
	return fail(words(first), d.signInTodo(first))
}

// client returns a client of the server at addr alone. It does not retry, so that occasional
// failures show.
func (d *Doctor) client(addr string) *redis.Client {
	switch {
	case d.servers.Cluster != nil:
		c := d.servers.Cluster
		return redis.NewClient(&redis.Options{
			Addr: addr, ClientName: c.ClientName, Protocol: c.Protocol, Dialer: c.Dialer, TLSConfig: c.TLSConfig,
			Username: c.Username, Password: c.Password, CredentialsProviderContext: c.CredentialsProviderContext,
			DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, MaxRetries: -1, DialerRetries: 1,
			ContextTimeoutEnabled: true, MaintNotificationsConfig: c.MaintNotificationsConfig,
		})
	case d.servers.Failover != nil:
		o := *d.servers.Failover
		o.MaxRetries = -1
		return redis.NewFailoverClient(&o)
	default:
		o := *d.servers.Single
		o.MaxRetries = -1
		return redis.NewClient(&o)
	}
}

// credentials returns the user in the URL, and whether it has a password.
func (d *Doctor) credentials() (user string, password bool) {
	switch {
	case d.servers.Cluster != nil:
		return d.servers.Cluster.Username, d.servers.Cluster.Password != ""
	case d.servers.Failover != nil:
		return d.servers.Failover.Username, d.servers.Failover.Password != ""
	default:
		return d.servers.Single.Username, d.servers.Single.Password != ""
	}
}

// who describes the user of the connections.
func (d *Doctor) who() string {
	user, password := d.credentials()
	switch {
	case d.servers.Managed != nil && d.servers.Managed.Config.User != "":
		return "user " + d.servers.Managed.Config.User + " (IAM)"
	case d.servers.Managed != nil && d.servers.Managed.Config.Secret != "":
		return "a token from secret " + d.servers.Managed.Config.Secret
	case user != "":
		return "user " + user
	case password:
		return "the default user, with a password"
	}
	return "without a user or password"
}

func (d *Doctor) signInTodo(err error) string {
	iam := d.servers.Managed != nil && d.servers.Managed.Config.User != ""
	switch {
	case redis.HasErrorPrefix(err, "WRONGPASS") && iam:
		return "Grant this process's identity elasticache:Connect on the ARNs of the cache and of the user; add user " +
			d.servers.Managed.Config.User + " to the cache's user group; check this machine's clock, as a token is valid for 15 minutes."
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "invalid password"):
		return "Correct the user or password: the pair is wrong, or the user is disabled."
	case strings.Contains(err.Error(), "without any password configured"):
		return "Remove the password: the server has none."
	case redis.HasErrorPrefix(err, "NOAUTH") && d.servers.Managed != nil:
		return "Add user=<user> for IAM, or secret=<id> for an AUTH token, to the query of --redis."
	case redis.HasErrorPrefix(err, "NOAUTH") && d.servers.Failover != nil:
		return "Give the servers' user and password in the query of --redis, username=<user>&password=<password>."
	case redis.HasErrorPrefix(err, "NOAUTH"):
		return "Give a password: " + d.urlOf("redis", "<user>:<password>@", "<host>:<port>") + "."
	case redis.HasErrorPrefix(err, "NOPERM"):
		return d.permissionTodo()
	case redis.HasErrorPrefix(err, "DENIED"):
		return "Set a password, or turn protected mode off: until then the server accepts only connections from its own machine."
	case strings.Contains(err.Error(), "max number of clients"):
		return "Raise maxclients of the server, or use fewer connections (pool_size=<n> in the query of --redis)."
	case d.servers.Managed != nil && d.servers.Managed.Config.Secret != "" && strings.Contains(err.Error(), "secret "):
		return "Put the token into the secret, and let the identity of this process read it (secretsmanager:GetSecretValue)."
	}
	if todo := stateTodo(err); todo != "" {
		return todo
	}
	if d.dialTLS() == nil {
		return "Check whether the server hangs, what it logs, and whether it requires TLS (rediss:// instead of redis://); " +
			"a firewall may also hold connections."
	}
	return "Check whether the server hangs, and what it logs; a proxy or firewall may also hold connections."
}

// stateTodo says what to do about a server that refuses all clients, or lacks what the client
// needs; "": err is about neither.
func stateTodo(err error) string {
	switch {
	case redis.HasErrorPrefix(err, "LOADING"):
		return "Wait until the server has loaded its data."
	case redis.HasErrorPrefix(err, "BUSY"):
		return "Wait until the running script ends, or end it with SCRIPT KILL."
	case redis.HasErrorPrefix(err, "MASTERDOWN"):
		return "Name the primary in --redis: this is a replica that has lost its primary."
	case saysAnywhere(err, "MISCONF"):
		return "Free the server's disk, or correct its directory: it cannot save its data (see its log), and refuses writes until it can."
	case saysAnywhere(err, "NOREPLICAS"):
		return "Restart its replicas, or lower min-replicas-to-write: the server refuses writes while it has too few."
	case saysAnywhere(err, "DB index is out of range"), saysAnywhere(err, "SELECT is not allowed"):
		return "Correct or remove the database number at the end of --redis: the server has no such database."
	case strings.Contains(err.Error(), "invalid reply"), strings.Contains(err.Error(), "can't parse"):
		return "Correct the host and port in --redis: the server there does not speak the Redis protocol."
	case strings.Contains(err.Error(), "certificate required"), strings.Contains(err.Error(), "bad certificate"):
		return "Set tls-auth-clients to no or optional on the server: it requires a client certificate, and the service has none."
	}
	return ""
}

// saysAnywhere reports whether a server's error contains text. An error within a script need not
// begin with it.
func saysAnywhere(err error, text string) bool {
	return isRedisReply(err) && strings.Contains(err.Error(), text)
}

// permissionTodo names the permissions that the service needs in Redis.
func (d *Doctor) permissionTodo() string {
	return "Grant the user the permissions of the service: " + AccessRule(d.config.Filter) + "."
}

// AccessRule returns the permissions that a filter with that name needs, as a rule for ACL SETUSER.
func AccessRule(filter string) string {
	return "~fav:{" + filter + "/* +auth +hello +ping +client|setname +command +info +cluster|slots +cluster|info +asking +readonly " +
		"+mget +get +getrange +strlen +bitcount +bitfield +set +setrange +del +persist +eval +evalsha +time"
}

// urlOf returns a URL to try, with TLS if the flags have it.
func (d *Doctor) urlOf(scheme, userInfo, rest string) string {
	if d.dialTLS() != nil {
		scheme = strings.Replace(scheme, "redis", "rediss", 1)
	}
	return scheme + "://" + userInfo + rest
}

// userInfo returns a placeholder for credentials if the flags have some.
func (d *Doctor) userInfo() string {
	if user, password := d.credentials(); user != "" || password {
		return "<user>:<password>@"
	}
	return ""
}

// isRedisReply reports whether err is a server's answer.
func isRedisReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// errorOf prefixes an error with the node's address, unless it already has it.
func errorOf(addr string, err error) string {
	text := words(err)
	if strings.Contains(text, addr) {
		return text
	}
	return fmt.Sprintf("%s: %s", addr, text)
}
