package ledger

import (
	"slices"
	"testing"
)

// A cursor is valid for the history that returned it, and tells what its poll did not see.
func TestHistory(t *testing.T) {
	t.Parallel()
	const one, other = history("7/00000001"), history("7/00000002")
	saw := snapshot{xmax: 700, running: []int64{690, 695, 699}}
	for _, c := range []struct {
		takes   history
		cursor  Cursor
		seen    int64
		running []int64
		ok      bool
	}{
		{one, one.cursor(saw, 0), 0, []int64{}, true},
		{one, one.cursor(saw, 694), 694, []int64{690}, true},
		{one, one.cursor(saw, 695), 695, []int64{690, 695}, true},
		{one, one.cursor(snapshot{xmax: 9223372036854775807}, 9223372036854775806), 9223372036854775806, []int64{}, true},
		{other, one.cursor(saw, 694), 0, nil, false},
		{one, "", 0, nil, false},
		{one, "7/00000001 694 690", 0, nil, false},
		{one, `{"history":"7/00000001","seen":"x"}`, 0, nil, false},
	} {
		seen, running, ok := c.takes.since(c.cursor)
		if seen != c.seen || ok != c.ok || !slices.Equal(running, c.running) || ok && running == nil {
			t.Errorf("%q for %s: seen %d, %#v, %t, want %d, %v, %t", c.cursor, c.takes, seen, running, ok, c.seen, c.running, c.ok)
		}
	}
}
