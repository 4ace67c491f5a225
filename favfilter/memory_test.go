package favfilter_test

import (
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
