package ledger

import (
	"math"
	"sync/atomic"
	"testing"
)

func TestGeneration(t *testing.T) {
	t.Parallel()
	var count atomic.Uint32
	count.Store(math.MaxUint32 - 1)
	last := generation(count.Add(1)) // before the numbers begin again
	first := generation(count.Add(1))
	const most = 1<<transactionBits - 1
	for _, c := range []struct {
		gives, takes       generation
		transaction, since int64
	}{
		{1, 1, 3, 3},
		{1, 1, most, most},
		{last, last, most, most},
		{first, first, 3, 3},
		{1, 2, 3, 0},
		{2, 1, most, 0},
		{last, first, 3, 0},
		{first, last, 3, 0},
		{1, 1, most + 1, 0},
		{1, 1, math.MaxInt64, 0},
	} {
		if got := c.takes.since(c.gives.next(c.transaction)); got != c.since {
			t.Errorf("transaction %d of generation %d is %d to %d, want %d", c.transaction, c.gives, got, c.takes, c.since)
		}
	}
}
