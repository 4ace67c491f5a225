package follow

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// spillParts is the number of files that the rows of a snapshot are spread over, by the
	// first bits of the hash of their users. One part at a time is in memory.
	spillParts = 256
	spillShift = 64 - 8

	// snapshotGroup is the number of activities that a transaction of the ledger takes at most.
	snapshotGroup = 5000
)

// snapshot reads the tables whole, and makes the ledger the same. It returns the position from
// which the stream continues, and the catalog with which they were read.
func (f *Follower) snapshot(ctx context.Context, src *activity.Source, conn *pgx.Conn) (position, *catalog, error) {
	if err := src.StartOver(ctx); err != nil {
		return position{}, nil, err
	}
	if err := f.dropSlot(ctx, conn); err != nil {
		return position{}, nil, err
	}
	at, known, err := f.reread(ctx, src, conn, f.name, nil, func(ctx context.Context, group []activity.SourceChange) error {
		return f.recordBulk(ctx, src, group)
	})
	if err != nil {
		return position{}, nil, err
	}
	f.snapshots.Add(1)
	at.tables, at.catalog = f.fingerprint, known.sum()
	return at, known, src.FinishBulk(ctx, at.String())
}

// recordBulk records a group, in smaller ones if the ledger is too slow for it. A group says of
// each activity which rows give it, so it may be recorded twice.
func (f *Follower) recordBulk(ctx context.Context, src *activity.Source, group []activity.SourceChange) error {
	for len(group) > 0 {
		n := min(len(group), f.group.most())
		start := time.Now()
		switch err := src.RecordBulk(ctx, group[:n]); {
		case err == nil:
			f.group.worked(time.Since(start))
			group = group[n:]
		case ctx.Err() != nil || !f.group.failed(n, err):
			return err
		default:
			f.Log.WarnContext(ctx, "the ledger is slow: recording in smaller groups", "changes", f.group.most())
		}
	}
	return nil
}

