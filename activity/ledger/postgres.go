package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectTimeout bounds the time of a connect, unless the URL sets another value.
	connectTimeout = 2 * time.Second

	defaultSchema   = "feedfilter"
	leastServer     = 130000 // the first with pg_current_xact_id
	applicationName = "feedfilter"

	// keptConnections is how many connections for calls a service keeps open, if the URL sets no
	// number. It is also their limit on a small machine. With calls of a millisecond they serve
	// thousands a second, and the server's limit, mostly 100, has room for other processes.
	keptConnections = 8
	// keepPeriod is how often a service opens those of them that it lacks, or more often by the URL.
	keepPeriod = 10 * time.Second
)

// sessionParameters are the settings of a session that the URL may override. Their names are
// those of server settings.
func sessionParameters() map[string]string {
	const off = "off"
	return map[string]string{
		// A server may have it off. It then reports commits that a crash undoes.
		"synchronous_commit": "on",
		// The server soon releases the locks of a process that hangs or is cut off.
		"statement_timeout":                   "5s",
		"lock_timeout":                        "3s",
		"idle_in_transaction_session_timeout": "1s",
		// Every statement here seeks to its rows. The planner must never read a whole table
		// because of missing or outdated statistics.
		"enable_seqscan":   off,
		"enable_hashjoin":  off,
		"enable_mergejoin": off,
		// Planning a compilation costs more than the statements.
		"jit": off,
		// A connection plans each statement once, except for polls. Plans without the values seek
		// to the same rows: see TestPostgresPlans. By default the planner makes a new plan for most
		// calls, because it takes an array of unknown length for a longer one. With partitions, a
		// plan costs more than a call.
		"plan_cache_mode": "force_generic_plan",
	}
}

// postgresDatabase is a ledger in a schema of a PostgreSQL database. Writers lock the rows of
// the pages that they touch, and no others.
type postgresDatabase struct {
	id          Identity
	pool        *pgxpool.Pool
	polls       *pgxpool.Pool          // only for changed
	pings       *pgxpool.Pool          // only for ping
	connections atomic.Uint32          // number of connections of polls without a history so far
	settings    atomic.Pointer[uint32] // settingsNumber of this process; nil: not declared
	settingsKey int32                  // of locks for settings
	formatKey   int32                  // of locks for the format of pages
	callTimeout time.Duration          // see postgresURL.callTimeout
	cancels     *canceler
}

// postgresURL is a parsed URL.
type postgresURL struct {
	config  *pgxpool.Config
	schema  string
	session map[string]string // see sessionParameters
	cancels *canceler         // dials all connections
	sized   bool              // the URL says how many connections to keep
}

// checkDurable returns an error if a commit with the setting synchronous_commit can be lost.
func checkDurable(setting string) error {
	switch commit := strings.ToLower(setting); commit {
	case "on", "local", "remote_write", "remote_apply":
		return nil
	default:
		return fmt.Errorf("synchronous_commit=%s: commits must be durable: "+
			"want on, local, remote_write or remote_apply", commit)
	}
}

// parsePostgres parses a URL. No error shows the password.
func parsePostgres(text string) (postgresURL, error) {
	u, err := url.Parse(text)
	if err != nil {
		// The error may quote a part of the password as the host or the port.
		return postgresURL{}, errors.New("not a valid URL (in the user name and the password, " +
			"percent-encode all characters but letters, digits and -._~)")
	}
	if u.Fragment != "" {
		return postgresURL{}, errors.New("fragment not allowed: write # as %23")
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return postgresURL{}, errors.New(redact(err.Error(), u))
	}
	parameters := config.ConnConfig.RuntimeParams
	schema, _, _ := strings.Cut(parameters["search_path"], ",")
	if schema = strings.Trim(schema, ` "`); schema == "" {
		schema = defaultSchema
	}
	if strings.ContainsAny(schema, "\"\x00") || strings.HasPrefix(schema, "pg_") ||
		schema == "$user" || len(schema) > 63 {
		return postgresURL{}, fmt.Errorf("search_path: %q cannot be a ledger's schema", schema)
	}
	delete(parameters, "search_path")
	session := sessionParameters()
	for name := range session {
		if value, set := parameters[name]; set {
			session[name] = value
			delete(parameters, name)
		}
	}
	session["search_path"] = pgx.Identifier{schema}.Sanitize()
	session["client_encoding"], parameters["client_encoding"] = "UTF8", "UTF8"
	parameters["application_name"] = cmp.Or(parameters["application_name"], applicationName)
	if err := checkDurable(session["synchronous_commit"]); err != nil {
		return postgresURL{}, err
	}
	config.ConnConfig.ValidateConnect, err = validator(u.Query().Get("target_session_attrs"))
	if err != nil {
		return postgresURL{}, err
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !u.Query().Has("pool_max_conns") {
		config.MaxConns = int32(max(keptConnections, 4*runtime.GOMAXPROCS(0)))
	}
	// A call notices a lost connection, and gets another one. A ping before each call would cost
	// a round trip.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	cancels := &canceler{dial: config.ConnConfig.DialFunc}
	config.ConnConfig.DialFunc = cancels.connect
	return postgresURL{
		config: config, schema: schema, session: session, cancels: cancels,
		sized: u.Query().Has("pool_min_conns"),
	}, nil
}

// validator returns a function that refuses a connection to a server that is not the primary. A
// standby may lack acknowledged commits.
func validator(attributes string) (pgconn.ValidateConnectFunc, error) {
	switch attributes {
	case "", "read-write":
		return pgconn.ValidateConnectTargetSessionAttrsReadWrite, nil
	case "primary":
		return pgconn.ValidateConnectTargetSessionAttrsPrimary, nil
	default:
		return nil, fmt.Errorf(
			"target_session_attrs=%s: the ledger must be read from the primary: "+
				"want read-write or primary",
			attributes,
		)
	}
}

// redact removes the password from text.
func redact(text string, u *url.URL) string {
	password, _ := u.User.Password()
	secrets := []string{
		password, url.QueryEscape(password), url.PathEscape(password), u.Query().Get("password"),
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	return text
}

// callTimeout returns the time that a call may take: callTimeout, or as long as a statement may. A
// value that is no time is left to the server, which refuses it.
func (u postgresURL) callTimeout() time.Duration {
	text := strings.ReplaceAll(u.session["statement_timeout"], " ", "")
	if _, err := strconv.Atoi(text); err == nil {
		text += "ms"
	}
	limit, err := time.ParseDuration(strings.Replace(text, "min", "m", 1))
	if err != nil {
		return callTimeout
	}
	return max(callTimeout, limit)
}

// name returns the ledger's name for errors and logs: the URL without password and parameters,
// and the schema.
func (u postgresURL) name() string {
	c := u.config.ConnConfig
	where := url.URL{
		Scheme: "postgres",
		User:   url.User(c.User),
		Host:   net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))),
		Path:   "/" + c.Database,
	}
	return fmt.Sprintf("%s schema %s", where.String(), u.schema)
}

