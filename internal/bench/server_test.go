package bench_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func set(t *testing.T, client redis.UniversalClient, key string, bytes int) {
	t.Helper()
	if err := client.Set(t.Context(), key, strings.Repeat("x", bytes), 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// testRemove removes one of several filters.
func testRemove(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	s := bench.Server{Client: client}
	others := []string{"fav:{bench-ab/0}:bits", "fav:{bench/0}:bits", "fav:{feed/0}:bits", "x:fav:{bench-a/0}:bits", "fav:{bench-a-x/1}:bits"}
	for _, key := range slices.Concat(others, []string{"fav:{bench-a/0}:bits", "fav:{bench-a/7}:seen-1:bits", "fav:{bench-a-w/0}:regions"}) {
		set(t, client, key, 1)
	}
	if there, err := s.Holds(t.Context(), "bench-a", "bench-a-w"); err != nil || !there {
		t.Fatalf("before Remove, Holds returned %v, %v", there, err)
	}
	if err := s.Remove(t.Context(), "bench-a", "bench-a-w"); err != nil {
		t.Fatal(err)
	}
	if there, err := s.Holds(t.Context(), "bench-a", "bench-a-w"); err != nil || there {
		t.Errorf("after Remove, Holds returned %v, %v", there, err)
	}
	for _, key := range others {
		if n, err := client.Exists(t.Context(), key).Result(); err != nil || n != 1 {
			t.Errorf("%s, of another filter: %d, %v", key, n, err)
		}
	}
}

func TestRemove(t *testing.T) { testRemove(t, redistest.Start(t).Client()) }

func TestRemoveFromCluster(t *testing.T) { testRemove(t, redistest.StartCluster(t, 3, 0).Client()) }

func TestServer(t *testing.T) {
	client := redistest.Start(t).Client()
	s := bench.Server{Client: client}
	if v := s.Version(t.Context()); !strings.HasPrefix(v, "redis ") && !strings.HasPrefix(v, "valkey ") {
		t.Errorf("version %q", v)
	}
	before, err := s.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set(t, client, "key", 10<<20)
	after, err := s.Memory(t.Context())
	if grown := after - before; err != nil || grown < 10<<20 || grown > 13<<20 {
		t.Errorf("10 MiB of data take %d bytes, %v", grown, err)
	}
	meters := map[string]bench.Meter{"INFO": s.CPU}
	for name, meter := range meters {
		begun := time.Now()
		for first := time.Duration(-1); ; {
			now, err := meter(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if first < 0 {
				first = now
			}
			if now-first >= 20*time.Millisecond {
				break // the meter counts the CPU time of BITCOUNT
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s: a minute of work used %v", name, now-first)
			}
			if err := client.BitCount(t.Context(), "key", nil).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestServerThatDoesNotTell checks that a server that refuses INFO is not an error.
func TestServerThatDoesNotTell(t *testing.T) {
	server := redistest.Start(t)
	err := server.Client().Do(t.Context(), "ACL", "SETUSER", "mute", "on", ">pw", "~*", "+@all", "-info").Err()
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "mute", Password: "pw"})
	t.Cleanup(func() { _ = client.Close() })
	s := bench.Server{Client: client}
	usages, err := bench.Use(t.Context(), 0, []bench.Meter{s.CPU}, s.Ping())
	if err != nil || usages[0].PerCall(0) != -1 {
		t.Errorf("%v, %v", usages, err)
	}
	if v := s.Version(t.Context()); v != "" {
		t.Errorf("version %q", v)
	}
}
