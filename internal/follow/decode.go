package follow

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// errLacks means that the stream lacks what became of rows, so the tables have to be read whole.
var errLacks = errors.New("the stream lacks changes")

func (m *mapped) change(at time.Time, removed, added []ledger.Span) activity.SourceChange {
	return activity.SourceChange{
		User:    m.user,
		Kind:    m.kind,
		Target:  m.target,
		At:      at,
		Removed: removed,
		Added:   added,
	}
}

// mapper makes changes of activities from changes of rows.
type mapper struct {
	tables Tables
	kinds  *activity.Kinds
	types  map[string]columnTypes // by table, as the catalog says; see known
}

func newMapper(tables Tables, kinds *activity.Kinds) mapper {
	return mapper{tables: tables, kinds: kinds}
}

// known returns the mapper for rows of the tables as a catalog has them.
func (m *mapper) known(c *catalog) mapper {
	with := *m
	with.types = make(map[string]columnTypes)
	for i := range m.tables {
		schema, table := m.tables[i].name()
		with.types[m.tables[i].Table] = c.types[schema+"."+table]
	}
	return with
}

// named returns the tables of the file as which the source's table of that name counts.
func (m *mapper) named(schema, name string) (all []*Table) {
	for i := range m.tables {
		if of, table := m.tables[i].name(); of == schema && table == name {
			all = append(all, &m.tables[i])
		}
	}
	return all
}

// changes returns the changes of an old row that becomes a new one; nil: there is none. An old row
// that is not valid was never recorded. With a [*rowError], which says that the new row is not
// valid, it returns the changes of all else.
func (m *mapper) changes(
	t *Table, at time.Time, before, after row,
) (changes []activity.SourceChange, err error) {
	var was, is []mapped
	if before != nil {
		was, _, err = m.gives(t, before)
		if _, bad := errors.AsType[*rowError](err); err != nil && !bad {
			return nil, err
		}
	}
	err = nil
	if after != nil {
		is, _, err = m.gives(t, after)
	}
	_, refused := errors.AsType[*rowError](err)
	if err != nil && !refused {
		return nil, err
	}
	return changesBetween(was, is, at), err
}

// changesBetween returns what differs between what a row gave and gives: first what it gives no
// longer.
func changesBetween(was, is []mapped, at time.Time) (changes []activity.SourceChange) {
	before, after := spansOf(was), spansOf(is)
	for i := range was {
		if _, found := after(was[i].item); !found {
			changes = append(changes, was[i].change(at, []ledger.Span{was[i].Span}, nil))
		}
	}
	for i := range is {
		switch had, found := before(is[i].item); {
		case !found:
			changes = append(changes, is[i].change(at, nil, []ledger.Span{is[i].Span}))
		case had != is[i].Span:
			changes = append(changes, is[i].change(at, []ledger.Span{had}, []ledger.Span{is[i].Span}))
		}
	}
	return changes
}

// spansOf returns a function that finds the span of an activity.
func spansOf(all []mapped) func(item) (ledger.Span, bool) {
	if len(all) > 8 { // an array
		spans := make(map[item]ledger.Span, len(all))
		for i := range all {
			spans[all[i].item] = all[i].Span
		}
		return func(of item) (ledger.Span, bool) { span, found := spans[of]; return span, found }
	}
	return func(of item) (span ledger.Span, found bool) {
		for i := range all {
			if all[i].item == of {
				return all[i].Span, true
			}
		}
		return span, false
	}
}

// relation is a table as the stream describes it.
type relation struct {
	tables  []*Table // of the file, as which it counts
	name    string
	columns []string
	full    bool // the stream has the whole old row, but for partitions with another replica identity
}

// row returns a row of the table; nil: there is none. old has the values that it does not repeat.
func (r *relation) row(tuple, old *pglogrepl.TupleData) row {
	if tuple == nil {
		return nil
	}
	return func(column string) (*string, bool) {
		i := slices.Index(r.columns, column)
		for _, in := range []*pglogrepl.TupleData{tuple, old} {
			if in == nil || i >= len(in.Columns) {
				continue
			}
			switch c := in.Columns[i]; c.DataType {
			case pglogrepl.TupleDataTypeNull:
				return nil, true
			case pglogrepl.TupleDataTypeText:
				return new(string(c.Data)), true
			}
		}
		return nil, false
	}
}

