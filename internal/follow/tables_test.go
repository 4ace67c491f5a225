package follow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

const apps = `{"tables": [
  {"table": "public.blocks", "kind": "block", "user": "blocker_id", "target": "blocked_id", "since": "created_at"},
  {"table": "mutes", "kind": "hides", "user": "account_id", "target": "target_account_id", "until": "expires_at", "unless": ["deleted_at"]},
  {"table": "person_actions", "kind": "blocks", "user": "person_id", "target": "target_id", "while": ["blocked_at"], "since": "blocked_at"},
  {"table": "list_members", "kind": "block", "user": "list:{list_id}", "target": "member_id", "where": {"state": "accepted"}}]}`

func TestTables(t *testing.T) {
	tables, err := ParseTables([]byte(apps), activity.BuiltinKinds())
	if err != nil {
		t.Fatal(err)
	}
	if kinds := tables.Kinds(); !slices.Equal(kinds, []string{"block", "hide"}) {
		t.Errorf("kinds %v, want their names", kinds)
	}
	const null = "NULL"
	for _, c := range []struct {
		table int
		row   string // column=value, ...
		want  string // "user target since until"; "": it gives nothing
	}{
		{0, "blocker_id=1 blocked_id=2 created_at=2026-01-02T03:04:05.5+02", "1 2 2026-01-02T01:04:05.5Z -"},
		{0, "blocker_id=1 blocked_id=NULL created_at=NULL", ""},
		{1, "account_id=1 target_account_id=2 expires_at=NULL deleted_at=NULL", "1 2 - -"},
		{1, "account_id=1 target_account_id=2 expires_at=infinity deleted_at=f", "1 2 - -"},
		{1, "account_id=1 target_account_id=2 expires_at=2026-01-02 deleted_at=t", ""},
		{1, "account_id=1 target_account_id=2 expires_at=2026-01-02 deleted_at=NULL", "1 2 - 2026-01-02T00:00:00Z"},
		{1, "account_id=1 target_account_id=2 expires_at=-infinity deleted_at=f", "1 2 - 1970-01-01T00:00:00Z"},
		{1, "account_id=1 target_account_id=2 expires_at=0001-01-01 deleted_at=f", "1 2 - 1970-01-01T00:00:00Z"},
		{1, "account_id=1 target_account_id=2 expires_at=0044-03-15_BC deleted_at=f", "1 2 - 1970-01-01T00:00:00Z"},
		{0, "blocker_id=1 blocked_id=2 created_at=-infinity", "1 2 - -"},
		{0, "blocker_id=1 blocked_id=2 created_at=infinity", "1 2 - -"},
		{0, "blocker_id=1 blocked_id=2 created_at=1969-12-31T23:59:59+00", "1 2 - -"},
		{2, "person_id=1 target_id=2 blocked_at=NULL", ""},
		{2, "person_id=1 target_id=2 blocked_at=2026-01-02T00:00:00", "1 2 2026-01-02T00:00:00Z -"},
		{3, "list_id=7 member_id=2 state=accepted", "list:7 2 - -"},
		{3, "list_id=7 member_id=2 state=asked", ""},
	} {
		values := make(map[string]*string)
		for one := range strings.FieldsSeq(c.row) {
			column, v, _ := strings.Cut(one, "=")
			v = strings.NewReplacer("T", " ", "_", " ").Replace(v)
			if values[column] = &v; v == null {
				values[column] = nil
			}
		}
		mapper := newMapper(tables, activity.BuiltinKinds())
		all, _, err := mapper.gives(&tables[c.table], func(column string) (*string, bool) { return values[column], true })
		got := ""
		for _, m := range all {
			at := func(at time.Time) string {
				if at.IsZero() {
					return "-"
				}
				return at.Format(time.RFC3339Nano)
			}
			got = strings.Join([]string{m.user, m.target, at(m.Since), at(m.Until)}, " ")
		}
		if got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.row, got, err, c.want)
		}
	}
}

