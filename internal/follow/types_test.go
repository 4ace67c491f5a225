package follow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
)

const typesSQL = `CREATE TYPE mood AS ENUM ('red', 'green', 'it''s {"x", y}');
	CREATE DOMAIN label AS text CHECK (length(VALUE) > 0); CREATE DOMAIN code AS char(6);
	CREATE DOMAIN whole AS numeric(20); CREATE DOMAIN positive AS whole CHECK (VALUE > 0);
	CREATE DOMAIN tone AS mood; CREATE DOMAIN ids AS bigint[];`

// idType is a type of ids, with two values and the texts that they have as ids.
type idType struct {
	kind        string
	first, then string
	ids         [2]string
}

// idTypes returns the types of ids that are not whole numbers or text.
func idTypes() []idType {
	return []idType{
		{"char(8)", `'ab'`, `'a b '`, [2]string{"ab", "a b"}},
		{"code", `'ab'`, `'ü'`, [2]string{"ab", "ü"}},
		{"varchar(8)", `'ab '`, `'ab'`, [2]string{"ab ", "ab"}}, // its blanks count
		{"label", `'ab'`, `'cd'`, [2]string{"ab", "cd"}},
		{"numeric(20,0)", `15`, `12345678901234567890`, [2]string{"15", "12345678901234567890"}},
		{"numeric(20)", `1.4`, `-7`, [2]string{"1", "-7"}},
		{"positive", `1`, `20`, [2]string{"1", "20"}},
		{"mood", `'red'`, `'it''s {"x", y}'`, [2]string{"red", `it's {"x", y}`}},
		{"tone", `'red'`, `'green'`, [2]string{"red", "green"}},
		{"uuid", `'00000000-0000-0000-0000-00000000000A'`, `'00000000-0000-0000-0000-00000000000b'`, [2]string{
			"00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b",
		}},
	}
}

// listType is a type of arrays of ids, with two values and the ids in them.
type listType struct {
	kind        string
	first, then string
	ids         [2][]string
}

// listTypes returns the types of arrays of ids.
func listTypes() []listType {
	return []listType{
		{"text[]", `ARRAY['a', 'b c', NULL, 'NULL', 'a"\,{}']`, `ARRAY['b c', 'd', 'd']`, [2][]string{{"a", "b c", "NULL", `a"\,{}`}, {"b c", "d"}}},
		{"int[]", `'{1,2,3}'`, `'[0:1]={3,4}'`, [2][]string{{"1", "2", "3"}, {"3", "4"}}},
		{"ids", `'{1,2}'`, `'{{1,5},{6,7}}'`, [2][]string{{"1", "2"}, {"1", "5", "6", "7"}}},
		{"char(3)[]", `'{a,b}'`, `'{b,c}'`, [2][]string{{"a", "b"}, {"b", "c"}}},
		{"mood[]", `'{red,green}'`, `'{green}'`, [2][]string{{"red", "green"}, {"green"}}},
		{"numeric(9,0)[]", `'{1,2}'`, `'{2.3,4}'`, [2][]string{{"1", "2"}, {"2", "4"}}},
		{"jsonb", `'["a", 15, null]'`, `'[15, "b", 1e2]'`, [2][]string{{"a", "15"}, {"15", "b", "100"}}},
		{"jsonb", `'["\u00fc", "a\"]}"]'`, `'[]'`, [2][]string{{"ü", `a"]}`}, nil}},
		{"json", `'["a", 7 ]'`, `'[ 7]'`, [2][]string{{"a", "7"}, {"7"}}},
	}
}

// TestTypesOfIDs: an id of each type has the same text in a full read, in the stream, in a
// comparison and in a check. A row with an array gives an activity for each element that is not
// NULL, and an update ends and begins those that differ. It takes some 5 types of 18;
// TestLongTypesOfIDs takes all.
func TestTypesOfIDs(t *testing.T) { wantTypes(t, oneIn(4)) }

func TestLongTypesOfIDs(t *testing.T) { wantTypes(t, orShort(oneIn(4))) }

