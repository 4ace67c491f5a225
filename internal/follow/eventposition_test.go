package follow

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// TestEventPositionIsStable: the position in ledgers has this text, which later versions must read.
func TestEventPositionIsStable(t *testing.T) {
	t.Parallel()
	server := gtid{mysqlServer, 6}
	for text, want := range map[string]eventPosition{
		"events/2 tables=1f2e3d4c": {tables: "1f2e3d4c"},
		"events/2 tables=1f2e3d4c snapshots=lsn:900@0,lsn:1000@1714000000142 reading last=postgresql,0,0,1000,1714000000,snapshot chunk=AAAAAAAH": {
			tables: "1f2e3d4c", snapshots: []snapshot{{"lsn:900", 0}, {"lsn:1000", 1_714_000_000_142}}, reading: true, chunk: window{7},
			last: place{log: logPostgres, lsn: 1000, at: 1_714_000_000, snapshot: true},
		},
		"events/2 tables=1f2e3d4c last=postgresql,1040,555,1050,1714000000 near=AAAAAAABAAAAAgAAAAMAAAAE window=AQIDBAUGAAAAAAAB": {
			tables: "1f2e3d4c", last: place{log: logPostgres, commit: 1040, xid: 555, lsn: 1050, at: 1_714_000_000},
			near: nears{{1, 2, 3, 4}}, window: window{0x010203040506, 1},
		},
		"events/2 tables=1f2e3d4c snapshots=b%2C+n.000003:484@7 last=mysql,b%2C+n.000003,500," + mysqlServer + ",6,0 set=" + mysqlServer + ":5-6:9": {
			tables: "1f2e3d4c", snapshots: []snapshot{{"b%2C+n.000003:484", 7}}, last: place{log: logMySQL, file: "b, n.000003", pos: 500, gtid: server},
			set: gtidSet{mysqlServer: {{5, 6}, {9, 9}}},
		},
	} {
		if got := want.String(); got != text {
			t.Errorf("%+v is\n%s, want\n%s", want, got, text)
		}
		if got, ok := parseEventPosition(ledger.Position(text)); !ok || got.String() != text {
			t.Errorf("%s is read as\n%s, %v", text, &got, ok)
		}
	}
	for _, bad := range []ledger.Position{
		"", "0/16B3748 1f2e3d4c", `{"tables":"1f2e3d4c","last":{"txn":1040,"at":1050}}`, "events/1 tables=1", "events/2", "events/2 tables=1 more=1",
		"events/2 tables=1 last=postgresql,1", "events/2 tables=1 last=mysql,%zz,1,,0,0", "events/2 tables=1 last=postgresql,1,2,x,0",
		"events/2 tables=1 window=AQ", "events/2 tables=1 snapshots=lsn:900", "events/2 tables=1 near=AQIDBAUG", "events/2 tables=1 set=a:5-x", "events/2 tables=1  last=x",
	} {
		if got, ok := parseEventPosition(bad); ok {
			t.Errorf("%q is read as %s", bad, &got)
		}
	}
	if _, ok := parsePosition((&eventPosition{tables: "1"}).text()); ok {
		t.Error("the stream of PostgreSQL takes a position of events")
	}
}

// TestPassWindow: as many events as the window has are repeats, and any older one is refused. The
// position stays short.
func TestPassWindow(t *testing.T) {
	t.Parallel()
	at := eventPosition{tables: "1"}
	event := func(n int) arrival { return inFile(1+n/100, uint64(4+10*(n%100)), "+"+string(rune('a'+n%20))) }
	const all = maxWindow + 500
	for n := range all {
		if isNew, err := at.pass(event(n), time.Unix(testTime, 0)); !isNew || err != nil {
			t.Fatalf("event %d: %v, %v", n, isNew, err)
		}
	}
	for n := range all {
		at.follows = false
		isNew, err := at.pass(event(n), time.Unix(testTime, 0))
		switch {
		case n < all-maxWindow && (err == nil || !strings.Contains(err.Error(), "offset.flush.interval.ms")):
			t.Fatalf("event %d is older than the window: new %v, %v", n, isNew, err)
		case n >= all-maxWindow && (isNew || err != nil):
			t.Fatalf("event %d is in the window: new %v, %v", n, isNew, err)
		}
	}
	if size := len(at.String()); size > 17_000 {
		t.Errorf("the position has %d bytes", size)
	}
}

