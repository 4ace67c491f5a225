package elasticachetest_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/internal/elasticachetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// start puts a cache in front of a server, and returns both with a client.
func start(t *testing.T, kind elasticachetest.Kind) (*elasticachetest.Cache, *redistest.Server, *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	authority, err := redistest.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	options := &redis.Options{
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaxRetries:               -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// A busy machine takes seconds for a script of 4 MB.
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	}
	var cache *elasticachetest.Cache
	if kind == elasticachetest.Serverless {
		config, err := authority.ServerConfig()
		if err != nil {
			t.Fatal(err)
		}
		if options.TLSConfig, err = authority.ClientConfig(); err != nil {
			t.Fatal(err)
		}
		cache = elasticachetest.New(t, kind, config)
	} else {
		cache = elasticachetest.New(t, kind, nil)
	}
	options.Addr = cache.Via(server.Addr())
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return cache, server, client
}

// violated checks that the violations begin with these texts.
func violated(t *testing.T, cache *elasticachetest.Cache, want ...string) {
	t.Helper()
	got := cache.Violations()
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("violations %q, want %q", got, want)
	}
}

func words(command string) []any {
	var args []any
	for word := range strings.FieldsSeq(command) {
		args = append(args, word)
	}
	return args
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, kind := range []elasticachetest.Kind{elasticachetest.NodeBased, elasticachetest.Serverless} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			cache, _, client := start(t, kind)
			for _, c := range commands() {
				forbidden := c.node
				if kind == elasticachetest.Serverless {
					forbidden = c.serverless
				}
				err := client.Do(t.Context(), words(c.command)...).Err()
				var want []string
				if forbidden != "" {
					want = []string{forbidden}
				} else if c.says == "" && err != nil && !errors.Is(err, redis.Nil) {
					t.Errorf("%.40s: %v, want an answer", c.command, err)
				}
				if forbidden != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says)) {
					t.Errorf("%.40s: answered %v, want %q", c.command, err, c.says)
				}
				violated(t, cache, want...)
			}
		})
	}
}

// judged is a command and what the cache must do with it.
type judged struct {
	command    string
	node       string // what is forbidden, "" for nothing
	serverless string
	says       string // the error
}

func commands() []judged {
	manyKeys := "MGET" + strings.Repeat(" k", 3998)
	return []judged{
		{"CONFIG GET maxmemory", "config", "config", "ERR unknown command 'CONFIG', with args beginning with: 'GET' 'maxmemory' "},
		{"config", "config", "config", "ERR unknown command 'config', with args beginning with: "},
		{"DEBUG SLEEP 0", "debug", "debug", "ERR unknown command 'DEBUG', with args beginning with: 'SLEEP' '0' "},
		{"SHUTDOWN NOSAVE", "shutdown", "shutdown", "ERR unknown command 'SHUTDOWN', with args beginning with: 'NOSAVE' "},
		{"PSYNC ? -1", "psync", "psync", "ERR unknown command 'PSYNC', with args beginning with: '?' '-1' "},
		{"REPLCONF listening-port 1", "replconf", "replconf", "ERR unknown command 'REPLCONF'"},
		{"ACL SETUSER x", "acl setuser", "acl setuser", "ERR unknown subcommand 'SETUSER'. Try ACL HELP."},
		{"CLUSTER FAILOVER", "cluster failover", "cluster failover", "ERR "}, // no cluster
		{"CLIENT MAINT_NOTIFICATIONS ON", "client maint_notifications", "client maint_notifications", "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."},
		{"CLIENT LIST", "", "client list", "ERR unknown subcommand 'LIST'. Try CLIENT HELP."},
		{"client id", "", "client id", "ERR unknown subcommand 'id'. Try CLIENT HELP."},
		{"CLIENT TRACKING ON", "", "client tracking", "ERR unknown subcommand 'TRACKING'. Try CLIENT HELP."},
		{"KEYS *", "", "keys", "ERR unknown command 'KEYS', with args beginning with: '*' "},
		{"SELECT 0", "", "select", "ERR unknown command 'SELECT', with args beginning with: '0' "},
		{"WAIT 0 0", "", "wait", "ERR unknown command 'WAIT'"},
		{"MEMORY USAGE k", "", "memory", "ERR unknown command 'MEMORY'"},
		{"OBJECT ENCODING k", "", "object", "ERR unknown command 'OBJECT'"},
		{"FUNCTION LIST", "", "function", "ERR unknown command 'FUNCTION'"},
		{manyKeys, "", "", ""},
		{manyKeys + " k", "", "mget with 4000 arguments", "ERR mget with 4000 arguments, its name included: at most 3999 are taken"},
		{"EVAL return(1) 0", "", "eval without keys", "ERR Lua scripts without any input keys are not supported."},
		{"EVAL return(1) 1 k", "", "", ""},
		{"EVALSHA 0123456789012345678901234567890123456789 0", "", "evalsha without keys", "ERR Lua scripts without any input keys are not supported."},
		{"EVAL --" + strings.Repeat("x", 4<<20-2) + " 1 k", "", "", ""},
		{"EVAL --" + strings.Repeat("x", 4<<20-1) + " 1 k", "", "eval of 4194305 bytes", "ERR eval of 4194305 bytes: at most 4194304 are taken"},
		{"SCRIPT LOAD --" + strings.Repeat("x", 4<<20-1), "", "script of 4194305 bytes", "ERR script of"},
		{"SCRIPT EXISTS x", "", "", ""},
		{"SET k v", "", "", ""},
		{"GET " + strings.Repeat("k", 1000), "", "", ""},
		{"BITFIELD k SET u1 1 1", "", "", ""},
		{"INFO server", "", "", ""},
		{"CLIENT GETNAME", "", "", ""},
		{"SCAN 0", "", "", ""},
	}
}

