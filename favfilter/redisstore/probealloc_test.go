//go:build !race

// The race detector allocates, too.

package redisstore_test

import (
	"runtime"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A probe of many keys allocates little more than the numbers in the replies.
func TestProbeAllocates(t *testing.T) {
	s := openStore(t, redistest.Start(t).Client(), "probe")
	id := favfilter.PageID{Number: 3}
	known := largePage(t, s, id)
	keys := hashes(id.Number, 0, probes)
	probe := func() uint64 {
		found := make([]bool, probes)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, ok, err := s.Probe(t.Context(), id, known, keys, found)
		runtime.ReadMemStats(&after)
		if err != nil || !ok || !found[0] || !found[4999] {
			t.Fatalf("probed: %v, %v, found %v", ok, err, found[:1])
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	first, second := probe(), probe()
	t.Logf("%d keys: %d KiB allocated, then %d KiB: %d bytes a key", probes, first>>10, second>>10, second/probes)
	const most = 200 // bytes a key: each of its bits is a number of 8 bytes in a reply
	if second > most*probes {
		t.Errorf("%d bytes a key, want at most %d", second/probes, most)
	}
}
