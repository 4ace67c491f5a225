package follow

import (
	"testing"

	"pgregory.net/rapid"
)

const mysqlServer = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

func TestParseGTID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]gtid{
		"":                       {},
		mysqlServer + ":7":       {mysqlServer, 7},
		mysqlServer + ":tag_1:9": {mysqlServer + ":tag_1", 9},
		"0-1-42":                 {"0-1", 42},
	} {
		if got, err := parseGTID(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{
		"x", ":7", mysqlServer, mysqlServer + ":", mysqlServer + ":0", mysqlServer + ":-1", mysqlServer + ":1-5", "0-1", "0-1-x",
		"0-1-42,1-1-7", mysqlServer + ":9223372036854775808",
	} {
		if got, err := parseGTID(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

// TestGTIDSet: a set has what was added, keeps the gaps between blocks, and survives its text.
func TestGTIDSet(t *testing.T) {
	t.Parallel()
	var set gtidSet
	for _, g := range []gtid{
		{mysqlServer, 5}, {mysqlServer, 7}, {mysqlServer, 6}, {mysqlServer, 1_000_003}, {mysqlServer, 9},
		{mysqlServer + ":tag", 3}, {"0-1", 42}, {"0-1", 43},
	} {
		set = set.with(g)
	}
	const want = "0-1:42-43," + mysqlServer + ":5-7:9:1000003," + mysqlServer + ":tag:3"
	if got := set.String(); got != want {
		t.Errorf("the set is %s, want %s", got, want)
	}
	for _, g := range []gtid{{mysqlServer, 4}, {mysqlServer, 8}, {mysqlServer, 10}, {mysqlServer, 1_000_002}, {"0-2", 42}, {"other", 5}} {
		if set.has(g) {
			t.Errorf("%s has %v", set, g)
		}
	}
	for _, g := range []gtid{{mysqlServer, 6}, {mysqlServer, 1_000_003}, {"0-1", 43}, {mysqlServer + ":tag", 3}} {
		if !set.has(g) {
			t.Errorf("%s lacks %v", set, g)
		}
	}
}

// TestGTIDSetIsBounded: members of a group number from blocks in turn, and most transactions are of
// other tables. The set stays short, has all that was added, and lacks the rest of each block.
func TestGTIDSetIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var set gtidSet
		const block = 1_000_000
		next := [3]uint64{1, block + 1, 2*block + 1}
		var added []gtid
		for range rapid.IntRange(1, 300).Draw(rt, "transactions") {
			member := rapid.IntRange(0, 2).Draw(rt, "member")
			next[member] += uint64(rapid.IntRange(1, 20).Draw(rt, "others"))
			g := gtid{mysqlServer, next[member]}
			if set.has(g) {
				rt.Fatalf("%s has %v, which is new", set, g)
			}
			set = set.with(g)
			added = append(added, g)
		}
		for _, g := range added {
			if !set.has(g) {
				rt.Fatalf("%s lacks %v", set, g)
			}
		}
		if n := len(set[mysqlServer]); n > maxRanges {
			rt.Fatalf("%d ranges", n)
		}
		if again, err := parseGTIDSet(set.String()); err != nil || again.String() != set.String() {
			rt.Fatalf("%s: %s, %v", set, again, err)
		}
	})
}