// TestPipeline checks that answers keep their order around forbidden commands.
func TestPipeline(t *testing.T) {
	t.Parallel()
	cache, _, client := start(t, elasticachetest.NodeBased)
	pipe := client.Pipeline()
	var replies []*redis.Cmd
	for i := range 100 {
		replies = append(replies, pipe.Do(t.Context(), "ECHO", i), pipe.Do(t.Context(), "CONFIG", "GET", i))
	}
	_, _ = pipe.Exec(t.Context()) // the errors of each command are checked
	for i := range 100 {
		echo, config := replies[2*i], replies[2*i+1]
		if echo.Val() != fmt.Sprint(i) || config.Err() == nil || !strings.Contains(config.Err().Error(), fmt.Sprintf("'CONFIG', with args beginning with: 'GET' '%d'", i)) {
			t.Errorf("ECHO %d: %v, %v; CONFIG: %v", i, echo.Val(), echo.Err(), config.Err())
		}
	}
	violated(t, cache, "config (100 times)")
}

func TestTransactionWithAForbiddenCommand(t *testing.T) {
	t.Parallel()
	cache, _, client := start(t, elasticachetest.NodeBased)
	_, err := client.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
		pipe.Set(t.Context(), "k", "v", 0)
		pipe.ConfigGet(t.Context(), "*")
		return nil
	})
	if err == nil {
		t.Error("the transaction was executed")
	}
	if n := client.Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("the transaction had an effect")
	}
	violated(t, cache, "config")
}

// TestScripts checks the commands of scripts, and the keys that they were given.
func TestScripts(t *testing.T) {
	t.Parallel()
	cache, server, client := start(t, elasticachetest.Serverless)
	for _, c := range []struct {
		script string
		keys   []string
		want   []string
	}{
		{"redis.call('SET', KEYS[1], 'v') redis.call('mget', KEYS[1], KEYS[2]) return redis.call('GET', KEYS[2])", []string{"a", "b\n\"\x00"}, nil},
		{"return redis.call('SET', 'other', 'v')", []string{"a"}, []string{`the key "other", which is not declared, in the script eval return`}},
		{"return redis.call('MSET', KEYS[1], 'v', 'x', 'y')", []string{"a"}, []string{`the key "x", which is not declared`}},
		{"return redis.call('DEL', KEYS[1], 'x', 'y')", []string{"a"}, []string{`the key "x"`, `the key "y"`}},
		{"return redis.call('OBJECT', 'encoding', KEYS[1])", []string{"a"}, []string{"object, in the script"}},
		{"return redis.call('KEYS', '*')", []string{"a"}, []string{"keys, in the script"}},
		{"return redis.pcall('ECHO', ARGV[1])", []string{"a"}, nil},
	} {
		if err := client.Eval(t.Context(), c.script, c.keys, "argument").Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Errorf("%s: %v", c.script, err)
		}
		seen(t, server, cache, c.want...)
	}
	server.Kill()
	server.Restart()
	// The cache watches the server again soon after the restart.
	var got []string
	for deadline := time.Now().Add(time.Minute); len(got) == 0 && time.Now().Before(deadline); got = cache.Violations() {
		_ = client.Eval(t.Context(), "return redis.call('GET', 'other')", []string{"a"}).Err() // the first call may use a dead connection
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], `the key "other"`) {
		t.Errorf("after a restart: %q", got)
	}
	// Violations of the loop that were not reported yet must not count for the next check.
	_ = client.Eval(t.Context(), "return redis.call('GET', KEYS[1])", []string{"a"})
	got = slices.DeleteFunc(marked(t, server, cache), func(v string) bool { return strings.HasPrefix(v, `the key "other"`) })
	if len(got) > 0 {
		t.Errorf("after a restart, of what is allowed: %q", got)
	}
}

