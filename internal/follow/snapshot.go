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
func (f *Follower) snapshot(
	ctx context.Context, src *activity.Source, conn *pgx.Conn,
) (position, *catalog, error) {
	r := &reading{
		slot: f.source.name, found: newFindings(), refuse: f.invalid.refuse, size: snapshotGroup,
		record: func(ctx context.Context, group []finding) error {
			return f.recordBulk(ctx, src, changesOf(group))
		},
		began: func(ctx context.Context, b begun) error { return src.Record(ctx, b.text(), nil) },
	}
	if b, ok := parseBegun(src.Position); ok {
		r.begun = &b
	}
	if err := src.StartOver(ctx); err != nil {
		return position{}, nil, err
	}
	at, known, err := f.reread(ctx, src, conn, r)
	if err != nil {
		return position{}, nil, err
	}
	f.report(ctx, r.found)
	f.figures.snapshots.Add(1)
	at.tables, at.catalog = f.fingerprint, known.sum()
	return at, known, src.FinishBulk(ctx, at.text())
}

// recordBulk records a group, in smaller ones if the ledger is too slow for it. A group says of
// each activity which rows give it, so it may be recorded twice.
func (f *Follower) recordBulk(
	ctx context.Context, src *activity.Source, group []activity.SourceChange,
) error {
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
			f.log.WarnContext(
				ctx, "the ledger is slow: recording in smaller groups", "changes", f.group.most(),
			)
		}
	}
	return nil
}

// reading is one read of the tables, whose rows are compared with the ledger: a full read, or a
// slice of an audit.
type reading struct {
	// slot is the slot that is created for the read. With another name than the source's, it ends
	// once the read begins.
	slot string
	from int // the first part that is compared
	end  int // after the read, the first part that was not compared, for which there was no room
	// begun is what an earlier process has begun, which goes on if that is possible; nil: nothing.
	// began takes what begins now, once the slot is there; nil: it is an audit, which does not go on.
	begun *begun
	began func(context.Context, begun) error
	// patience bounds how long the slot waits for open transactions; 0: nothing does.
	patience time.Duration

	// known, server and touched are of the stream beside it; nil: there is none.
	known   *catalog
	server  server
	touched *touched

	pace    pace
	mirrors bool // are compared, too: activities on their other side
	found   *findings
	refuse  func(context.Context, *rowError) error // takes a row that is not valid

	size   int // of the groups that are recorded
	record func(context.Context, []finding) error
}

