package follow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// errLacks means that the stream lacks what became of rows, so the tables have to be read whole.
var errLacks = errors.New("the stream lacks changes")

// rowError is a row that gives an invalid activity.
type rowError struct {
	table string
	row   string // the mapped columns, for people
	cause error
}

func (e *rowError) Error() string {
	return fmt.Sprintf("table %s, row %s: %v", e.table, e.row, e.cause)
}

// Unwrap returns the cause.
func (e *rowError) Unwrap() error { return e.cause }

// relation is a table as the stream describes it.
type relation struct {
	tables  []*Table // of the file, as which it counts
	name    string
	columns []string
	full    bool // the stream has the whole old row
}

// decoder makes changes of activities from messages of pgoutput. Partitions are published as their
// root. It is for one goroutine.
type decoder struct {
	tables    Tables
	check     func(activity.SourceChange) error
	counts    map[string]*counts
	relations map[uint32]*relation
	at        time.Time // commit of the current transaction
}

// newDecoder returns a decoder. check refuses invalid activities.
func newDecoder(tables Tables, check func(activity.SourceChange) error) *decoder {
	return &decoder{tables: tables, check: check, counts: tables.counts(), relations: make(map[uint32]*relation)}
}

// decode returns the changes of activities of a message within a transaction.
func (d *decoder) decode(m pglogrepl.Message) ([]activity.SourceChange, error) {
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		d.at = m.CommitTime
	case *pglogrepl.RelationMessage:
		return nil, d.learn(m)
	case *pglogrepl.InsertMessage:
		return d.row(m.RelationID, nil, m.Tuple)
	case *pglogrepl.UpdateMessage:
		if err := d.checkOld(m.RelationID, m.OldTupleType); err != nil {
			return nil, err
		}
		if m.OldTuple == nil { // no column of the replica identity changed, and so no mapped one
			return nil, nil
		}
		return d.row(m.RelationID, m.OldTuple, m.NewTuple)
	case *pglogrepl.DeleteMessage:
		if err := d.checkOld(m.RelationID, m.OldTupleType); err != nil {
			return nil, err
		}
		return d.row(m.RelationID, m.OldTuple, nil)
	case *pglogrepl.TruncateMessage:
		for _, id := range m.RelationIDs {
			if r := d.relations[id]; r != nil && len(r.tables) > 0 {
				return nil, fmt.Errorf("%w: %s was truncated", errLacks, r.name)
			}
		}
	}
	return nil, nil
}

// learn takes the description of a table. A mapped column must be there, and in the old row of
// updates and deletes.
func (d *decoder) learn(m *pglogrepl.RelationMessage) error {
	r := &relation{name: m.Namespace + "." + m.RelationName, full: m.ReplicaIdentity == 'f'}
	identity := make(map[string]bool)
	for _, c := range m.Columns {
		r.columns = append(r.columns, c.Name)
		identity[c.Name] = c.Flags == 1 || r.full
	}
	for i := range d.tables {
		t := &d.tables[i]
		if t.schema() != m.Namespace || t.bare() != m.RelationName {
			continue
		}
		for _, column := range t.columns() {
			old, found := identity[column]
			switch {
			case !found:
				return fmt.Errorf("table %s has no column %q any more", r.name, column)
			case !old:
				return fmt.Errorf("table %s: column %q is not in the replica identity: ALTER TABLE %s REPLICA IDENTITY FULL", r.name, column, r.name)
			}
		}
		r.tables = append(r.tables, t)
	}
	d.relations[m.RelationID] = r
	return nil
}

// checkOld returns an error if an old row is not whole, although the table says so: it is one of a
// partition that has another replica identity.
func (d *decoder) checkOld(id uint32, kind uint8) error {
	if r := d.relations[id]; r != nil && r.full && len(r.tables) > 0 && kind != pglogrepl.UpdateMessageTupleTypeOld {
		return fmt.Errorf("a partition of %s has another replica identity than FULL: ALTER TABLE each of them REPLICA IDENTITY FULL, "+
			"and read the tables again with --resync", r.name)
	}
	return nil
}