// decoder makes changes of activities from messages of pgoutput. Partitions are published as their
// root. It is for one goroutine.
type decoder struct {
	mapper

	counts    map[string]*counts // of changes, by table
	roots     map[uint32]string  // tables of the file by oid, when they were read: see [catalog]
	relations map[uint32]*relation
	at        time.Time // commit of the current transaction
}

func newDecoder(m mapper, counts map[string]*counts, roots map[uint32]string) *decoder {
	return &decoder{mapper: m, counts: counts, roots: roots, relations: make(map[uint32]*relation)}
}

// decode returns the changes of activities of a message within a transaction. With a [*rowError],
// which says that a new row is not valid, it returns the changes of all else.
func (d *decoder) decode(m pglogrepl.Message) ([]activity.SourceChange, error) {
	const whole = pglogrepl.UpdateMessageTupleTypeOld
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		d.at = m.CommitTime
	case *pglogrepl.RelationMessage:
		return nil, d.learn(m)
	case *pglogrepl.InsertMessage:
		return d.row(m.RelationID, whole, nil, m.Tuple)
	case *pglogrepl.UpdateMessage:
		if m.OldTuple == nil { // no column of the replica identity changed, and so no mapped one
			m.NewTuple = nil
		}
		return d.row(m.RelationID, m.OldTupleType, m.OldTuple, m.NewTuple)
	case *pglogrepl.DeleteMessage:
		return d.row(m.RelationID, m.OldTupleType, m.OldTuple, nil)
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
	r := &relation{
		tables: d.named(m.Namespace, m.RelationName),
		name:   m.Namespace + "." + m.RelationName,
		full:   m.ReplicaIdentity == 'f',
	}
	if was, read := d.roots[m.RelationID]; read && was != r.name || !read && len(r.tables) > 0 {
		return fmt.Errorf("%w: %s is not the table that was read", errAltered, r.name)
	}
	identity := make(map[string]bool)
	for _, c := range m.Columns {
		r.columns = append(r.columns, c.Name)
		identity[c.Name] = c.Flags == 1 || r.full
	}
	for _, t := range r.tables {
		for _, column := range t.columns() {
			old, found := identity[column]
			switch {
			case !found:
				return fmt.Errorf("%w: table %s has no column %q any more", errAltered, r.name, column)
			case !old:
				return fmt.Errorf(
					"%w: table %s: column %q is not in the replica identity", errAltered, r.name, column,
				)
			}
		}
	}
	d.relations[m.RelationID] = r
	return nil
}

// row returns the changes of an old row, of which the stream has the kind, that becomes a new one.
func (d *decoder) row(
	id uint32, kind uint8, before, after *pglogrepl.TupleData,
) (all []activity.SourceChange, err error) {
	r := d.relations[id]
	switch {
	case r == nil:
		return nil, fmt.Errorf("relation %d was not described", id)
	case before == nil && after == nil:
		return nil, nil
	}
	var invalid error
	for _, t := range r.tables {
		// The root describes its partitions, of which one may have a key. No column of a key is NULL.
		key := r.full && kind == pglogrepl.UpdateMessageTupleTypeKey
		if key && before != nil && !r.row(before, nil).hasAll(t.columns()) {
			return nil, fmt.Errorf(
				"%w: old values of %s are not in the stream: a partition has another replica identity",
				errAltered, r.name,
			)
		}
		changes, err := d.changes(t, d.at, r.row(before, nil), r.row(after, before))
		if _, bad := errors.AsType[*rowError](err); bad {
			invalid = err
		} else if err != nil {
			return nil, err
		}
		d.counts[t.Table].add(changes, err)
		all = append(all, changes...)
	}
	return all, invalid
}