// seen checks the violations after the cache has seen all earlier commands.
func seen(t *testing.T, server *redistest.Server, cache *elasticachetest.Cache, want ...string) {
	t.Helper()
	if got := marked(t, server, cache); !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("violations %q, want %q", got, want)
	}
}

// marked returns the violations of all earlier commands.
func marked(t *testing.T, server *redistest.Server, cache *elasticachetest.Cache) []string {
	t.Helper()
	mark := fmt.Sprintf("return redis.call('GET', 'mark %d')", time.Now().UnixNano())
	if err := server.Client().Eval(t.Context(), mark, []string{"none"}).Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	var got []string
	over := func() bool { return len(got) > 0 && strings.HasPrefix(got[len(got)-1], `the key "mark`) }
	for deadline := time.Now().Add(time.Minute); !over() && time.Now().Before(deadline); {
		got = append(got, cache.Violations()...)
	}
	if !over() {
		t.Fatalf("violations %q, but not the mark", got)
	}
	return got[:len(got)-1]
}

func TestLargeValues(t *testing.T) {
	t.Parallel()
	_, _, client := start(t, elasticachetest.Serverless)
	value := strings.Repeat("0123456789abcde\n", 1<<19)
	client.Options().ReadTimeout, client.Options().WriteTimeout = time.Minute, time.Minute
	if err := client.Set(t.Context(), "k", value, 0).Err(); err != nil {
		t.Error(err)
	}
	if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != value {
		t.Errorf("GET: %d bytes, %v, want the %d that were set", len(got), err, len(value))
	}
}

func TestInlineCommandsAreRefused(t *testing.T) {
	t.Parallel()
	cache, server, _ := start(t, elasticachetest.NodeBased)
	conn := dial(t, cache.Via(server.Addr()))
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\nCONFIG GET *\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if want := "+PONG\r\n-ERR protocol error: 'C' where '*' begins an argument; inline commands are refused\r\n"; err != nil || string(got) != want {
		t.Errorf("answered %q, %v, want %q", got, err, want)
	}
	violated(t, cache, "protocol error: 'C'")
}

func TestServerlessNeedsTLS(t *testing.T) {
	t.Parallel()
	cache, server, _ := start(t, elasticachetest.Serverless)
	addr := cache.Via(server.Addr())
	for command, violation := range map[string]string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n":                               "get on a connection without TLS",
		"*3\r\n$8\r\nREPLCONF\r\n$14\r\nlistening-port\r\n$1\r\n1\r\n": "replconf on a connection without TLS",
	} {
		conn := dial(t, addr)
		if _, err := io.WriteString(conn, command); err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(conn); len(got) > 0 {
			t.Errorf("answered %q", got)
		}
		violated(t, cache, violation)
	}
}

// TestServerGone checks that clients see the end of a server, and find it again after a restart.
func TestServerGone(t *testing.T) {
	t.Parallel()
	_, server, client := start(t, elasticachetest.Serverless)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := client.Get(t.Context(), "k").Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("a killed server answers: %v", err)
	}
	server.Restart()
	for deadline := time.Now().Add(time.Minute); ; {
		err := client.Get(t.Context(), "k").Err()
		if errors.Is(err, redis.Nil) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a restarted server: %v", err)
		}
	}
}

// TestViolationsFailTheTest checks that the test fails with the violations at its end.
func TestViolationsFailTheTest(t *testing.T) {
	t.Parallel()
	f := &failing{TB: t}
	cache := elasticachetest.New(f, elasticachetest.NodeBased, nil)
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: cache.Via(server.Addr()), MaxRetries: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	_ = client.Eval(t.Context(), "return redis.call('GET', 'other')", []string{"k"}).Err()
	_ = client.Save(t.Context()).Err()
	_ = client.Close()
	f.end()
	if !strings.Contains(f.said, "save (1 times)") || !strings.Contains(f.said, `the key "other"`) {
		t.Errorf("the test ended with %q", f.said)
	}
}

// failing is a test whose result is recorded.
type failing struct {
	testing.TB

	cleanups []func()
	said     string
}

func (f *failing) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *failing) Errorf(format string, args ...any) { f.said += fmt.Sprintf(format, args...) }

func (f *failing) end() {
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
