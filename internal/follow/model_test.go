package follow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// modelColumns are the columns of each table of the model: a user, a target, times, and conditions.
// The last one is not mapped.
func modelColumns() []string { return []string{"u", "v", "s", "e", "w", "d", "st", "more"} }

// modelRow has the values of a row by column; nil: NULL.
type modelRow map[string]*string

// model is a source of two tables whose rows are in maps.
type model struct {
	rt     *rapid.T
	tables Tables
	key    [2]bool // the replica identity of the table is a key of its mapped columns
	rows   [2]map[int]modelRow
	next   int
	log    []modelTransaction // in order
	lsn    pglogrepl.LSN
	now    time.Time
}

// modelTransaction is what the source sends of a transaction.
type modelTransaction struct {
	messages []any
	end      pglogrepl.LSN
}

func pick[T any](rt *rapid.T, what string, of ...T) T {
	return rapid.SampledFrom(of).Draw(rt, what)
}

// newModel returns a model with a random file of tables.
func newModel(rt *rapid.T, lsn pglogrepl.LSN) *model {
	m := &model{rt: rt, rows: [2]map[int]modelRow{{}, {}}, lsn: lsn, now: time.Now().UTC().Truncate(time.Second)}
	var all []map[string]any
	for n := range rapid.IntRange(1, 3).Draw(rt, "tables") {
		t := map[string]any{
			"table": fmt.Sprint("app.T", min(n, pick(rt, "table", 0, 1))), "kind": pick(rt, "kind", "block", "block", "hide"),
			"user": pick(rt, "user", "u", "u", "list:{u}"), "target": pick(rt, "target", "v", "v", "{v}-{u}"),
		}
		for field, value := range map[string]any{
			"since": "s", "until": "e", "while": []string{"w"}, "unless": []string{"d"}, "where": map[string]string{"st": "a"},
		} {
			if pick(rt, field, true, false) {
				t[field] = value
			}
		}
		all = append(all, t)
	}
	file, err := json.Marshal(map[string]any{"tables": all})
	must(rt, err)
	m.tables, err = ParseTables(file, activity.BuiltinKinds())
	must(rt, err)
	m.key = [2]bool{pick(rt, "key", true, false), pick(rt, "key", true, false)}
	return m
}

// value returns a random value of a column.
func (m *model) value(column string) *string {
	at := func(d time.Duration) string { return m.now.Add(d).Format("2006-01-02 15:04:05+00") }
	var of []string
	switch column {
	case "u":
		of = []string{"1", "2", "NULL"}
	case "v":
		of = []string{"8", "9", "8", "9", "NULL", ""}
	case "s":
		of = []string{at(-2 * time.Hour), at(-time.Hour), "NULL"}
	case "e":
		of = []string{at(-time.Hour), at(time.Hour), at(2 * time.Hour), "infinity", "NULL"}
	case "w", "d":
		of = []string{"t", "f", "NULL"}
	default:
		of = []string{"a", "b", "NULL"}
	}
	if v := pick(m.rt, column, of...); v != "NULL" {
		return &v
	}
	return nil
}

// identity are the columns that old rows have.
func (m *model) identity(table int) (all []string) {
	for i := range m.tables {
		if _, name := m.tables[i].name(); name == fmt.Sprint("T", table) {
			all = append(all, m.tables[i].columns()...)
		}
	}
	return all
}

