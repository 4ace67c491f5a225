package ledger

import (
	"slices"
	"testing"
)

// A cursor is valid for the connection that returned it, and tells what its snapshot did not
// see.
func TestGeneration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes   generation
		cursor  Cursor
		from    int64
		running []int64
	}{
		{1, "", 0, nil},
		{1, generation(1).cursor("700:700:"), 700, nil},
		{1, generation(1).cursor("690:700:690"), 700, []int64{690}},
		{1, generation(1).cursor("690:700:690,699"), 700, []int64{690, 699}},
		{4294967295, generation(4294967295).cursor("3:9223372036854775807:3"), 9223372036854775807, []int64{3}},
		{2, generation(1).cursor("690:700:690"), 0, nil},
		{1, generation(12).cursor("690:700:690"), 0, nil},
		{12, generation(1).cursor("690:700:690"), 0, nil},
		{1, "1/", 0, nil},
		{1, "1/700", 0, nil},
		{1, "1/690:700", 0, nil},
		{1, "1/690:x:", 0, nil},
		{1, "1/690:700:690,x", 0, nil},
		{1, "1/690:700:690:1", 0, nil},
	} {
		from, running := c.takes.since(c.cursor)
		if from != c.from || !slices.Equal(running, c.running) || running == nil {
			t.Errorf("%q for connection %d: from %d and %#v, want from %d and %v", c.cursor, c.takes, from, running, c.from, c.running)
		}
	}
}
