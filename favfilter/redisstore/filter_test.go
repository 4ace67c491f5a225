package redisstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestFilterModel(t *testing.T) {
	client := redistest.Start(t).Client()
	var opened atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		storetest.FilterModel(rt, openStore(t, client, fmt.Sprintf("model-%d", opened.Add(1))))
	})
}