// tuple is a row as the stream has it: with those columns, and without what an update leaves.
func (m *model) tuple(r modelRow, has, unchanged func(column string) bool) *pglogrepl.TupleData {
	t := &pglogrepl.TupleData{}
	for _, column := range modelColumns() {
		c := &pglogrepl.TupleDataColumn{DataType: pglogrepl.TupleDataTypeNull}
		switch {
		case unchanged(column):
			c.DataType = pglogrepl.TupleDataTypeToast
		case has(column) && r[column] != nil:
			c.DataType, c.Data = pglogrepl.TupleDataTypeText, []byte(*r[column])
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

func all(string) bool  { return true }
func none(string) bool { return false }

// old is the old row of an update or a delete, and what it is called.
func (m *model) old(table int, r modelRow) (*pglogrepl.TupleData, uint8) {
	if m.key[table] {
		return m.tuple(r, func(c string) bool { return slices.Contains(m.identity(table), c) }, none), pglogrepl.UpdateMessageTupleTypeKey
	}
	return m.tuple(r, all, none), pglogrepl.UpdateMessageTupleTypeOld
}

// describe describes both tables, as the source does when a stream begins.
func (m *model) describe() (messages []any) {
	for table := range m.rows {
		r := &pglogrepl.RelationMessage{RelationID: uint32(table), Namespace: "app", RelationName: fmt.Sprint("T", table), ReplicaIdentity: 'f'}
		if m.key[table] {
			r.ReplicaIdentity = 'i'
		}
		for _, column := range modelColumns() {
			c := &pglogrepl.RelationMessageColumn{Name: column}
			if m.key[table] && slices.Contains(m.identity(table), column) {
				c.Flags = 1
			}
			r.Columns = append(r.Columns, c)
		}
		messages = append(messages, r)
	}
	return messages
}

// change makes a random change of a row, and returns its message.
func (m *model) change() any {
	table := pick(m.rt, "table", 0, 1)
	rows, relation := m.rows[table], uint32(table)
	ids := slices.Sorted(maps.Keys(rows))
	what := pick(m.rt, "change", "insert", "insert", "update", "update", "delete")
	if len(ids) == 0 {
		what = "insert"
	}
	if what == "insert" {
		r := make(modelRow)
		for _, column := range modelColumns() {
			r[column] = m.value(column)
		}
		m.next++
		rows[m.next] = r
		return &pglogrepl.InsertMessage{RelationID: relation, Tuple: m.tuple(r, all, none)}
	}
	id := pick(m.rt, "row", ids...)
	before := rows[id]
	old, kind := m.old(table, before)
	if what == "delete" {
		delete(rows, id)
		return &pglogrepl.DeleteMessage{RelationID: relation, OldTupleType: kind, OldTuple: old}
	}
	after, keyed := maps.Clone(before), false
	for _, column := range modelColumns() {
		if pick(m.rt, "changes", true, false, false) {
			after[column] = m.value(column)
			keyed = keyed || slices.Contains(m.identity(table), column) && formatted(after[column]) != formatted(before[column])
		}
	}
	rows[id] = after
	if m.key[table] && !keyed {
		old, kind = nil, 0
	}
	toast := pick(m.rt, "toast", true, false)
	return &pglogrepl.UpdateMessage{RelationID: relation, OldTupleType: kind, OldTuple: old, NewTuple: m.tuple(after, all, func(c string) bool {
		return toast && (c == "v" || c == "more") && before[c] != nil && after[c] == before[c]
	})}
}

func formatted(v *string) string {
	if v == nil {
		return "NULL"
	}
	return "=" + *v
}

// commit adds a transaction of some changes to the log.
func (m *model) commit(changes int) {
	final := m.lsn + 8
	m.lsn += 16
	messages := []any{&pglogrepl.BeginMessage{FinalLSN: final, CommitTime: m.now.Add(time.Duration(len(m.log)) * time.Microsecond)}}
	for range changes {
		messages = append(messages, m.change())
	}
	messages = append(messages, &pglogrepl.CommitMessage{CommitLSN: final, TransactionEndLSN: m.lsn})
	m.log = append(m.log, modelTransaction{messages, m.lsn})
}

// wanted returns what the rows give, and whether all that end last say when they begin.
func (m *model) wanted() map[item]ledger.Span {
	want := make(map[item]ledger.Span)
	for i := range m.tables {
		t := &m.tables[i]
		for _, r := range m.rows[strings.TrimPrefix(t.Table, "app.T")[0]-'0'] {
			set := func(column string) bool { return r[column] != nil && *r[column] != "f" }
			if len(t.While) > 0 && !set("w") || len(t.Unless) > 0 && set("d") || len(t.Where) > 0 && formatted(r["st"]) != "=a" ||
				r["u"] == nil || r["v"] == nil {
				continue
			}
			of := item{t.Kind, *r["u"], *r["v"]}
			if len(t.User.parts) > 1 && t.User.parts[0] != "" {
				of.user = "list:" + of.user
			}
			if len(t.Target.parts) > 3 {
				of.target += "-" + *r["u"]
			}
			var s ledger.Span
			at := func(v *string) time.Time {
				if v == nil || *v == "infinity" {
					return time.Time{}
				}
				parsed, err := time.Parse("2006-01-02 15:04:05-07", *v)
				must(m.rt, err)
				return parsed.UTC()
			}
			if t.Since.Column != "" {
				s.Since = at(r["s"])
			}
			if t.Until.Column != "" {
				s.Until = at(r["e"])
			}
			if of.target == "" || !s.Until.IsZero() && s.Until.Before(m.now) {
				continue
			}
			had, found := want[of]
			order := 1
			if found {
				order = endsAt(s).Compare(endsAt(had))
			}
			if order > 0 || order == 0 && s.Since.Before(had.Since) {
				want[of] = s
			}
		}
	}
	return want
}

func endsAt(s ledger.Span) time.Time {
	if s.Until.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return s.Until
}

// The ledger is the mapping of the rows, for random tables and rows, whenever the follower begins
// again: also within a transaction that it had in part.
func TestFollowModel(t *testing.T) {
	t.Parallel()
	g := newRig(t, appTables)
	lsn := pglogrepl.LSN(100)
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, lsn)
		g.tables = m.tables
		first := m.lsn
		defer func() { lsn = m.lsn }()
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 4).Draw(rt, "transactions") {
				m.commit(rapid.IntRange(0, 6).Draw(rt, "changes"))
			}
			g.stream(m, first, rapid.Bool().Draw(rt, "cut"))
			g.wantModel(m)
		}
		for table := range m.rows { // all ends
			m.lsn += 16
			messages := []any{&pglogrepl.BeginMessage{FinalLSN: m.lsn - 8, CommitTime: m.now}}
			for _, r := range m.rows[table] {
				old, kind := m.old(table, r)
				messages = append(messages, &pglogrepl.DeleteMessage{RelationID: uint32(table), OldTupleType: kind, OldTuple: old})
			}
			m.log = append(m.log, modelTransaction{append(messages, &pglogrepl.CommitMessage{TransactionEndLSN: m.lsn}), m.lsn})
			m.rows[table] = nil
		}
		g.stream(m, first, false)
		g.wantModel(m)
	})
}