// open migrates the schema and creates the pools of connections.
func (u postgresURL) open(ctx context.Context, o Options) (*Ledger, error) {
	d := &postgresDatabase{
		settingsKey: lockKey(lockOfSettings, u.schema),
		formatKey:   lockKey(lockOfFormat, u.schema),
		callTimeout: u.callTimeout(),
		cancels:     u.cancels,
	}
	if err := d.prepare(ctx, u, o); err != nil {
		return nil, err
	}
	config := u.config.Copy()
	config.ConnConfig.OnNotice, config.ConnConfig.Tracer = keepWarning, o.Tracer
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := u.beginSession(ctx, conn); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, d.callTimeout)
		defer cancel()
		return postgresSession{conn}.query(ctx, d.opened())
	}
	if o.KeepConnections {
		config.HealthCheckPeriod = min(config.HealthCheckPeriod, keepPeriod)
		if !u.sized {
			config.MinConns = min(keptConnections, config.MaxConns)
		}
	}
	var err error
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if d.polls, err = d.newPolls(ctx, config); err != nil {
		d.pool.Close()
		return nil, err
	}
	if d.pings, err = newPings(ctx, config); err != nil {
		d.pool.Close()
		d.polls.Close()
		return nil, err
	}
	return newLedger(u.name(), d.id, d, postgresDialect(), true), nil
}

// replacedError means that another ledger, or a restored copy, has replaced the open one.
type replacedError struct{ was, is uint64 }

func (e *replacedError) Error() string {
	return fmt.Sprintf(
		"the ledger was replaced or restored while it was open (incarnation %d, was %d): "+
			"restart this process",
		e.is, e.was,
	)
}

// check checks the incarnation that a query has read.
func (d *postgresDatabase) check(incarnation *string) error {
	is, err := parseIncarnation(incarnation)
	if err == nil && is != d.id.Incarnation {
		err = &replacedError{was: d.id.Incarnation, is: is}
	}
	return err
}

// opened is a statement that checks that the transaction is in the ledger that was opened.
func (d *postgresDatabase) opened() statement {
	var value *string
	return statement{sql: incarnationSQL, into: []any{&value}, each: func() error {
		return d.check(value)
	}}
}

// reset closes all connections, because new ones must find that the ledger was replaced.
func (d *postgresDatabase) reset() {
	for _, pool := range []*pgxpool.Pool{d.pool, d.polls, d.pings} {
		pool.Reset()
	}
}

func (d *postgresDatabase) close() error {
	for _, pool := range []*pgxpool.Pool{d.pool, d.polls, d.pings} {
		pool.Close()
	}
	return nil
}

func (d *postgresDatabase) pools() []Pool {
	return []Pool{
		poolOf("calls", d.pool.Stat()), poolOf("polls", d.polls.Stat()),
		poolOf("pings", d.pings.Stat()),
	}
}

func poolOf(name string, s *pgxpool.Stat) Pool {
	return Pool{
		Name: name,
		Most: int(s.MaxConns()), Open: int(s.TotalConns()), InUse: int(s.AcquiredConns()),
		Acquired: uint64(s.AcquireCount()), Waited: uint64(s.EmptyAcquireCount()),
		GivenUp: uint64(s.CanceledAcquireCount()), Waiting: s.AcquireDuration(),
	}
}
