package doctor

import (
	"cmp"
	"regexp"
	"strings"
)

// remedy says what to do about an error.
type remedy struct {
	checks string // that meet the error, as a regular expression
	fact   string // that has to hold
	says   string // what the error's text matches
	todo   string // placeholders: see advice
}

// remedies returns what to do about errors: the first that matches. An error within a script does
// not begin with its code.
func remedies() []remedy { //nolint:funlen // a table
	return []remedy{
		{"aws", "", "there is no such cache",
			"Correct the name or ?region= in --redis, or use credentials of the account that owns the cache."},
		{"aws", "", "AWS denied access",
			"Grant this process's identity the action that the error names, or give it valid credentials; check this machine's clock."},
		{"aws", "", "the cache is not available", "Wait until the cache is available, or restore it."},
		{"aws", "", "needs encryption in transit", "Enable encryption in transit on the cache, or remove user= from --redis."},
		{"aws", "", "invalid configuration", "Correct --redis, or the AWS configuration in the environment."},
		{"aws", "", "", "Give this machine AWS credentials, such as a role, and let it reach the ElastiCache API of that region."},

		{"ledger", "postgres", "", "Check that the server runs, accepts connections from this machine, and has that database and user. " +
			"A first start needs CREATE on the database."},
		{"ledger", "", "", "Check the file and its permissions, or correct --ledger or --data-dir."},

		{"tls", "", "certificate is (not )?valid for|cannot validate certificate for|legacy Common Name",
			"Use a host name in --redis that the certificate contains."},
		{"tls", "", "certificate has expired", "Renew the certificate, or set this machine's clock."},
		{"tls", "", "unknown authority",
			"Make this machine trust the issuer of the certificate: SSL_CERT_FILE names a file of authorities."},
		{"tls", "", "", "Check that the server has TLS at this port, or use redis:// instead of rediss://."},

		{"sentinel", "", "knows no primary",
			"Correct the name of the primary in --redis, or have the sentinels monitor it."},
		{"sentinel", "", "NOAUTH|WRONGPASS|NOPERM",
			"Give the sentinels' own user and password before the hosts: <redis>+sentinel://<user>:<password>@<host>:<port>/<primary>."},
		{"sentinel", "", "^[A-Z]+ ", "Name the sentinels in --redis (default port 26379), not the servers that they monitor."},
		{"sentinel|network", "", "lookup ", "Correct the host in --redis, or this machine's DNS."},
		{"sentinel|network", "", "refused", "Start the server, or correct the port in --redis."},
		{"sentinel|network", "", "no answer in time|timed out",
			"Let this machine reach the server: a firewall, a security group or a missing route drops its packets."},
		{"sentinel|network", "", "", "Check the network between this machine and the server."},

		{"sign-in", "iam", "WRONGPASS", "Grant this process's identity elasticache:Connect on the ARNs of the cache and of the user; " +
			"add user <iam> to the cache's user group; check this machine's clock, as a token is valid for 15 minutes."},
		{"sign-in", "", "WRONGPASS|invalid password", "Correct the user or password: the pair is wrong, or the user is disabled."},
		{"sign-in", "", "without any password configured", "Remove the password: the server has none."},
		{"sign-in", "managed", "NOAUTH", "Add user=<user> for IAM, or secret=<id> for an AUTH token, to the query of --redis."},
		{"sign-in", "failover", "NOAUTH",
			"Give the servers' user and password in the query of --redis, username=<user>&password=<password>."},
		{"sign-in", "", "NOAUTH", "Give a password: <url>."},
		{"sign-in", "", "DENIED",
			"Set a password, or turn protected mode off: until then the server accepts only connections from its own machine."},
		{"sign-in", "", "max number of clients",
			"Raise maxclients of the server, or use fewer connections (pool_size=<n> in the query of --redis)."},
		{"sign-in", "secret", "secret ",
			"Put the token into the secret, and let the identity of this process read it (secretsmanager:GetSecretValue)."},
		{"commands", "", "READONLY", "Name the primary in --redis."},
		{"commands", "", "OOM", "Give the server more memory: it is full, and refuses writes."},

		// Servers that refuse all clients, or lack what the client needs.
		{"", "", "NOPERM|permission|can't run this command", "Grant the user the permissions of the service: <rule>."},
		{"", "", "LOADING", "Wait until the server has loaded its data."},
		{"", "", "BUSY", "Wait until the running script ends, or end it with SCRIPT KILL."},
		{"", "", "MASTERDOWN", "Name the primary in --redis: this is a replica that has lost its primary."},
		{"", "", "MISCONF",
			"Free the server's disk, or correct its directory: it cannot save its data (see its log), and refuses writes until it can."},
		{"", "", "NOREPLICAS", "Restart its replicas, or lower min-replicas-to-write: the server refuses writes while it has too few."},
		{"", "", "DB index is out of range|SELECT is not allowed",
			"Correct or remove the database number at the end of --redis: the server has no such database."},
		{"", "", "invalid reply|can't parse",
			"Correct the host and port in --redis: the server there does not speak the Redis protocol."},
		{"", "", "certificate required|bad certificate",
			"Set tls-auth-clients to no or optional on the server: it requires a client certificate, and the service has none."},

		{"sign-in", "tls", "", "Check whether the server hangs, and what it logs; a proxy or firewall may also hold connections."},
		{"sign-in", "", "", "Check whether the server hangs, what it logs, and whether it requires TLS (rediss:// instead of redis://); " +
			"a firewall may also hold connections."},
		{"server", "cluster", "", "Restart the node; or, if the cluster announces an address that this machine cannot reach, " +
			"correct cluster-announce-ip."},
		{"server", "", "", "Check whether the server hangs or is too slow."},
		{"topology", "", "", "Check the nodes that --redis names: none of them reports which node serves which slots."},
		{"", "", "", "Fix the failed checks above first, or what the server reports: the service changes pages only by scripts."},
	}
}

// advice says what to do about an error that a check met.
func (d *doctor) advice(check string, err error) string {
	for _, r := range remedies() {
		if d.facts[r.fact] && regexp.MustCompile(r.checks).MatchString(check) && regexp.MustCompile(r.says).MatchString(words(err)) {
			iam, topology := "", ""
			if d.facts["iam"] {
				iam = d.Redis.Managed.Config.User
			}
			if d.facts["cluster"] {
				topology = "+cluster"
			}
			return strings.NewReplacer("<rule>", AccessRule(d.Filter), "<iam>", iam, "<redis>", d.transport(),
				"<url>", d.url(topology, cmp.Or(d.login, "<user>:<password>@")+"<host>:<port>")).Replace(r.todo)
		}
	}
	return ""
}

// transport returns the part of a URL's scheme that tells whether connections are encrypted.
func (d *doctor) transport() string {
	if d.facts["tls"] {
		return "rediss"
	}
	return "redis"
}

// url returns a URL to try.
func (d *doctor) url(topology, rest string) string { return d.transport() + topology + "://" + rest }

// fail reports an error that a check met, and what to do.
func (d *doctor) fail(check string, err error) finding { return fail(words(err), d.advice(check, err)) }

// AccessRule returns the permissions that a filter with that name needs, as a rule for ACL SETUSER.
func AccessRule(filter string) string {
	return "~fav:{" + filter + "/* +auth +hello +ping +client|setname +command +info +cluster|slots +cluster|info +asking +readonly " +
		"+mget +get +getrange +strlen +bitcount +bitfield +set +setrange +del +persist +eval +evalsha +time"
}
