package integration

import (
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// One of two services is cut off from Redis. Its feeds have every block that the other one has
// acknowledged, and none that it has undone.
func TestCutOffFromRedis(t *testing.T) {
	redis, ledger := startRedis(t), pgtest.Start(t).Schema()
	network := proxytest.Start(t, redis.Addr())
	cut := serve(t, "--ledger", ledger, "--redis", "redis://"+network.Addr()+"/0")
	other := serve(t, "--ledger", ledger, "--redis", redis.URL())
	cut.logOnFailure()
	sees := func(author string) bool {
		t.Helper()
		a, err := cut.feed(feedRequest{Viewer: "1", Posts: []post{{ID: "p", Author: author}}})
		must(t, err)
		return len(a.Posts) == 1
	}
	sees("2")
	network.Cut()
	const rounds = 15
	missed, kept := 0, 0
	for i := range rounds {
		author := fmt.Sprint("a", i)
		for _, undo := range []bool{false, true} {
			if _, err := other.put("1", "blocks", author, undo); err != nil {
				t.Fatal(err)
			}
			switch shown := sees(author); {
			case shown && !undo:
				missed++
			case !shown && undo:
				kept++
			}
		}
	}
	if missed > 0 || kept > 0 {
		t.Errorf("of %d blocks, feeds missed %d, and %d after their undo still counted", rounds, missed, kept)
	}
}