func wantTypes(t *testing.T, take func() bool) {
	t.Helper()
	t.Parallel()
	a := newAppOf(t, typesSQL, identityFile, activity.BuiltinKinds())
	for _, c := range idTypes() {
		if take() {
			a.wantType(c.kind, c.first, c.then, [2][]string{{c.ids[0]}, {c.ids[1]}})
		}
	}
	var err error
	a.tables, err = ParseTables([]byte(strings.Replace(identityFile, `"v"`, `"v[]"`, 1)), activity.BuiltinKinds())
	must(t, err)
	for _, c := range listTypes() {
		if take() {
			a.wantType(c.kind, c.first, c.then, c.ids)
		}
	}
}

// wantType checks a type of the column v of a table t.
func (a *app) wantType(kind, first, then string, ids [2][]string) {
	a.t.Helper()
	a.t.Log(kind)
	want := func(after string, of ...map[string][]string) {
		a.t.Helper()
		a.reached()
		var all []string
		for _, rows := range of {
			for user, targets := range rows {
				for _, target := range targets {
					all = append(all, "block "+user+" "+target)
				}
			}
		}
		slices.Sort(all)
		if got := a.has(); !slices.Equal(got, all) {
			a.t.Fatalf("%s, after %s: %q, want %q", kind, after, got, all)
		}
	}
	a.exec(`CREATE TABLE t (u text, v ` + kind + `, note text); INSERT INTO t VALUES ('u', ` + first + `), ('w', NULL)`)
	f := a.follower("one")
	stop := a.start(f)
	want("a full read", map[string][]string{"u": ids[0]})
	a.exec(`INSERT INTO t VALUES ('x', ` + then + `)`)
	want("an insert", map[string][]string{"u": ids[0], "x": ids[1]})
	a.exec(`UPDATE t SET v = ` + then + ` WHERE u = 'u'`)
	a.exec(`UPDATE t SET v = ` + first + ` WHERE u = 'x'`)
	want("an update", map[string][]string{"u": ids[1], "x": ids[0]})
	stop()
	same := len(ids[0]) + len(ids[1])
	a.wantSame(2 * same) // a block is with both users
	report, err := f.Check(a.t.Context(), true)
	must(a.t, err)
	rows := 2
	if len(ids[1]) == 0 {
		rows = 1
	}
	if got := report.Counted[0]; len(report.Problems) > 0 || got.Rows != 3 || got.Count != rows {
		a.t.Errorf("%s: %v, problems %q", kind, got, report.Problems)
	}
	stop = a.start(a.follower("two"))
	a.exec(`DELETE FROM t`)
	want("a delete")
	stop()
	a.exec(`DROP PUBLICATION feedfilter_app; DROP TABLE t`)
}

// wantSame compares source and ledger, which must be the same in n places of activities.
func (a *app) wantSame(n int) {
	a.t.Helper()
	f := a.follower("resync")
	f.options.Resync = true
	var log logBuffer
	f.logTo(slog.New(slog.NewTextHandler(&log, nil)))
	must(a.t, f.Run(a.t.Context()))
	if want := fmt.Sprintf("differences=0 same=%d\n", n); !strings.Contains(log.String(), want) {
		a.t.Errorf("want %q in\n%s", want, log.String())
	}
}

// TestListElements: an element that is no id is left out and counted, and its row counts with the
// others. What is no array at all gives nothing.
func TestListElements(t *testing.T) {
	t.Parallel()
	a := newAppOf(t, `CREATE TABLE t (u text, v jsonb)`, strings.Replace(identityFile, `"v"`, `"v[]"`, 1), activity.BuiltinKinds())
	const values = `VALUES ('1', '["2", "1", ""]'::jsonb), ('3', '{"a": "b"}'), ('4', '"x"'), ('5', '[1.5]'), ('6', '[["7"]]'), ('8', 'null'), ('9', '{}')`
	a.exec(`INSERT INTO t ` + values)
	f := a.follower("one")
	f.invalid.skip = true
	a.start(f)
	a.reached()
	wanted := []string{"block 1 2"}
	if got := a.has(); !slices.Equal(got, wanted) {
		t.Errorf("after a full read: %q", got)
	}
	a.exec(`DELETE FROM t`)
	a.exec(`INSERT INTO t ` + values)
	a.reached()
	if got := a.has(); !slices.Equal(got, wanted) {
		t.Errorf("after an insert: %q", got)
	}
	report, err := f.Check(t.Context(), true)
	must(t, err)
	if got, want := report.Counted[0].String(), "t as block: 1 of 7 rows count; not: 1 empty, 4 id, 2 null"; got != want {
		t.Errorf("counted %q, want %q", got, want)
	}
}

