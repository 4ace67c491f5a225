package follow

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// logged is an event of a log: where it stands, and its hash.
type logged struct {
	place
	hash uint64
	ends bool // its transaction
}

// postgresLog returns a log of transactions whose rows lie between each other's. Records may have
// several rows.
func postgresLog(rt *rapid.T) (log []logged) {
	commit, last, lsn := uint64(0), uint64(0), uint64(1)
	var open [][]logged
	for range rapid.IntRange(1, 8).Draw(rt, "transactions") {
		var rows []logged
		for range rapid.IntRange(1, 4).Draw(rt, "records") {
			lsn += uint64(rapid.IntRange(1, 3).Draw(rt, "bytes"))
			for range rapid.SampledFrom([]int{1, 1, 3}).Draw(rt, "rows") {
				last++
				rows = append(rows, logged{place: place{At: lsn}, hash: last})
			}
		}
		open = append(open, rows)
		if len(open) < 3 && rapid.Bool().Draw(rt, "stays open") {
			continue
		}
		for len(open) > 0 { // commits, in any order
			i := rapid.IntRange(0, len(open)-1).Draw(rt, "commits")
			for _, row := range open[i] {
				row.Txn = commit
				log = append(log, row)
			}
			open = append(open[:i], open[i+1:]...)
			log[len(log)-1].ends = true
			lsn += 2
			commit = lsn
		}
	}
	return log
}

// mysqlLog returns a log of a server that has transactions of several, or without their numbers.
func mysqlLog(rt *rapid.T) (log []logged) {
	numbered := rapid.Bool().Draw(rt, "numbered")
	next := make(map[string]uint64)
	file, pos := 1, uint64(4)
	for range rapid.IntRange(1, 8).Draw(rt, "transactions") {
		if rapid.IntRange(0, 3).Draw(rt, "rotates") == 0 {
			file, pos = file+1, 4
		}
		server := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "server")
		next[server] += uint64(rapid.IntRange(1, 3).Draw(rt, "number"))
		for range rapid.IntRange(1, 3).Draw(rt, "records") {
			pos += 10
			for row := range rapid.IntRange(1, 3).Draw(rt, "rows") {
				p := place{Server: server, Txn: next[server], File: fmt.Sprint(file), At: pos, Row: uint64(row)}
				if !numbered {
					p = place{Txn: uint64(file), At: pos, Row: uint64(row)}
				}
				for n := range rapid.IntRange(1, 2).Draw(rt, "events") { // two of an update of a primary key
					log = append(log, logged{place: p, hash: uint64(n)}) // other rows have the same values
				}
			}
		}
		log[len(log)-1].ends = true
	}
	return log
}

// TestPass: whatever is repeated, each event is new once, and the position survives its text.
func TestPass(t *testing.T) {
	for name, logOf := range map[string]func(*rapid.T) []logged{"postgres": postgresLog, "mysql": mysqlLog} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				log := logOf(rt)
				at := eventPosition{Tables: "1"}
				for done := 0; done < len(log); {
					from := rapid.IntRange(0, done).Draw(rt, "from")
					to := rapid.IntRange(from+1, len(log)).Draw(rt, "to")
					for n := from; n < to; n++ {
						isNew, err := at.pass(log[n].place, log[n].hash)
						if err != nil || isNew != (n >= done) {
							rt.Fatalf("event %d of %d, %+v: new %v, %v; position %s", n, done, log[n], isNew, err, &at)
						}
						done = max(done, n+1)
						if text := at.String(); rapid.IntRange(0, 2).Draw(rt, "continues") == 0 {
							var ok bool
							if at, ok = parseEventPosition(text); !ok || at.String() != text {
								rt.Fatalf("%s: %s, %v", text, &at, ok)
							}
						}
					}
				}
			})
		})
	}
}

// TestPassFailover: another server has other files for the same transactions. Those are known by
// their numbers, but of the last one nobody knows which part is recorded.
func TestPassFailover(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := mysqlLog(rt)
		if log[0].Server == "" {
			return
		}
		at := eventPosition{Tables: "1"}
		done := rapid.IntRange(1, len(log)).Draw(rt, "done")
		for _, e := range log[:done] {
			_, err := at.pass(e.place, e.hash)
			must(t, err)
		}
		within := !log[done-1].ends
		shift := uint64(rapid.IntRange(0, 100).Draw(rt, "shift"))
		for n, e := range log {
			e.File, e.At = "other", e.At+shift
			isNew, err := at.pass(e.place, e.hash)
			part := e.Server == log[done-1].Server && e.Txn == log[done-1].Txn
			switch {
			case part && n < done: // refused, or recorded whole
				if isNew {
					rt.Fatalf("event %d of %d is new", n, done)
				}
			case part && within:
				if err == nil {
					rt.Fatalf("event %d of %d: %v, %v", n, done, isNew, err)
				}
				return
			case isNew != (n >= done) || err != nil:
				rt.Fatalf("event %d of %d: new %v, %v", n, done, isNew, err)
			}
		}
	})
}

// TestPassWithoutCommit: Debezium names no commit before it has seen one. So it is either at its
// first transaction, or begins where it had left.
func TestPassWithoutCommit(t *testing.T) {
	at := eventPosition{Tables: "1"}
	for n, c := range []struct {
		txn, at uint64
		isNew   bool
	}{
		{0, 20, true}, {0, 20, false}, {0, 30, true}, {0, 20, false}, {50, 40, true}, {50, 45, true}, {0, 20, false}, {0, 50, false},
		{0, 51, true}, {0, 51, false}, {50, 51, false}, {50, 45, false}, {50, 60, true}, {70, 10, true}, {50, 60, false}, {70, 9, false},
	} {
		if isNew, err := at.pass(place{Txn: c.txn, At: c.at}, 1); isNew != c.isNew || err != nil {
			t.Errorf("%d: %+v: new %v, %v; position %s", n, c, isNew, err, &at)
		}
	}
}

func TestParseEventPosition(t *testing.T) {
	for _, bad := range []string{"", "0/16B3748 1f2e3d4c", "{}", `{"tables":""}`, `{"tables":"1","more":1}`, `{"tables":"1"`} {
		if p, ok := parseEventPosition(bad); ok {
			t.Errorf("%q: %v", bad, p)
		}
	}
	if _, ok := parsePosition((&eventPosition{Tables: "1", Snapshot: "7"}).String()); ok {
		t.Error("a follower of PostgreSQL takes the position")
	}
}
