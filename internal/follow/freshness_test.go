package follow

import (
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

func TestFreshness(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var f freshness
	for i, c := range []struct {
		end   pglogrepl.LSN // that a look found, which began at the second i; 0: no look
		has   pglogrepl.LSN // the ledger
		until time.Time
	}{
		{has: 100},
		{end: 120, has: 110},
		{end: 130, has: 119}, // the first goal stays
		{has: 120, until: at(1)},
		{has: 140, until: at(1)}, // no look has told what the end is
		{end: 140, has: 140, until: at(5)},
		{end: 150, has: 160, until: at(6)},
		{end: 200, has: 170, until: at(6)},
		{has: 500, until: at(7)},
	} {
		if c.end > 0 {
			f.saw(c.end, at(i))
		}
		if got := f.at(c.has); !got.Equal(c.until) {
			t.Errorf("step %d: with %s the ledger lacks nothing until %v, want %v", i, c.has, got, c.until)
		}
	}
}

func TestEndOfLog(t *testing.T) {
	for line, want := range map[string]pglogrepl.LSN{
		"0/16B3748 8192":  0x16B3748,
		"0/16B4000 8192":  0x16B4000,
		"0/16B4018 8192":  0x16B4000, // behind the header of a page
		"0/17000028 8192": 0x17000000,
		"0/16B4029 8192":  0x16B4029,
		"0/16B4018 65536": 0x16B4018,
	} {
		if got, err := endOfLog(line); got != want || err != nil {
			t.Errorf("%q: the log ends at %s, %v, want %s", line, got, err, want)
		}
	}
	for _, line := range []string{"", "0/16B3748", "0/16B3748 0", "16 8192"} {
		if got, err := endOfLog(line); err == nil {
			t.Errorf("%q: %s, want an error", line, got)
		}
	}
}