// reread reads the tables as they are where a new slot begins, and passes what the ledger has
// otherwise to record, in groups. It returns that position. It leaves out what is touched.
func (f *Follower) reread(
	ctx context.Context, src *activity.Source, conn *pgx.Conn, slot string, t *touched,
	record func(context.Context, []activity.SourceChange) error,
) (at position, known *catalog, err error) {
	dir, err := os.MkdirTemp(f.TempDir, "feedfilter-follow-")
	if err != nil {
		return at, nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left is in the way of nothing
	s := &spill{dir: dir}
	defer s.close()
	if at, known, err = f.read(ctx, src, conn, slot, s); err != nil {
		return at, nil, fmt.Errorf("read the tables: %w", err)
	}
	if err := t.await(ctx, f, at.lsn); err != nil {
		return at, nil, err
	}
	found, err := f.compare(ctx, src, s, t, func(activity.SourceChange) error { return nil })
	if err != nil {
		return at, nil, err
	}
	f.Log.InfoContext(ctx, "compared source and ledger",
		"missing", found.missing, "stray", found.stray, "changed", found.changed, "same", found.equal)
	var group []activity.SourceChange
	_, err = f.compare(ctx, src, s, t, func(c activity.SourceChange) error {
		if group = append(group, c); len(group) < snapshotGroup {
			return nil
		}
		err := record(ctx, group)
		group = nil
		return err
	})
	if err == nil {
		err = record(ctx, group)
	}
	return at, known, err
}

// read creates a slot, and spills the rows of the moment from which it streams. It returns that
// position, and the catalog of that moment. A slot with another name than the source's ends with
// read.
func (f *Follower) read(
	ctx context.Context, src *activity.Source, conn *pgx.Conn, slot string, to *spill,
) (at position, known *catalog, err error) {
	exporter, err := f.connect(ctx, true)
	if err != nil {
		return at, nil, err
	}
	defer exporter.Close(context.WithoutCancel(ctx)) //nolint:errcheck // ends the snapshot
	is, err := serverOf(ctx, exporter)
	if err != nil {
		return at, nil, err
	}
	at.system, at.timeline = is.system, is.timeline
	f.Log.InfoContext(ctx, "creating a replication slot: this waits for open transactions of the source")
	made, err := pglogrepl.CreateReplicationSlot(ctx, exporter.PgConn(), slot, "pgoutput", pglogrepl.CreateReplicationSlotOptions{
		Mode: pglogrepl.LogicalReplication, SnapshotAction: "EXPORT_SNAPSHOT", Temporary: slot != f.name,
	})
	if err != nil {
		return at, nil, fmt.Errorf("create replication slot %s: %w", slot, err)
	}
	if at.lsn, err = pglogrepl.ParseLSN(made.ConsistentPoint); err != nil {
		return at, nil, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return at, nil, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it only reads
	if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+made.SnapshotName+"'"); err != nil {
		return at, nil, err
	}
	if known, err = f.catalogOf(ctx, conn); err != nil {
		return at, nil, err
	}
	for i := range f.tables {
		t := &f.tables[i]
		add := func(m *mapped) error { return to.add(src.HashOf(m.user)>>spillShift, m) }
		if err := f.readTable(ctx, conn, t, add, f.refuse); err != nil {
			return at, nil, err
		}
	}
	return at, known, f.unaltered(ctx, known)
}

// unaltered returns an error if the catalog is not the known one any more. Tables that a
// transaction has read cannot be altered before it ends. One that was truncated or rewritten before
// it was read, but after the snapshot, has no rows in the snapshot.
//
// It also returns an error if the source lacks something now. It may have been altered after it was
// inspected and before the snapshot. All later looks would find what is lacking as it is known. As
// the catalog is the known one before and after this inspection, the inspection is one of it.
func (f *Follower) unaltered(ctx context.Context, known *catalog) error {
	conn, err := f.connect(ctx, false) // sees the present
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only read
	if err := f.wantAll(ctx, conn); err != nil {
		return err
	}
	now, err := f.catalogOf(ctx, conn)
	if err != nil {
		return err
	}
	if differs := known.difference(now); differs != "" {
		return fmt.Errorf("the tables were altered meanwhile: %s", differs)
	}
	return nil
}

// readTable calls take with what each row of a table gives, or refuse. The simple protocol returns
// values as the stream has them.
func (f *Follower) readTable(
	ctx context.Context, conn *pgx.Conn, t *Table, take func(*mapped) error, refuse func(context.Context, *rowError) error,
) error {
	columns := t.columns()
	quoted := make([]string, len(columns))
	for i, column := range columns {
		quoted[i] = quote(column)
	}
	rows, err := conn.Query(ctx, "SELECT "+strings.Join(quoted, ", ")+" FROM "+t.only(), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		if n%1_000_000 == 0 {
			f.Log.InfoContext(ctx, "reading the source", "table", t.Table, "rows", n)
		}
		values := rows.RawValues()
		m, err := t.gives(func(column string) (*string, bool) {
			if v := values[slices.Index(columns, column)]; v != nil {
				return new(string(v)), true
			}
			return nil, true
		}, f.kinds)
		if bad, invalid := errors.AsType[*rowError](err); invalid {
			err = refuse(ctx, bad)
		} else if m != nil {
			err = take(m)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// comparison compares the rows of a snapshot with the ledger, and passes on what has to be
// recorded, but for what is touched. Both are in order of the hash of users, so one part is enough
// at a time.
type comparison struct {
	spill   *spill
	touched *touched
	now     time.Time
	record  func(activity.SourceChange) error

	part                           int                    // of rows
	rows                           map[item][]ledger.Span // of the part, which the ledger has not shown yet
	missing, stray, changed, equal int
}

// compare compares all rows with the ledger.
func (f *Follower) compare(
	ctx context.Context, src *activity.Source, s *spill, t *touched, record func(activity.SourceChange) error,
) (*comparison, error) {
	c := &comparison{spill: s, touched: t, now: f.recorder.Now(), record: record, part: -1}
	kinds := f.tables.Kinds()
	err := f.recorder.Export(ctx, "", func(a activity.Activity) error {
		if !slices.Contains(kinds, a.Kind) {
			return nil
		}
		if err := c.advance(int(src.HashOf(a.User) >> spillShift)); err != nil {
			return err
		}
		return c.take(a)
	})
	if err == nil {
		err = c.advance(spillParts)
	}
	return c, err
}

// advance loads the rows of a part. The ledger lacks those that are left of the parts before.
func (c *comparison) advance(to int) (err error) {
	for ; c.part < to; c.part++ {
		for of, spans := range c.rows {
			if err := c.pass(of, spans, &c.missing); err != nil {
				return err
			}
		}
		if c.rows = nil; c.part+1 < spillParts {
			if c.rows, err = c.spill.load(c.part+1, c.now); err != nil {
				return err
			}
		}
	}
	return nil
}

// take compares an activity of the ledger.
func (c *comparison) take(a activity.Activity) error {
	of := item{a.Kind, a.User, a.Target}
	spans := c.rows[of]
	delete(c.rows, of)
	switch {
	case len(spans) == 0:
		return c.pass(of, nil, &c.stray)
	case len(spans) > 1: // the ledger may not know that there are several
		return c.pass(of, spans, &c.equal)
	case spans[0].Until.Equal(a.Until) && (spans[0].Since.IsZero() || spans[0].Since.Equal(a.Since)):
		c.equal++
		return nil
	default:
		return c.pass(of, spans, &c.changed)
	}
}

func (c *comparison) pass(of item, spans []ledger.Span, count *int) error {
	if c.touched.has(of) {
		return nil
	}
	*count++
	return c.record(activity.SourceChange{User: of.user, Kind: of.kind, Target: of.target, At: c.now, Added: spans, Whole: true})
}

// spill keeps the rows of a snapshot in files.
type spill struct {
	dir   string
	parts [spillParts]struct {
		file *os.File
		buf  *bufio.Writer
		rows *gob.Encoder
	}
}

// spilled is a row in a file.
type spilled struct {
	Kind, User, Target string
	Since, Until       time.Time
}

// add adds a row.
func (s *spill) add(part uint64, m *mapped) (err error) {
	p := &s.parts[part]
	if p.file == nil {
		if p.file, err = os.CreateTemp(s.dir, ""); err != nil {
			return err
		}
		p.buf = bufio.NewWriter(p.file)
		p.rows = gob.NewEncoder(p.buf)
	}
	return p.rows.Encode(spilled{m.kind, m.user, m.target, m.Since, m.Until})
}

func (s *spill) close() {
	for i := range s.parts {
		_ = s.parts[i].file.Close() // or it is nil
	}
}

// load returns the rows of a part that have not ended.
func (s *spill) load(part int, now time.Time) (map[item][]ledger.Span, error) {
	rows := make(map[item][]ledger.Span)
	p := &s.parts[part]
	if p.file == nil {
		return rows, nil
	}
	if err := p.buf.Flush(); err != nil {
		return nil, err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	for in := gob.NewDecoder(bufio.NewReader(p.file)); ; {
		var r spilled
		switch err := in.Decode(&r); {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", p.file.Name(), err)
		}
		if r.Until.IsZero() || r.Until.After(now) {
			of := item{r.Kind, r.User, r.Target}
			rows[of] = append(rows[of], ledger.Span{Since: r.Since.UTC(), Until: r.Until.UTC()})
		}
	}
}
