package follow

import (
	"fmt"
	"testing"
	"time"
)

const (
	testTime = 1_714_000_000
	fresh    = "new"
	repeat   = "replayed"
)

// became says what became of an event.
func became(isNew bool, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case isNew:
		return fresh
	default:
		return repeat
	}
}

// inPostgres returns an event of a row, such as +a, -a or a=b, whose mark is of all that it says.
func inPostgres(commit, lsn uint64, change string) arrival {
	return says(place{log: logPostgres, commit: commit, xid: commit + 1, lsn: lsn, at: testTime}, change)
}

func inFile(number int, pos uint64, change string) arrival {
	return says(place{log: logMySQL, file: fileNamed(number), pos: pos, at: testTime}, change)
}

func fileNamed(number int) string { return fmt.Sprintf("bin.%06d", number) }

func numberedAs(server string, number uint64, of arrival) arrival {
	of.gtid = gtid{server, number}
	of.mark = markOf(of.place, of.before, of.after)
	return of
}

func ordered(order uint32, of arrival) arrival {
	of.order = order
	return of
}

func says(p place, change string) arrival {
	a := arrival{place: p}
	row := func(name byte) uint32 { return uint32(name) }
	switch change[0] {
	case '+':
		a.after = row(change[1])
	case '-':
		a.before = row(change[1])
	default:
		a.before, a.after = row(change[0]), row(change[2])
	}
	a.mark = markOf(p, a.before, a.after)
	return a
}

func markOf(p place, before, after uint32) eventMark {
	at := fmt.Sprint(p.xid, p.lsn, p.file, p.pos, p.gtid)
	if p.gtid != (gtid{}) {
		at = fmt.Sprint(p.gtid)
	}
	var n eventMark
	for _, c := range fmt.Sprint(at, before, after, p.at) {
		n = (n*1_000_003 + eventMark(c)) & (1<<48 - 1)
	}
	return n
}

