//go:build !race

// The race detector takes memory, too.

package access_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/access"
)

// TestUsersMemory limits the memory for 300,000 users with ids of the maximum length.
func TestUsersMemory(t *testing.T) {
	size := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := size()
	u := access.NewUsers(access.Rate{PerSecond: 1})
	now, long := time.Now(), strings.Repeat("x", 250)
	for i := range 300_000 {
		u.Take(fmt.Sprint(long, i), now, 1)
	}
	grown := float64(size()-before) / (1 << 20)
	t.Logf("%.1f MiB", grown)
	if grown > 12 {
		t.Errorf("300,000 users take %.1f MiB", grown)
	}
	runtime.KeepAlive(u)
}