// reread reads the tables as they are where a new slot begins, and has recorded what the ledger has
// otherwise, but for what is touched. It returns that position, and the catalog with which the
// tables were read.
func (f *Follower) reread(
	ctx context.Context, src *activity.Source, conn *pgx.Conn, r *reading,
) (at position, known *catalog, err error) {
	dir, err := os.MkdirTemp(f.options.TempDir, "feedfilter-follow-")
	if err != nil {
		return at, nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left is in the way of nothing
	s := &spill{dir: dir}
	defer s.close()
	if at, known, err = f.read(ctx, src, conn, r, s); err != nil {
		return at, nil, fmt.Errorf("read the tables: %w", err)
	}
	f.log.DebugContext(ctx, "read the tables", "position", at.lsn.String())
	r.touched.since(at.lsn)
	if err := r.touched.await(ctx, f, at.lsn); err != nil {
		return at, nil, err
	}
	if err := f.compare(ctx, src, r, s); err != nil {
		return at, nil, fmt.Errorf("compare the tables with the ledger: %w", err)
	}
	return at, known, nil
}

// read spills the rows of a moment of the source, with a new slot, or that of a read that was
// interrupted. It returns the position from which to stream, and the catalog of that moment.
//
// A snapshot without a slot would not do beside a stream. The stream may have a commit that no
// snapshot shows yet, because it waits for a synchronous standby. The slot's snapshot has exactly
// what was committed before its position in the log.
func (f *Follower) read(
	ctx context.Context, src *activity.Source, conn *pgx.Conn, r *reading, to *spill,
) (at position, known *catalog, err error) {
	exporter, err := f.source.connect(ctx, true)
	if err != nil {
		return at, nil, err
	}
	defer exporter.Close(context.WithoutCancel(ctx)) //nolint:errcheck // ends the snapshot
	is, err := serverOf(ctx, exporter)
	if err != nil {
		return at, nil, err
	}
	if r.known != nil && is != r.server {
		return at, nil, errors.New("the source has failed over")
	}
	m, resumed, err := f.resume(ctx, conn, is, r.begun)
	if err == nil && !resumed {
		m, err = f.newMoment(ctx, exporter, conn, r)
	}
	if err != nil {
		return at, nil, err
	}
	defer m.tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it only reads
	at.system, at.timeline = is.system, is.timeline
	at.lsn, at.seen = m.lsn, m.seen
	at.audited = f.recorder.Now().Unix()
	if r.known != nil {
		// The look of the stream finds a difference, too.
		if differs := r.known.difference(m.known); differs != "" {
			return at, nil, fmt.Errorf("%w: %s", errAltered, differs)
		}
	}
	if r.began != nil {
		slot := position{
			timeline: is.timeline,
			lsn:      m.lsn,
			tables:   f.fingerprint,
			catalog:  m.known.sum(),
			system:   is.system,
		}
		if err := r.began(ctx, begun{slot, m.next}); err != nil {
			return at, nil, err
		}
	}
	if err := f.readTables(ctx, src, conn, m.known, r, to); err != nil {
		return at, nil, err
	}
	// Who waits to alter a table must not wait for this transaction while it waits for them.
	if err := m.tx.Rollback(ctx); err != nil {
		return at, nil, err
	}
	return at, m.known, f.unaltered(ctx, conn, m.known)
}

// readTables spills what the rows of all tables give, as conn sees them with a catalog.
func (f *Follower) readTables(
	ctx context.Context, src *activity.Source, conn *pgx.Conn, known *catalog, r *reading, to *spill,
) error {
	in, m := partsOf(src), f.mapper.known(known)
	for i := range m.tables {
		t := &m.tables[i]
		add := func(one *mapped) error {
			err := to.add(r, in.of(side{one.item, false}), t.Table, one, false)
			if err == nil && r.mirrors && in.mirrored(one.kind) {
				err = to.add(r, in.of(side{one.item, true}), t.Table, one, true)
			}
			return err
		}
		take := func(all []mapped, _ reason, err error) error {
			if bad, invalid := errors.AsType[*rowError](err); invalid {
				err = r.refuse(ctx, bad)
			}
			for k := 0; k < len(all) && err == nil; k++ {
				err = add(&all[k])
			}
			return err
		}
		if err := f.readTable(ctx, conn, &m, t, &r.pace, take); err != nil {
			return err
		}
	}
	return nil
}

// unaltered returns an error if the catalog is not the known one any more. A table that was
// truncated or rewritten before it was read, but after the snapshot, has no rows in the snapshot.
//
// It also returns an error if the source lacks something now. It may have been altered after it was
// inspected and before the snapshot. All later looks would find what is lacking as it is known. As
// the catalog is the known one before and after this inspection, the inspection is one of it.
func (f *Follower) unaltered(ctx context.Context, conn *pgx.Conn, known *catalog) error {
	if err := f.source.wantAll(ctx, conn); err != nil {
		return err
	}
	now, err := f.source.catalogOf(ctx, conn)
	if err != nil {
		return err
	}
	if differs := known.difference(now); differs != "" {
		return fmt.Errorf("%w meanwhile: %s", errAltered, differs)
	}
	return nil
}

// readTable calls take with what each row of a table gives: see [mapper.gives]. The simple protocol
// returns values as the stream has them.
func (f *Follower) readTable(
	ctx context.Context, conn *pgx.Conn, m *mapper, t *Table, p *pace,
	take func(all []mapped, why reason, err error) error,
) error {
	columns := t.columns()
	quoted := make([]string, len(columns))
	for i, column := range columns {
		quoted[i] = quote(column)
	}
	query := "SELECT " + strings.Join(quoted, ", ") + " FROM " + t.only()
	rows, err := conn.Query(ctx, query, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		if n%1_000_000 == 0 {
			f.log.InfoContext(ctx, "reading the source", "table", t.Table, "rows", n)
		}
		if err := p.row(ctx); err != nil {
			return err
		}
		values := rows.RawValues()
		if err := take(m.gives(t, func(column string) (*string, bool) {
			if v := values[slices.Index(columns, column)]; v != nil {
				return new(string(v)), true
			}
			return nil, true
		})); err != nil {
			return err
		}
	}
	return rows.Err()
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
	Table, Kind, User, Target string
	Mirror                    bool
	Since, Until              time.Time
}

// add adds a side of what a row of a table gives, if its part is one of the slice.
func (s *spill) add(r *reading, part int, table string, m *mapped, mirror bool) (err error) {
	if part < r.from || part >= r.touched.limit() {
		return nil
	}
	p := &s.parts[part]
	if p.file == nil {
		if p.file, err = os.CreateTemp(s.dir, ""); err != nil {
			return err
		}
		p.buf = bufio.NewWriter(p.file)
		p.rows = gob.NewEncoder(p.buf)
	}
	return p.rows.Encode(spilled{table, m.kind, m.user, m.target, mirror, m.Since, m.Until})
}

func (s *spill) close() {
	for i := range s.parts {
		_ = s.parts[i].file.Close() // or it is nil
	}
}

// load returns the rows of a part.
func (s *spill) load(part int) (map[side]given, error) {
	rows := make(map[side]given)
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
		of := side{item{r.Kind, r.User, r.Target}, r.Mirror}
		all, found := rows[of]
		if !found {
			all.table = r.Table
		}
		all.spans = append(all.spans, ledger.Span{Since: r.Since.UTC(), Until: r.Until.UTC()})
		rows[of] = all
	}
}
