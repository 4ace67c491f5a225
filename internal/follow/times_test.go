package follow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// A number is a time in its unit. 0 and what is after the year 9999 are none.
func TestTimeOfNumber(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text string
		unit string
		want time.Time // zero: none
		err  bool
	}{
		{"1767355200", "s", noon, false},
		{"1767355200000", "ms", noon, false},
		{"1767355200000000", "us", noon, false},
		{"1767355200000000000", "ns", noon, false},
		{"1767355200.25", "s", noon.Add(time.Second / 4), false},
		{"1767355200.2500019", "s", noon.Add(time.Second/4 + time.Microsecond), false},
		{"1.7673552e+12", "ms", noon, false},
		{"1767355200000000999", "ns", noon, false},
		{"0", "ms", time.Time{}, false},
		{"0.000", "s", time.Time{}, false},
		{"-1", "s", time.Unix(0, 0).Add(-1), false},
		{"-9223372036854775808", "us", time.Unix(0, 0).Add(-1), false},
		{"253402300799", "s", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), false},
		{"253402300801", "s", time.Time{}, false},
		{"9223372036854775807", "s", time.Time{}, false},
		{"1e999999999", "s", time.Time{}, false},
		{strings.Repeat("9", 1000), "ms", time.Time{}, false},
		{"NaN", "s", time.Time{}, true},
		{"", "s", time.Time{}, true},
		{"2026-01-02", "s", time.Time{}, true},
		{"1 ", "s", time.Time{}, true},
	} {
		at, none, err := timeOfNumber(c.text, units()[c.unit])
		if !at.Equal(c.want) || none != (c.want.IsZero() && !c.err) || (err != nil) != c.err {
			t.Errorf("%s %s: %v, %v, want %v", c.text, c.unit, at, err, c.want)
		}
	}
}

// A file names a column of times, or gives its unit. The fingerprint of one without units is that
// of versions that knew none.
func TestTimeColumns(t *testing.T) {
	file := func(since string) string {
		return `{"tables": [{"table": "b", "kind": "block", "user": "u", "target": "v", "since": ` + since + `}]}`
	}
	for since, want := range map[string]string{
		`"at"`:                             "72833f8f",
		`""`:                               "023cd81f",
		`{"column": "at", "unit": "ms"}`:   "60cbefb7",
		`{ "unit":"ms","column":"at" }`:    "60cbefb7",
		`{"column": "at", "unit": "s"}`:    "fb60dd74",
		`{"column": "", "unit": "s"}`:      "no column",
		`{"column": "at"}`:                 "unit: want one of ms, ns, s, us",
		`{"column": "at", "unit": "min"}`:  "unit: want one of ms, ns, s, us",
		`{"column": "at", "units": "min"}`: "unknown",
		`7`:                                "number",
	} {
		tables, err := ParseTables([]byte(file(since)), activity.BuiltinKinds())
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", since, err, want)
			}
			continue
		}
		if text := tables.fingerprint(activity.BuiltinKinds()); text != want {
			t.Errorf("%s: fingerprint %s, want %s", since, text, want)
		}
	}
}