// TestPassManyAtAPlace: a compressed transaction may be larger than the window. With orders, each
// of its events is new once; without, it is refused.
func TestPassManyAtAPlace(t *testing.T) {
	t.Parallel()
	for _, order := range []uint32{0, 1} {
		at := eventPosition{tables: "1"}
		event := func(n int) arrival {
			a := ordered(order*uint32(n+1), inFile(1, 100, "+a"))
			a.after = uint32(2 * (n + 1))
			a.mark = eventMark(n + 1)
			return a
		}
		for n := range maxWindow + 100 {
			isNew, err := at.pass(event(n), time.Unix(testTime, 0))
			if wantErr := order == 0 && n >= maxWindow; isNew == wantErr || (err != nil) != wantErr {
				t.Fatalf("order %d, event %d: new %v, %v", order, n, isNew, err)
			}
		}
		at.follows = false
		if isNew, err := at.pass(event(maxWindow-1), time.Unix(testTime, 0)); isNew || err != nil {
			t.Errorf("order %d, a repeat: new %v, %v", order, isNew, err)
		}
	}
}

// postgresLog returns a log of transactions whose rows lie between each other's. Records may have
// several rows.
func postgresLog(rt *rapid.T) (log []arrival) {
	commit, last, lsn := uint64(0), 0, uint64(1)
	var open [][]arrival
	for xid := range rapid.IntRange(1, 8).Draw(rt, "transactions") {
		var rows []arrival
		for range rapid.IntRange(1, 4).Draw(rt, "records") {
			lsn += uint64(rapid.IntRange(1, 3).Draw(rt, "bytes"))
			for range rapid.SampledFrom([]int{1, 1, 3}).Draw(rt, "rows") {
				last++
				rows = append(rows, arrival{place{log: logPostgres, xid: uint64(xid + 1), lsn: lsn}, near{mark: eventMark(last), after: uint32(last)}})
			}
		}
		open = append(open, rows)
		if len(open) < 3 && rapid.Bool().Draw(rt, "stays open") {
			continue
		}
		for len(open) > 0 { // commits, in any order
			i := rapid.IntRange(0, len(open)-1).Draw(rt, "commits")
			for _, row := range open[i] {
				row.commit = commit
				log = append(log, row)
			}
			open = append(open[:i], open[i+1:]...)
			lsn += 2
			commit = lsn
		}
	}
	return log
}

// mysqlLog returns a log of a server that has transactions of several, or without their numbers,
// and compresses some. A group numbers from blocks.
func mysqlLog(rt *rapid.T) (log []arrival) {
	numbered := rapid.Bool().Draw(rt, "numbered")
	next := map[string]uint64{"b": 1_000_000}
	file, pos := 1, uint64(4)
	for range rapid.IntRange(1, 8).Draw(rt, "transactions") {
		if rapid.IntRange(0, 3).Draw(rt, "rotates") == 0 {
			file, pos = file+1, 4
		}
		member := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "member")
		next[member] += uint64(rapid.IntRange(1, 3).Draw(rt, "number"))
		p := place{log: logMySQL, file: fileNamed(file)}
		if numbered {
			p.gtid = gtid{map[string]string{"a": "group", "b": "group", "c": "c"}[member], next[member]}
		}
		compressed := rapid.IntRange(0, 3).Draw(rt, "compressed") == 0
		pos += 10
		for order := range rapid.IntRange(1, 6).Draw(rt, "events") {
			if !compressed {
				pos += uint64(rapid.SampledFrom([]int{0, 10}).Draw(rt, "record"))
			}
			p.pos = pos
			log = append(log, arrival{p, near{mark: eventMark(len(log) + 1), order: uint32(order + 1), after: uint32(2 * (len(log) + 1))}})
		}
	}
	return log
}

// TestPass: whatever is repeated, each event is new once, and the position survives its text.
func TestPass(t *testing.T) {
	t.Parallel()
	for name, logOf := range map[string]func(*rapid.T) []arrival{"postgres": postgresLog, "mysql": mysqlLog} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				log := logOf(rt)
				at := eventPosition{tables: "1"}
				for done := 0; done < len(log); {
					from := rapid.IntRange(0, done).Draw(rt, "from")
					to := rapid.IntRange(from+1, len(log)).Draw(rt, "to")
					at.follows = false
					for n := from; n < to; n++ {
						isNew, err := at.pass(log[n], time.Unix(testTime, 0))
						if err != nil || isNew != (n >= done) {
							rt.Fatalf("event %d of %d, %+v: new %v, %v; position %s", n, done, log[n], isNew, err, &at)
						}
						done = max(done, n+1)
						if text := at.text(); rapid.IntRange(0, 2).Draw(rt, "continues") == 0 {
							var ok bool
							if at, ok = parseEventPosition(text); !ok || at.text() != text {
								rt.Fatalf("%s: %s, %v", text, &at, ok)
							}
						}
					}
				}
			})
		})
	}
}