// stream sends the transactions that the ledger lacks. If cut, it first sends only some messages.
func (g *rig) stream(m *model, first pglogrepl.LSN, cut bool) {
	for ; ; cut = false {
		at := g.lease()
		if at.lsn < first {
			at = position{lsn: first, tables: "x"}
		}
		g.r.f.invalid.skip = true
		messages := append(m.describe(), at.lsn)
		for _, tx := range m.log {
			if tx.end > at.lsn {
				messages = append(messages, tx.messages...)
			}
		}
		if cut {
			messages = messages[:rapid.IntRange(2, len(messages)).Draw(m.rt, "messages")]
		}
		g.apply(at, g.decode(messages...))
		if !cut {
			return
		}
	}
}

// wantModel checks that the ledger is the mapping of the model's rows.
func (g *rig) wantModel(m *model) {
	want, got := m.wanted(), make(map[item]bool)
	must(m.rt, g.recorder.Export(g.t.Context(), "", func(x activity.Activity) error {
		of := item{x.Kind, x.User, x.Target}
		if got[of] = true; strings.HasPrefix(x.Kind, "like") {
			return nil
		}
		w, found := want[of]
		if !found || !w.Until.Equal(x.Until) || !w.Since.IsZero() && !w.Since.Equal(x.Since) {
			m.rt.Fatalf("%v: %v to %v, want %v, %v", of, x.Since, x.Until, w, found)
		}
		return nil
	}))
	for of := range want {
		if !got[of] {
			m.rt.Fatalf("%v is not in the ledger", of)
		}
	}
}
