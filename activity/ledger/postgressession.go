package ledger

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// backendKey is the key of the id of a session's server process in a connection's custom data.
const backendKey = "backend"

// beginSession sets the session's parameters and reads them back in another transaction. It refuses
// a connection whose session does not keep them, or does not end with the connection: then session
// locks, too, would be lost or never released. The parameters are not sent with the connection
// request, because poolers refuse or drop them.
func (u postgresURL) beginSession(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, u.callTimeout())
	defer cancel()
	names := slices.Sorted(maps.Keys(u.session))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = u.session[name]
	}
	_, set, err := readSettings(ctx, conn, setSessionSQL, names, values)
	if err != nil {
		return fmt.Errorf("set the session's parameters: %w", err)
	}
	backend, has, err := readSettings(ctx, conn, readSessionSQL, names)
	if err != nil {
		return fmt.Errorf("read the session's parameters: %w", err)
	}
	for _, name := range names {
		if has[name] != set[name] {
			return fmt.Errorf("%s is %q, but was set to %q: %s", name, has[name], set[name], wantSessions)
		}
	}
	conn.PgConn().CustomData()[backendKey] = backend
	if backend == conn.PgConn().PID() { // without a pooler
		serverOf(conn.PgConn()).direct.Store(true)
		return nil
	}
	return u.checkPooler(ctx, conn)
}

const wantSessions = "the connection has no session of its own: connect to the server directly, " +
	"or through a pooler in session mode that resets sessions"

// readSettings runs a query that returns the id of the server process, and settings by name.
func readSettings(
	ctx context.Context, conn *pgx.Conn, query string, args ...any,
) (backend uint32, has map[string]string, err error) {
	has = make(map[string]string)
	var name, value string
	// A pooler may give the next transaction a server without the prepared statement.
	s := statement{
		sql:  query,
		args: append([]any{pgx.QueryExecModeExec}, args...),
		into: []any{&backend, &name, &value},
	}
	s.each = func() error { has[name] = value; return nil }
	err = postgresSession{conn}.query(ctx, s)
	return backend, has, err
}

// checkPooler checks that a lock is released when the connection of its session ends. A pooler in
// transaction mode leaves the lock with the server's connection.
func (u postgresURL) checkPooler(ctx context.Context, conn *pgx.Conn) error {
	config := u.config.ConnConfig.Copy()
	config.ValidateConnect = nil
	pooler := serverOf(conn.PgConn())
	config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		if network == noCancel {
			return nil, errNoCancel
		}
		return pooler.of.connect(ctx, pooler.network, pooler.address)
	}
	probe, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("check that the pooler ends sessions: %w", err)
	}
	var backend uint32
	err = probe.QueryRow(ctx, probeLockSQL, pgx.QueryExecModeExec).Scan(&backend)
	_ = probe.Close(ctx) // the lock tells whether its session has ended
	if err != nil {
		return fmt.Errorf("check that the pooler ends sessions: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
	defer cancel()
	for try := 0; ; try++ {
		var held bool
		err := conn.QueryRow(ctx, probeHeldSQL, pgx.QueryExecModeExec, backend).Scan(&held)
		if err != nil || !held {
			return err
		}
		if !again(limited, conflict, try) {
			return fmt.Errorf(
				"a session's lock is still held after the end of its connection: %s", wantSessions,
			)
		}
	}
}

func (d *postgresDatabase) agree(ctx context.Context, bound time.Duration) error {
	number := settingsNumber(bound)
	before := d.settings.Swap(&number)
	err := d.attempt(ctx, d.polls, d.callTimeout, d.lockSettings)
	if err != nil {
		d.settings.Store(before)
	}
	return err
}

// lockSettings holds locks for the settings of this process, and for the format of pages that it
// reads, on the connection of polls. It looks for locks of other settings. The server releases a
// lock with its connection, so a killed process leaves no lock behind. If two processes start at
// once with different settings, both may be refused.
func (d *postgresDatabase) lockSettings(ctx context.Context, conn *pgx.Conn) error {
	own := d.settings.Load()
	if own == nil {
		return nil
	}
	var other *int64
	err := send(ctx, conn, statement{sql: unlockSettingsSQL},
		statement{sql: lockSettingsSQL, args: []any{d.formatKey, int32(PageFormat)}},
		statement{sql: lockSettingsSQL, args: []any{d.settingsKey, int32(*own)}},
		statement{sql: otherSettingsSQL, args: []any{d.settingsKey, int64(*own)}, into: []any{&other}})
	if err != nil {
		return fmt.Errorf("declare settings: %w", err)
	}
	if other == nil {
		return nil
	}
	if _, err := conn.Exec(ctx, unlockSettingsSQL); err != nil {
		return fmt.Errorf("withdraw settings: %w", err)
	}
	return fmt.Errorf(
		"%w: this process has %v, another one has %v: "+
			"stop all processes, then start them with the same settings",
		ErrSettingsDiffer, describe(*own), describe(uint32(*other)),
	)
}

// pageCache is set in the number of a process of version 0.1 with a page cache. It relies on
// other processes to acknowledge writes late, which later versions do not.
const pageCache = 1 << 31

// settingsNumber returns the settings as the key of a lock. A minute takes 26 bits.
func settingsNumber(bound time.Duration) uint32 { return uint32(bound.Microseconds()) }

// describe returns the settings that a number stands for.
func describe(number uint32) string {
	text := fmt.Sprintf("a staleness bound of %v", time.Duration(number&^pageCache)*time.Microsecond)
	if number&pageCache != 0 {
		text += " and a page cache"
	}
	return text
}

// Purposes of the locks that processes hold.
const (
	lockOfSettings = "settings"
	lockOfFormat   = "page format"
)

// lockKey returns the first half of the keys of locks for a purpose, in a schema.
func lockKey(purpose, schema string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("feedfilter " + purpose + " " + schema)) // never fails
	return int32(h.Sum32())
}