func TestTablesRefused(t *testing.T) {
	for file, want := range map[string]string{
		`{}`:              "0, want 1",
		`{"tables":[{}]}`: "no kind",
		`{"table":[]}`:    "unknown",
		`{"tables":[{"table":"b","kind":"seen","user":"a","target":"b"}]}`:                     "seen has a window, and only kinds that the ledger keeps are followed: import its rows",
		`{"tables":[{"table":"b","kind":"mute","user":"a","target":"b"}]}`:                     "there is no kind \"mute\": give its file with --kinds",
		`{"tables":[{"table":"b","kind":"block","user":"a"}]}`:                                 "target: missing",
		`{"tables":[{"table":".b","kind":"block","user":"a","target":"b"}]}`:                   "schema.name",
		`{"tables":[{"table":"b","kind":"block","user":"l:{a","target":"b"}]}`:                 "braces",
		`{"tables":[{"table":"b","kind":"block","user":"a}","target":"b"}]}`:                   "without {",
		`{"tables":[{"table":"b","table":"c","kind":"block","user":"a"}]}`:                     "duplicate",
		`{"tables":[{"table":"b","kind":"block","user":"","target":"b"}]}`:                     "no column",
		`{"tables":[{"table":"b","kind":"block","user":"a","target":"[]"}]}`:                   "no column before []",
		`{"tables":[{"table":"b","kind":"block","user":"a","target":"b","where":{"c":null}}]}`: `column "c": null is no text: use "unless"`,
		`{"tables":[{"table":"b","kind":"block","user":"a","target":"b","x":1}]}`:              "unknown",
	} {
		if _, err := ParseTables([]byte(file), activity.BuiltinKinds()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

// TestTablesFold: rows whose target is the same once folded give the same activity.
func TestTablesFold(t *testing.T) {
	kinds, err := activity.NewKinds(activity.Kind{Name: "mute", Plural: "mutes", Target: "domain", Effect: activity.Drop, Fold: activity.FoldDomain})
	if err != nil {
		t.Fatal(err)
	}
	tables, err := ParseTables([]byte(`{"tables":[{"table":"mutes","kind":"mute","user":"a","target":"b"}]}`), kinds)
	if err != nil {
		t.Fatal(err)
	}
	rowOf := func(domain string) row {
		return func(column string) (*string, bool) {
			return new(map[string]string{"a": "1", "b": domain}[column]), true
		}
	}
	m := newMapper(tables, kinds)
	changes, err := m.changes(&tables[0], time.Time{}, rowOf("X.Example."), rowOf("x.example"))
	if err != nil || len(changes) > 0 {
		t.Errorf("another form of the same id: %+v, %v", changes, err)
	}
	changes, err = m.changes(&tables[0], time.Time{}, nil, rowOf("Bücher.example"))
	if err != nil || len(changes) != 1 || changes[0].Target != "xn--bcher-kva.example" {
		t.Errorf("%+v, %v", changes, err)
	}
}

// TestTablesPhrases: rows with the same phrase give the same activity, and one without a word none.
func TestTablesPhrases(t *testing.T) {
	kinds, err := activity.NewKinds(activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText})
	if err != nil {
		t.Fatal(err)
	}
	tables, err := ParseTables([]byte(`{"tables":[{"table":"muted_words","kind":"word-mute","user":"a","target":"b"}]}`), kinds)
	if err != nil {
		t.Fatal(err)
	}
	rowOf := func(phrase string) row {
		return func(column string) (*string, bool) {
			return new(map[string]string{"a": "1", "b": phrase}[column]), true
		}
	}
	m := newMapper(tables, kinds)
	changes, err := m.changes(&tables[0], time.Time{}, rowOf("Climate  CHANGE"), rowOf("climate-change"))
	if err != nil || len(changes) > 0 {
		t.Errorf("another form of the same phrase: %+v, %v", changes, err)
	}
	changes, err = m.changes(&tables[0], time.Time{}, rowOf("#Go"), rowOf("GO"))
	if err != nil || len(changes) != 2 || changes[0].Target != "#go" || changes[1].Target != "go" {
		t.Errorf("another phrase: %+v, %v", changes, err)
	}
	_, why, err := m.gives(&tables[0], rowOf("!?"))
	if why != reasonID || err == nil || !strings.Contains(err.Error(), "no word in it") {
		t.Errorf("a phrase without a word: %v, %v", why, err)
	}
}