// TestTypesRefused: what is no id, or an array where none is expected, is refused by name.
func TestTypesRefused(t *testing.T) {
	t.Parallel()
	a := newAppOf(t, typesSQL+`CREATE TABLE t (a numeric, b numeric(9,2), c int[], d jsonb, e boolean, f float8, g text, h bytea[], i boolean)`,
		`{"tables": [{"table": "t", "kind": "block", "user": "{a}{b}{c}{d}{e}{f}", "target": "{g[]}{h[]}", "where": {"i": "yes"}}]}`, activity.BuiltinKinds())
	report, err := a.follower("one").Check(t.Context(), false)
	must(t, err)
	for _, want := range []string{
		`"a" has the type numeric: an id`, `"b" has the type numeric: an id`, `"c" is an array: write "c[]"`, `"d" has the type jsonb: an id`,
		`"e" has the type boolean: an id`, `"f" has the type double precision: an id`, `"g" has the type text: an array of ids is jsonb`,
		`"h" has the type bytea[]: an array`, `"i" is a boolean, and never "yes"`,
	} {
		if !slices.ContainsFunc(report.Problems, func(p Problem) bool { return strings.Contains(p.What, want) }) {
			t.Errorf("%q is not in %q", want, report.Problems)
		}
	}
}

// TestWhereOfTypes: where compares a boolean by its truth, and char(n) without trailing blanks.
func TestWhereOfTypes(t *testing.T) {
	t.Parallel()
	cases := []struct{ kind, text, yes, no string }{
		{"boolean", "t", "true", "false"}, {"boolean", "true", "true", "false"}, {"boolean", "1", "true", "false"},
		{"char(5)", "on", `'on'`, `'on t'`}, {"char(5)", "on  ", `'on'`, `'on t'`}, {"code", "on", `'on'`, `'on t'`},
		{"text", "on", `'on'`, `'on t'`},
	}
	var file, want []string
	sql := typesSQL
	for n, c := range cases {
		file = append(file, fmt.Sprintf(`{"table": "t%d", "kind": "block", "user": "u", "target": "v", "where": {"c": %q}}`, n, c.text))
		sql += fmt.Sprintf(`CREATE TABLE t%d (u text, v text, c %s);`, n, c.kind)
		want = append(want, fmt.Sprintf("block u%d 2", n), fmt.Sprintf("block u%d 5", n))
	}
	a := newAppOf(t, sql, `{"tables": [`+strings.Join(file, ", ")+`]}`, activity.BuiltinKinds())
	insert := func(first int) { // three rows for each table, of which the first counts
		for n, c := range cases {
			a.exec(fmt.Sprintf(`INSERT INTO t%[1]d VALUES ('u%[1]d', '%[2]d', %[3]s), ('u%[1]d', '%[4]d', %[5]s), ('u%[1]d', '%[6]d', NULL)`,
				n, first, c.yes, first+1, c.no, first+2))
		}
	}
	insert(2)
	a.start(a.follower("one"))
	a.reached()
	insert(5)
	a.reached()
	slices.Sort(want)
	if got := a.has(); !slices.Equal(got, want) {
		t.Errorf("has %q, want %q", got, want)
	}
}

// TestLatin1: ids of a database in another encoding are UTF-8, in a full read and in the stream.
func TestLatin1(t *testing.T) {
	t.Parallel()
	a := newAppOf(t, `CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`, identityFile, activity.BuiltinKinds())
	url := strings.Replace(a.server.URL(), "/postgres?", "/latin?", 1)
	conn, err := pgx.Connect(t.Context(), url+"&client_encoding=UTF8")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	a.conn = conn
	a.exec(`CREATE TABLE t (u text, v text); INSERT INTO t VALUES ('ä', 'ö')`)
	f := a.follower("one")
	f.source.url = url
	a.start(f)
	a.reached()
	a.exec(`INSERT INTO t VALUES ('ä', 'é')`)
	a.reached()
	if got, want := a.has(), []string{"block ä é", "block ä ö"}; !slices.Equal(got, want) {
		t.Errorf("has %q, want %q", got, want)
	}
}
