package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxListed is how many invalid rows a report names.
const maxListed = 20

// Counted is how many rows of a table have an effect.
type Counted struct {
	Table, Kind string
	Rows, Count int
	// Not are rows that do not count, by reason. A row also counts there if only some elements of
	// its array are not valid.
	Not map[string]int
}

func (c *Counted) String() string {
	var not strings.Builder
	for _, why := range slices.Sorted(maps.Keys(c.Not)) {
		fmt.Fprintf(&not, ", %d %s", c.Not[why], why)
	}
	text := fmt.Sprintf("%s as %s: %d of %d rows count", c.Table, c.Kind, c.Count, c.Rows)
	if not.Len() > 0 {
		text += "; not:" + strings.TrimPrefix(not.String(), ",")
	}
	return text
}

// Check reports what the source looks like. With rows, it reads all, and reports how many count and
// which are not valid. It changes nothing.
func (f *Follower) Check(ctx context.Context, rows bool) (Report, error) {
	conn, err := f.source.connect(ctx, false)
	if err != nil {
		return Report{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only read
	c := &inspection{source: f.source, conn: conn}
	for _, read := range []func(context.Context) error{c.readAll, c.readReplication, c.readPrepared} {
		if err := read(ctx); err != nil {
			return c.Report, err
		}
	}
	if !rows {
		return c.Report, nil
	}
	err = f.countRows(ctx, conn, &c.Report)
	if len(c.Problems) > 0 { // which may keep it from reading
		err = nil
	}
	return c.Report, err
}

// readReplication checks that the server takes a connection that replicates.
func (c *inspection) readReplication(ctx context.Context) error {
	conn, err := c.connect(ctx, true)
	if err == nil {
		defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only read
		_, err = serverOf(ctx, conn)
	}
	refused, is := errors.AsType[*pgconn.PgError](err)
	switch {
	case is && !c.lacksRole && refused.Code == noPrivilege: // as of rds_replication elsewhere
		c.lacksReplication()
	case is && refused.Code == tooManyConnections: // the follower may have the last one: see readRoom
	case is && len(c.Problems) == 0: // others say why it is refused
		c.lacksf("", "the server refuses a replication connection: %s", refused.Message)
	case !is:
		return err
	}
	return nil
}

// readPrepared notes the transactions that the creation of a slot waits for until somebody ends
// them.
func (c *inspection) readPrepared(ctx context.Context) error {
	all, err := preparedTransactions(ctx, c.conn)
	for i := range all {
		note := "a new replication slot waits for " + all[i].String() + ": " + all[i].remedy()
		c.Notes = append(c.Notes, note)
	}
	return err
}

// countRows reads all rows, and notes in the report how many count.
func (f *Follower) countRows(ctx context.Context, conn *pgx.Conn, report *Report) error {
	known, err := f.source.catalogOf(ctx, conn)
	if err != nil {
		return err
	}
	m, now := f.mapper.known(known), time.Now()
	for i := range m.tables {
		t := &m.tables[i]
		c := Counted{Table: t.Table, Kind: t.Kind, Not: make(map[string]int)}
		take := func(all []mapped, why reason, err error) error {
			bad, invalid := errors.AsType[*rowError](err)
			if invalid {
				listInvalid(report, bad)
			} else if err != nil {
				return err
			}
			c.add(all, why, now)
			return nil
		}
		if err := f.readTable(ctx, conn, &m, t, new(pace), take); err != nil {
			return fmt.Errorf("read table %s: %w", t.Table, err)
		}
		report.Counted = append(report.Counted, c)
	}
	return nil
}

// add counts a row by what it gives, and why it gives nothing else.
func (c *Counted) add(all []mapped, why reason, now time.Time) {
	c.Rows++
	counts := slices.ContainsFunc(all, func(m mapped) bool { return !ended(m.Until, now) })
	if counts {
		c.Count++
	} else if why == "" {
		why = reasonEnded
	}
	if why != "" {
		c.Not[string(why)]++
	}
}

// listInvalid notes a row that is not valid.
func listInvalid(r *Report, bad *rowError) {
	r.Invalid++
	if r.Invalid <= maxListed {
		r.Rows = append(r.Rows, fmt.Sprintf("%.1000s", bad.clear()))
	}
}