// TestPassCases: what each kind of log says, and what became of it.
func TestPassCases(t *testing.T) {
	t.Parallel()
	type step struct {
		arrival
		want string
	}
	old, equal, other, again := errOld.Error(), errEqual.Error(), errOther.Error(), errRepeat.Error()
	group := func(n uint64, change string) arrival { return numberedAs("group", n, inFile(1, 10*n, change)) }
	for name, steps := range map[string][]step{
		"PostgreSQL with a smaller LSN": {
			{inPostgres(1000, 1100, "+a"), fresh}, {inPostgres(1000, 1100, "+a"), repeat}, {inPostgres(10, 20, "+b"), old},
			{inPostgres(1200, 1300, "+b"), fresh}, {inPostgres(1000, 1100, "+a"), repeat},
		},
		"PostgreSQL, a transaction that began earlier": {
			{inPostgres(100, 110, "+a"), fresh}, {inPostgres(120, 105, "+b"), fresh}, {inPostgres(100, 110, "+a"), repeat},
		},
		"PostgreSQL, Debezium without a commit": {
			{inPostgres(0, 20, "+a"), fresh}, {inPostgres(0, 30, "+b"), fresh}, {inPostgres(0, 20, "+a"), repeat},
			{inPostgres(50, 40, "+c"), fresh}, {inPostgres(50, 40, "+d"), fresh}, {inPostgres(0, 60, "+e"), fresh}, {inPostgres(0, 40, "+f"), old},
		},
		"PostgreSQL, Debezium that started within a transaction names an earlier commit": {
			{says(place{log: logPostgres, commit: 50, xid: 7, lsn: 60}, "+a"), fresh},
			{says(place{log: logPostgres, commit: 40, xid: 7, lsn: 60}, "+a"), repeat},
			{says(place{log: logPostgres, commit: 40, xid: 7, lsn: 70}, "+b"), fresh},
		},
		"PostgreSQL, rows of one COPY": {
			{inPostgres(100, 110, "+a"), fresh}, {inPostgres(100, 110, "+b"), fresh}, {inPostgres(100, 110, "+a"), equal},
		},
		"PostgreSQL, equal rows of one COPY": {
			{ordered(1, inPostgres(100, 110, "+a")), fresh}, {ordered(2, inPostgres(100, 110, "+a")), fresh},
			{ordered(1, inPostgres(100, 110, "+a")), repeat}, {ordered(2, inPostgres(100, 110, "+a")), repeat},
			{ordered(3, inPostgres(100, 110, "+a")), fresh},
		},
		"PostgreSQL, an update of a primary key": {
			{inPostgres(100, 110, "-a"), fresh}, {inPostgres(100, 110, "+b"), fresh}, {inPostgres(100, 110, "-a"), repeat},
			{inPostgres(100, 110, "+b"), repeat}, {inPostgres(120, 130, "b=a"), fresh},
		},
		"a log far in the future": {
			{inPostgres(100, 110, "+a"), fresh},
			{inPostgres(9e18, 9e18+1, "+b"), "no log grows as fast: 8999999999999999891 bytes at once"},
			{inPostgres(120, 130, "+b"), fresh},
		},
		"a file far in the future": {
			{inFile(1, 4, "+a"), fresh}, {inFile(99_999_999, 4, "+b"), "no log grows as fast: 99999998 files at once"},
			{inFile(1, 1<<50, "+b"), "no log grows as fast: pos is 1125899906842624"}, {inFile(1, 8, "+b"), fresh},
		},
		"a number far in the future": {
			{group(5, "+a"), fresh}, {numberedAs("group", 1<<60, inFile(1, 60, "+b")), "no log grows as fast: 1152921504606846971 transactions at once"},
			{group(7, "+b"), fresh}, {group(6, "-b"), fresh},
		},
		"RESET MASTER without GTIDs": {
			{inFile(3, 484, "+a"), fresh}, {inFile(3, 500, "+b"), fresh}, {inFile(1, 157, "+c"), old}, {inFile(3, 484, "+a"), repeat},
		},
		"RESET MASTER with GTIDs": {
			{group(1, "+a"), fresh}, {group(2, "+b"), fresh}, {numberedAs("group", 1, inFile(1, 4, "-b")), old},
			{numberedAs("group", 2, inFile(1, 8, "-a")), old}, {group(1, "+a"), repeat},
		},
		"another server without GTIDs": {
			{inFile(3, 484, "+a"), fresh},
			{says(place{log: logMySQL, file: "other.000009", pos: 4, at: testTime}, "+b"), old},
		},
		"another kind of database": {{inFile(3, 484, "+a"), fresh}, {inPostgres(100, 110, "+a"), other}},
		"blocks of a group": {
			{group(1_000_005, "+a"), fresh}, {group(7, "+b"), fresh}, {group(1_000_006, "a=c"), fresh}, {group(8, "-b"), fresh},
			{group(7, "+b"), repeat}, {group(8, "-b"), repeat}, {group(1_000_005, "+a"), repeat}, {group(9, "+b"), fresh},
		},
		"a failover with GTIDs": {
			{group(5, "+a"), fresh}, {group(6, "+b"), fresh}, {numberedAs("group", 5, inFile(9, 40, "+a")), repeat},
			{numberedAs("group", 6, inFile(9, 50, "+b")), repeat}, {numberedAs("group", 6, inFile(9, 60, "-a")), old},
			{numberedAs("group", 7, inFile(9, 70, "-a")), fresh},
		},
		"GTIDs are turned on, and off": {
			{inFile(3, 484, "+a"), fresh}, {group(1, "-a"), old}, {numberedAs("group", 1, inFile(3, 500, "-a")), fresh},
			{inFile(3, 400, "+b"), old}, {inFile(3, 600, "+b"), fresh},
		},
		"a compressed transaction": {
			{inFile(1, 100, "+a"), fresh}, {inFile(1, 100, "+b"), fresh}, {inFile(1, 100, "-a"), fresh},
			{inFile(1, 100, "+b"), repeat}, {inFile(1, 100, "-a"), repeat}, {inFile(1, 100, "+a"), equal}, {inFile(1, 200, "+a"), fresh},
		},
		"a compressed transaction with orders": {
			{ordered(1, inFile(1, 100, "+a")), fresh}, {ordered(2, inFile(1, 100, "-a")), fresh}, {ordered(3, inFile(1, 100, "+a")), fresh},
			{ordered(1, inFile(1, 100, "+a")), repeat}, {ordered(2, inFile(1, 100, "-a")), repeat},
			{ordered(1, inFile(1, 100, "-a")), again}, {ordered(4, inFile(1, 100, "-a")), fresh},
		},
		"Debezium that counts from 1 again, and then as before": {
			{ordered(1, inFile(1, 100, "+a")), fresh}, {ordered(1, inFile(1, 100, "+b")), fresh}, {ordered(2, inFile(1, 100, "+c")), fresh},
			{ordered(3, inFile(1, 100, "+c")), again}, {ordered(2, inFile(1, 100, "+c")), repeat}, {ordered(3, inFile(1, 100, "+d")), fresh},
		},
		"the same again at a later place of a numbered transaction": {
			{numberedAs("s", 1, inFile(1, 100, "+a")), fresh}, {numberedAs("s", 1, inFile(1, 110, "-a")), fresh},
			{numberedAs("s", 1, inFile(1, 120, "+a")), fresh}, {numberedAs("s", 1, inFile(1, 100, "+a")), repeat},
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := eventPosition{tables: "1"}
			for n, s := range steps {
				before := at.String()
				at.follows = at.follows && s.want == equal // else, it begins a request
				got := became(at.pass(s.arrival, time.Unix(testTime, 0)))
				if got != s.want {
					t.Fatalf("event %d is %q, want %q; position %s", n, got, s.want, before)
				}
				if after := at.String(); (got == fresh) == (after == before) {
					t.Fatalf("event %d is %q, and the position %s becomes %s", n, got, before, after)
				}
			}
		})
	}
}
