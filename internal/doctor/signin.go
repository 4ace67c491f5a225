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

// checkSignIn gets an answer from a server, the first that gives one.
func (d *Doctor) checkSignIn(ctx context.Context) finding {
	if len(d.reached) == 0 || d.servers.Failover != nil && d.primary == "" {
		return skipf("no connection") // or none that is as secure as it has to be
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
			return okf("%s answered %s, in %s", addr, d.who(), milliseconds(time.Since(began)))
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

// credentials are the user's name and whether there is a password, as the URL has them.
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

// who is as whom connections are signed in.
func (d *Doctor) who() string {
	user, password := d.credentials()
	switch {
	case d.servers.Managed != nil && d.servers.Managed.Config.User != "":
		return "user " + d.servers.Managed.Config.User + ", signed in with IAM"
	case d.servers.Managed != nil && d.servers.Managed.Config.Secret != "":
		return "who signed in with secret " + d.servers.Managed.Config.Secret
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
		return "Let the identity of this process have elasticache:Connect on both ARNs, the cache's and the user's; put user " +
			d.servers.Managed.Config.User + " into the cache's user group; and see to this machine's clock: a token holds for 15 minutes."
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "invalid password"):
		return "Correct the user or password: the server has no such pair, or the user is off."
	case strings.Contains(err.Error(), "without any password configured"):
		return "Leave out the password: the server has none."
	case redis.HasErrorPrefix(err, "NOAUTH") && d.servers.Managed != nil:
		return "Name who signs in: user=<user> for IAM, or secret=<id> for an AUTH token, in the query of --redis."
	case redis.HasErrorPrefix(err, "NOAUTH") && d.servers.Failover != nil:
		return "Give the servers' user and password in the query of --redis, username=<user>&password=<password>."
	case redis.HasErrorPrefix(err, "NOAUTH"):
		return "Give a password: " + d.urlOf("redis", "<user>:<password>@", "<host>:<port>") + "."
	case redis.HasErrorPrefix(err, "NOPERM"):
		return d.permissionTodo()
	case redis.HasErrorPrefix(err, "DENIED"):
		return "The server takes connections of its own machine alone, until it has a password: set one, or turn its protected mode off."
	case strings.Contains(err.Error(), "max number of clients"):
		return "Raise maxclients of the server, or have fewer connections (pool_size=<n> in the query of --redis)."
	case d.servers.Managed != nil && d.servers.Managed.Config.Secret != "" && strings.Contains(err.Error(), "secret "):
		return "Put the token into the secret, and let the identity of this process read it (secretsmanager:GetSecretValue)."
	}
	if todo := stateTodo(err); todo != "" {
		return todo
	}
	if d.dialTLS() == nil {
		return "See whether the server hangs, and what it logs, or wants TLS (rediss:// in place of redis://); " +
			"a firewall may also hold connections."
	}
	return "See whether the server hangs, and what it logs; a proxy or firewall may also hold connections and pass nothing on."
}

// stateTodo reports what to do about a server that refuses everybody, or has not what is asked for;
// "": err is about neither.
func stateTodo(err error) string {
	switch {
	case redis.HasErrorPrefix(err, "LOADING"):
		return "Wait until the server has loaded its data."
	case redis.HasErrorPrefix(err, "BUSY"):
		return "Wait until the script that somebody runs there ends, or end it with SCRIPT KILL."
	case redis.HasErrorPrefix(err, "MASTERDOWN"):
		return "Name the primary in --redis: this is a replica that has lost its own."
	case saysAnywhere(err, "MISCONF"):
		return "Free its disk, or correct its directory: the server cannot save its data, and refuses writes until it can (its log says why)."
	case saysAnywhere(err, "NOREPLICAS"):
		return "Bring back its replicas, or lower min-replicas-to-write: the server refuses writes while it has too few."
	case saysAnywhere(err, "DB index is out of range"), saysAnywhere(err, "SELECT is not allowed"):
		return "Correct the number of the database at the end of --redis, or leave it out: the server has no such database."
	case strings.Contains(err.Error(), "invalid reply"), strings.Contains(err.Error(), "can't parse"):
		return "Correct the host and port in --redis: what answers there does not speak as Redis does."
	case strings.Contains(err.Error(), "certificate required"), strings.Contains(err.Error(), "bad certificate"):
		return "Set tls-auth-clients no, or optional, at the server: it asks for a certificate of the client, and the service has none."
	}
	return ""
}

// saysAnywhere tells whether a server has answered that; what is said of a command within a script
// need not begin with it.
func saysAnywhere(err error, text string) bool {
	return isRedisReply(err) && strings.Contains(err.Error(), text)
}

// permissionTodo reports what the service has to be allowed in Redis.
func (d *Doctor) permissionTodo() string {
	return "Allow the user what the service needs: " + AccessRule(d.config.Filter) + "."
}

// AccessRule is all that a user of Redis has to be allowed for a filter of that name, as its access
// control lists have it.
func AccessRule(filter string) string {
	return "~fav:{" + filter + "/* +auth +hello +ping +client|setname +command +info +cluster|slots +cluster|info +asking +readonly " +
		"+mget +get +getrange +strlen +bitcount +bitfield +set +setrange +del +persist +eval +evalsha +time"
}

// urlOf is a URL to try, with the transport that the flags have.
func (d *Doctor) urlOf(scheme, userInfo, rest string) string {
	if d.dialTLS() != nil {
		scheme = strings.Replace(scheme, "redis", "rediss", 1)
	}
	return scheme + "://" + userInfo + rest
}

// userInfo stands for what the flags have of credentials.
func (d *Doctor) userInfo() string {
	if user, password := d.credentials(); user != "" || password {
		return "<user>:<password>@"
	}
	return ""
}

// isRedisReply tells whether err is what a server answered.
func isRedisReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// errorOf names the node in an error that does not.
func errorOf(addr string, err error) string {
	text := words(err)
	if strings.Contains(text, addr) {
		return text
	}
	return fmt.Sprintf("%s: %s", addr, text)
}