// Numbers of each type are the same times in a full read, in the stream and in a comparison.
func TestEpochTimes(t *testing.T) {
	t.Parallel()
	columns := []struct{ name, kind, unit, after string }{ // after: 100 days from now, in SQL
		{"i", "int", "s", "n"}, {"b", "bigint", "ms", "n * 1000"}, {"u", "bigint", "us", "n * 1000000"}, {"n", "numeric", "ns", "n * 1000000000"},
		{"p", "numeric(20,3)", "s", "n + 0.000"}, {"d", "float8", "ms", "n * 1000"},
	}
	var tables, types, names, values []string
	for _, c := range columns {
		tables = append(tables, fmt.Sprintf(`{"table": "t", "kind": "block", "user": "w", "target": "%s{v}", "until": {"column": %q, "unit": %q}}`, c.name, c.name, c.unit))
		types, names, values = append(types, c.name+" "+c.kind), append(names, c.name), append(values, c.after)
	}
	a := newAppOf(t, `CREATE TABLE t (w text, v text, `+strings.Join(types, ", ")+`)`, `{"tables": [`+strings.Join(tables, ", ")+`]}`, activity.BuiltinKinds())
	end := time.Now().Add(100 * 24 * time.Hour).Truncate(time.Second).UTC()
	insert := func(user string) {
		a.exec(`INSERT INTO t SELECT $1, 1, `+strings.Join(values, ", ")+` FROM (SELECT $2::bigint AS n) AS s`, user, end.Unix())
		a.exec(`INSERT INTO t (w, v, `+strings.Join(names, ", ")+`) VALUES ($1, 2, 0, 0, 0, 0, 0, 0), ($1, 3, -1, -1, -1, -1, -1, -1)`, user)
		a.exec(`INSERT INTO t (w, v, p, d) VALUES ($1, 4, 'NaN', '-Infinity')`, user)
	}
	insert("read")
	f := a.follower("one")
	f.invalid.skip = true
	stop := a.start(f)
	a.reached()
	insert("streamed")
	a.reached()
	for _, user := range []string{"read", "streamed"} {
		has := make(map[string]time.Time)
		must(t, a.recorder.Export(t.Context(), user, func(x activity.Activity) error { has[x.Target] = x.Until; return nil }))
		want := make(map[string]time.Time)
		for _, name := range names {
			want[name+"1"], want[name+"2"], want[name+"4"] = end, time.Time{}, time.Time{}
		}
		delete(want, "p4") // no number
		delete(want, "d4") // ended
		for target := range want {
			if until, found := has[target]; !found || !until.Equal(want[target]) {
				t.Errorf("%s %s: until %v, %v, want %v", user, target, until, found, want[target])
			}
		}
		if len(has) != len(want) {
			t.Errorf("%s has %v", user, has)
		}
	}
	stop()
	if got := fmt.Sprint(f.Stats().Skipped); got != "map[time:2]" {
		t.Errorf("skipped %s", got)
	}
}

// A column of times has a type that fits its unit.
func TestTypesOfTimes(t *testing.T) {
	t.Parallel()
	a := newAppOf(t, `CREATE TABLE t (u text PRIMARY KEY, v text, a bigint, b timestamptz, c real, d numeric); ALTER TABLE t REPLICA IDENTITY FULL`,
		`{"tables": [{"table": "t", "kind": "block", "user": "u", "target": "v", "since": "a", "until": {"column": "b", "unit": "ms"}},
			{"table": "t", "kind": "hide", "user": "u", "target": "v", "since": {"column": "c", "unit": "s"}, "until": {"column": "d", "unit": "s"}}]}`, activity.BuiltinKinds())
	report, err := a.follower("one").Check(t.Context(), false)
	must(t, err)
	for _, want := range []string{
		`column "a" has the type bigint: a time has one of timestamp with time zone, timestamp`,
		`column "b" in ms has the type timestamp with time zone: a time has one of integer, bigint`, `column "c" in s has the type real`,
	} {
		if !slices.ContainsFunc(report.Problems, func(p Problem) bool { return strings.Contains(p.What, want) }) {
			t.Errorf("%q is not in %q", want, report.Problems)
		}
	}
	if slices.ContainsFunc(report.Problems, func(p Problem) bool { return strings.Contains(p.What, `"d"`) }) {
		t.Errorf("numeric in seconds: %q", report.Problems)
	}
}

// Events have times with a unit as their numbers are.
func TestEventsOfEpochTimes(t *testing.T) {
	s := newSink(t)
	s = newSinkOf(t, s.recorder, s.ledger, strings.Replace(eventTables, `"until": "ends"`, `"until": {"column": "ends", "unit": "s"}`, 1))
	end := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	s.want(t, recorded(4), mysql("c", "null", "000003", 1, 0, "", hide("1", "p", fmt.Sprint(end.Unix()), "0")),
		mysql("c", "null", "000003", 2, 0, "", hide("1", "q", "0", "0")), mysql("c", "null", "000003", 3, 0, "", hide("1", "r", "1", "0")),
		mysql("c", "null", "000003", 4, 0, "", hide("1", "s", `"`+fmt.Sprint(end.Unix())+`.000"`, "0")))
	has := make(map[string]time.Time)
	must(t, s.recorder.Export(t.Context(), "1", func(x activity.Activity) error { has[x.Target] = x.Until; return nil }))
	if len(has) != 3 || !has["p"].Equal(end) || !has["q"].IsZero() || !has["s"].Equal(end) {
		t.Errorf("has %v, want p and s until %v, q without an end", has, end)
	}
}
