package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// redisState is a state in which Redis answers but refuses commands.
type redisState struct {
	args  []string // of the server
	user  string   // user that signs in, with the password "pw"; "": the default user
	begin func(t *testing.T, s *redistest.Server)
	end   func(t *testing.T, s *redistest.Server)
	reads bool   // feeds are still read from Redis
	says  string // text that the log must have
}

func redisStates() map[string]redisState {
	return map[string]redisState{
		"loading": {
			args: []string{"--loading-process-events-interval-bytes", "1024"},
			begin: func(t *testing.T, s *redistest.Server) {
				t.Helper()
				primary := redistest.Start(t, "--rdbcompression", "no")
				for n := range 1000 {
					command(t, primary, "SET", fmt.Sprint("filler-", n), strings.Repeat("x", 2048))
				}
				command(t, s, "CONFIG", "SET", "key-load-delay", "20000")
				host, port, _ := strings.Cut(primary.Addr(), ":")
				command(t, s, "REPLICAOF", host, port)
				awaitReply(t, s, "LOADING")
			},
			end: func(t *testing.T, s *redistest.Server) {
				t.Helper()
				command(t, s, "CONFIG", "SET", "key-load-delay", "0")
				awaitReply(t, s, "")
				command(t, s, "REPLICAOF", "NO", "ONE")
			},
			says: "LOADING",
		},
		"primary of a replica down": {
			begin: func(t *testing.T, s *redistest.Server) {
				t.Helper()
				command(t, s, "CONFIG", "SET", "replica-serve-stale-data", "no")
				command(t, s, "REPLICAOF", "127.0.0.1", "1")
			},
			end: func(t *testing.T, s *redistest.Server) {
				t.Helper()
				command(t, s, "REPLICAOF", "NO", "ONE")
			},
			says: "MASTERDOWN",
		},
		"demoted": {
			begin: func(t *testing.T, s *redistest.Server) {
				t.Helper()
				command(t, s, "REPLICAOF", "127.0.0.1", "1")
			},
			end: func(t *testing.T, s *redistest.Server) {
				t.Helper()
				command(t, s, "REPLICAOF", "NO", "ONE")
			},
			reads: true,
			says:  "READONLY",
		},
		"too few replicas":  configured("NOREPLICAS", true, "min-replicas-to-write", "1", "0"),
		"memory is full":    configured("OOM", true, "maxmemory", "1", "0"),
		"no snapshots":      noSnapshots(),
		"too many clients":  tooManyClients(),
		"password changed":  passwordChanged(),
		"no rights":         withoutRights(false, "-@all"),
		"no right to read":  withoutRights(false, "-mget"),
		"no right to write": withoutRights(true, "-setrange", "-set", "-bitfield"),
		"no scripts":        withoutRights(true, "-@scripting"),
		"a script runs":     busy(),
	}
}

// configured returns a state that a setting causes.
func configured(says string, reads bool, name, begin, end string) redisState {
	set := func(value string) func(t *testing.T, s *redistest.Server) {
		return func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", name, value)
		}
	}
	return redisState{begin: set(begin), end: set(end), reads: reads, says: says}
}

// noSnapshots is a server that refuses writes because it cannot save its data.
func noSnapshots() redisState {
	var dir string
	return redisState{
		args: []string{"--save", "3600 1000000", "--enable-protected-configs", "yes"},
		begin: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			dir = filepath.Join(t.TempDir(), "gone")
			must(t, os.Mkdir(dir, 0o700))
			command(t, s, "CONFIG", "SET", "dir", dir)
			must(t, os.Remove(dir))
			_ = s.Client().Do(t.Context(), "BGSAVE").Err() // it fails now or later
			eventuallyIn(t, "a snapshot fails", func() error {
				info := s.Client().Info(t.Context(), "persistence").Val()
				if !strings.Contains(info, "rdb_last_bgsave_status:err") {
					return errors.New("the snapshot has not failed")
				}
				return nil
			})
		},
		end: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		},
		reads: true,
		says:  "MISCONF",
	}
}

// tooManyClients is a server that has closed all connections and accepts no new ones.
func tooManyClients() redisState {
	var admin *redis.Conn
	do := func(t *testing.T, args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	return redisState{
		begin: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			admin = s.Client().Conn()
			t.Cleanup(func() { _ = admin.Close() })
			do(t, "CONFIG", "SET", "maxclients", "1")
			do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		},
		end: func(t *testing.T, _ *redistest.Server) {
			t.Helper()
			do(t, "CONFIG", "SET", "maxclients", "1000")
		},
	}
}

// passwordChanged is a server that now requires a password.
func passwordChanged() redisState {
	return redisState{
		user: "feed",
		begin: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "ACL", "SETUSER", "feed", "resetpass", ">other")
			command(t, s, "CLIENT", "KILL", "USER", "feed")
		},
		end: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "ACL", "SETUSER", "feed", ">pw")
		},
		says: "WRONGPASS",
	}
}

// withoutRights revokes permissions of the user.
func withoutRights(reads bool, rules ...any) redisState {
	change := func(rules ...any) func(t *testing.T, s *redistest.Server) {
		return func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, append([]any{"ACL", "SETUSER", "feed"}, rules...)...)
		}
	}
	return redisState{user: "feed", begin: change(rules...), end: change("+@all"), reads: reads}
}

// busy is a server that runs an endless script.
func busy() redisState {
	return redisState{
		args: []string{"--busy-reply-threshold", "1"},
		begin: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			endless := s.Client().Conn()
			go func() {
				_ = endless.Eval(context.Background(), "while true do end", nil).Err()
				_ = endless.Close()
			}()
			awaitReply(t, s, "BUSY")
		},
		end: func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "SCRIPT", "KILL")
		},
		says: "BUSY",
	}
}

// TestLongRedisStates puts Redis into each state in which it answers but refuses commands. Feeds
// stay correct and do not wait, writes are acknowledged, and afterwards Redis is used again.
func TestLongRedisStates(t *testing.T) {
	t.Parallel()
	for name, state := range redisStates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, state.args...)
			url := s.URL()
			if state.user != "" {
				command(t, s, "ACL", "SETUSER", state.user, "on", ">pw", "~*", "+@all")
				url = "redis://" + state.user + ":pw@" + s.Addr() + "/0"
			}
			g := openStates(t, url, nil)
			g.after(t)
			state.begin(t, s)
			g.during(t, func(string) bool { return !state.reads })
			g.writes(t)
			g.log.await(t, state.says)
			state.end(t, s)
			g.after(t)
			g.log.wantFew(t)
		})
	}
}
