package bench_test

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// testRemove removes one of several filters.
func testRemove(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	others := []string{"fav:{bench-ab/0}:bits", "fav:{bench/0}:bits", "fav:{feed/0}:bits", "x:fav:{bench-a/0}:bits", "fav:{bench-a-x/1}:bits"}
	removed := []string{"fav:{bench-a/0}:bits", "fav:{bench-a/7}:seen-1:bits", "fav:{bench-a/0}:regions"}
	for _, key := range slices.Concat(others, removed) {
		if err := client.Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := bench.Remove(t.Context(), client, "bench-a"); err != nil {
		t.Fatal(err)
	}
	for _, key := range removed {
		if n, err := client.Exists(t.Context(), key).Result(); err != nil || n != 0 {
			t.Errorf("%s is still there: %d, %v", key, n, err)
		}
	}
	for _, key := range others {
		if n, err := client.Exists(t.Context(), key).Result(); err != nil || n != 1 {
			t.Errorf("%s, of another filter: %d, %v", key, n, err)
		}
	}
}

func TestRemove(t *testing.T) { testRemove(t, redistest.Start(t).Client()) }

func TestRemoveFromCluster(t *testing.T) { testRemove(t, redistest.StartCluster(t, 3, 0).Client()) }
