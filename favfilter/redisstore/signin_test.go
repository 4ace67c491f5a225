package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// If a server refuses the sign-in, or accepts no more connections, every call fails instead of
// returning an empty answer. The breaker of a guarded client then opens.
func TestSignInRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, 1, 0)
	full := redistest.Start(t)
	must(t, full.Client().ConfigSet(t.Context(), "maxclients", "1").Err())
	single := func(o redis.Options) func() redis.UniversalClient {
		o.MaxRetries, o.DialerRetries = 1, 1
		return func() redis.UniversalClient { return redis.NewClient(&o) }
	}
	for name, c := range map[string]struct {
		client func() redis.UniversalClient
		says   string
	}{
		"wrong password": {single(redis.Options{Addr: server.Addr(), Username: "nobody", Password: "x"}), "WRONGPASS"},
		// The error may also be that the connection is closed.
		"too many": {single(redis.Options{Addr: full.Addr()}), ""},
		"of a cluster": {func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "nobody", Password: "x", MaxRedirects: 1})
		}, "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			client := c.client()
			t.Cleanup(func() { _ = client.Close() })
			s := openStore(t, client, "refused")
			for call, do := range calls(t, s, favfilter.PageID{Number: 3}) {
				if err := do(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want one that says %q", call, err, c.says)
				}
			}
			if loaded, err := s.LoadWhole(t.Context(), pageIDs(2)); err == nil {
				t.Errorf("whole pages: %v", loaded)
			}
			if c.says != "WRONGPASS" {
				return
			}
			guarded := c.client()
			t.Cleanup(func() { _ = guarded.Close() })
			redisstore.Guard(guarded, nil)
			s = openStore(t, guarded, "refused")
			eventually(t, "giving up", func() error {
				_, _, err := s.Load(t.Context(), pageIDs(1))
				if err == nil || !strings.Contains(err.Error(), redisstore.ErrUnavailable.Error()) || !strings.Contains(err.Error(), c.says) {
					return fmt.Errorf("commands are still sent: %w", err)
				}
				return nil
			})
		})
	}
}

// A reader does not retry a command that a replica puts off: the caller asks another server.
func TestReaderAsksOnce(t *testing.T) {
	client := dial(t, redistest.Start(t).Addr())
	a := &answer{err: reply("LOADING Redis is loading the dataset in memory"), times: -1}
	client.AddHook(&hook{pipeline: a.pipeline})
	s, err := redisstore.NewReader(client, "reader")
	must(t, err)
	if _, _, err := s.Load(t.Context(), pageIDs(1)); err == nil || len(a.sizes) != 1 {
		t.Errorf("%v after %d pipelines", err, len(a.sizes))
	}
}
