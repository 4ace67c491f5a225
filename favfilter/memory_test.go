package favfilter_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Backend {
		var offset atomic.Int64
		m := &favfilter.Memory{Now: func() time.Time { return time.Unix(1_700_000_000, 0).Add(time.Duration(offset.Load())) }}
		return storetest.Backend{
			Store: m,
			Other: m,
			Strings: func(t testing.TB, id favfilter.PageID) ([]byte, []byte) {
				l, err := m.Load(t.Context(), []favfilter.PageID{id})
				if err != nil {
					t.Fatal(err)
				}
				if l[0].Page == nil {
					return nil, nil
				}
				return l[0].Page.Clone().Encode()
			},
			Advance: func(testing.TB) { offset.Add(storetest.Expire) },
		}
	})
}

// Any number may encode a page that nobody changes: under the race detector.
func TestEncodeOfASharedPage(t *testing.T) {
	m := &favfilter.Memory{}
	openFilter(t, m, favfilter.Config{Capacity: 10})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			l, _ := m.Load(t.Context(), []favfilter.PageID{{}})
			l[0].Page.Encode()
		})
	}
	wg.Wait()
}

// Expired pages do not stay in memory.
func TestMemoryDropsExpiredPages(t *testing.T) {
	now := time.Unix(0, 0)
	m := &favfilter.Memory{Now: func() time.Time { return now }}
	s := shapeFor(t, 10, 0.001)
	s.Bits = 8 << 20 // 1 MiB
	before := heap()
	for i := range 64 {
		now = now.Add(time.Hour)
		p := newPage(t, favfilter.Header{Identity: favfilter.Identity{Pages: 1}, Shape: s})
		if _, err := m.Replace(t.Context(), favfilter.Replacement{ID: favfilter.PageID{Part: fmt.Sprint("w", i)}, Page: p, Expire: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > 32<<20 {
		t.Errorf("%d MiB of expired pages are held", grown>>20)
	}
	runtime.KeepAlive(m)
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