// row returns the changes of an old row that becomes a new one; nil: there is none. With a
// [*rowError], which says that the new row is not valid, it returns the changes of all else.
func (d *decoder) row(id uint32, before, after *pglogrepl.TupleData) (changes []activity.SourceChange, err error) {
	r := d.relations[id]
	if r == nil {
		return nil, fmt.Errorf("relation %d was not described", id)
	}
	var invalid error
	for _, t := range r.tables {
		n := len(changes)
		was, err := d.valid(r, t, before, nil)
		if _, bad := errors.AsType[*rowError](err); err != nil && !bad { // one that is bad was never recorded
			return nil, err
		}
		is, err := d.valid(r, t, after, before)
		bad, refused := errors.AsType[*rowError](err)
		if refused {
			invalid = bad
		} else if err != nil {
			return nil, err
		}
		switch {
		case was != nil && is != nil && *was == *is:
		case was != nil && is != nil && was.user == is.user && was.target == is.target:
			changes = append(changes, d.change(t, is, []ledger.Span{was.Span}, []ledger.Span{is.Span}))
		default:
			if was != nil {
				changes = append(changes, d.change(t, was, []ledger.Span{was.Span}, nil))
			}
			if is != nil {
				changes = append(changes, d.change(t, is, nil, []ledger.Span{is.Span}))
			}
		}
		if len(changes) > n {
			d.counts[t.Table].recorded.Add(1)
		} else if !refused {
			d.counts[t.Table].ignored.Add(1)
		}
	}
	return changes, invalid
}

// valid is mapped, but returns a [*rowError] for an activity that is not valid.
func (d *decoder) valid(r *relation, t *Table, row, old *pglogrepl.TupleData) (*mapped, error) {
	m, err := d.mapped(r, t, row, old)
	if m == nil || err != nil {
		return nil, err
	}
	if err := d.check(d.change(t, m, nil, nil)); err != nil {
		return nil, &rowError{t.Table, r.describe(t, row), err}
	}
	return m, nil
}

func (d *decoder) change(t *Table, m *mapped, removed, added []ledger.Span) activity.SourceChange {
	return activity.SourceChange{User: m.user, Kind: t.Kind, Target: m.target, At: d.at, Removed: removed, Added: added}
}

// mapped returns what a row gives; nil: nothing. old has the values that the row does not repeat.
func (d *decoder) mapped(r *relation, t *Table, row, old *pglogrepl.TupleData) (*mapped, error) {
	if row == nil {
		return nil, nil //nolint:nilnil // there is no row
	}
	var missing string
	m, counts, err := t.of(func(column string) *string {
		i := slices.Index(r.columns, column)
		for _, in := range []*pglogrepl.TupleData{row, old} {
			if in == nil || i >= len(in.Columns) {
				continue
			}
			switch c := in.Columns[i]; c.DataType {
			case pglogrepl.TupleDataTypeNull:
				return nil
			case pglogrepl.TupleDataTypeText:
				return new(string(c.Data))
			}
		}
		missing = column
		return nil
	})
	switch {
	case missing != "":
		return nil, fmt.Errorf("table %s: the stream lacks the value of column %q", r.name, missing)
	case err != nil:
		return nil, &rowError{t.Table, r.describe(t, row), err}
	case !counts:
		return nil, nil //nolint:nilnil // it gives nothing
	}
	return &m, nil
}

// describe returns the mapped columns of a row, for people.
func (r *relation) describe(t *Table, row *pglogrepl.TupleData) string {
	var all []string
	for i, c := range row.Columns {
		if i < len(r.columns) && slices.Contains(t.columns(), r.columns[i]) && c.DataType == pglogrepl.TupleDataTypeText {
			all = append(all, fmt.Sprintf("%s=%q", r.columns[i], c.Data))
		}
	}
	return strings.Join(all, " ")
}
