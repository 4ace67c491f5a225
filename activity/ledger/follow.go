package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// forgetMost is the number of rows that a transaction forgets at most.
const forgetMost = 10_000

// Errors of followed kinds.
var (
	// ErrHeld means that another process holds the lease of a source.
	ErrHeld = errors.New("another process follows the source")
	// ErrFenced means that the lease, or the position that a call continues from, is not the
	// ledger's: another process follows the source now.
	ErrFenced = errors.New("the lease was lost")
	// ErrStrayRow means that a source removed a row that the ledger does not know of. The source
	// has to be read whole again.
	ErrStrayRow = errors.New("unknown row of the source")
)

// FollowedError means that a source alone writes the kind of a change. Nothing was changed.
type FollowedError struct{ Source, Kind string }

func (e *FollowedError) Error() string {
	return fmt.Sprintf("%s is followed: source %q alone writes it", e.Kind, e.Source)
}

// Source is a database of an app whose rows a follower keeps in the ledger. It alone writes its
// kinds.
type Source struct {
	Name string
	// Position is up to where the ledger has what the source committed, in the source's own form;
	// "": the source has not been read whole.
	Position string
	Holder   string    // the process that has the lease, or had it last
	Until    time.Time // end of the lease, by the ledger's clock
	Kinds    []string  // in order
}

// Lease lets its holder alone write the kinds of a source.
type Lease struct {
	Source   string
	Fence    int64 // greater than that of any earlier lease
	Position string
}

// Span is the time for which a row of a source counts. Since is zero for a row that does not say.
type Span struct {
	Since, Until time.Time
	// Row is a hash of a row that a snapshot has, which may be told more than once; 0: another row.
	Row uint64

	at bool // Since is that of the change, as the row does not say
}

// SourceChange is what a transaction of a source did to one activity. Several rows of a source may
// give the same activity: it begins with the first of them, and ends with the last.
type SourceChange struct {
	Rows           []Row // of the activity, as in a [Change]; their times are not used
	At             time.Time
	Added, Removed []Span // rows of the source that give the activity; At stands for a Since of zero
	// Whole means that no other rows than Added give the activity, whatever was known before.
	Whole bool
	// Reading means that of the rows known before, only those with a hash give the activity: a
	// snapshot is being read. Otherwise, a row with a hash is added only if there is no other row.
	Reading bool
}

// Lease takes the lease of a source for the process holder, for a time. It declares the kinds, of
// which there must be one, as those of the source; if they were others, Position begins again with
// "". A lease that has ended, or that the same holder has, can be taken, and with force that of any
// holder. Otherwise the error wraps ErrHeld. A kind of another source is refused with a
// [FollowedError]. For other errors see Record.
func (l *Ledger) Lease(
	ctx context.Context, source, holder string, kinds []string, lasts time.Duration, force bool,
) (Lease, error) {
	what := fmt.Sprintf("ledger: lease source %q", source)
	return ask(ctx, l, &Call{Operation: "lease"}, what, func(ctx context.Context) (lease Lease, err error) {
		err = l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
			lease, err = l.lease(ctx, t, source, holder, kinds, lasts, force)
			return err
		})
		return lease, err
	})
}

func (l *Ledger) lease(
	ctx context.Context, t transaction, source, holder string, kinds []string, lasts time.Duration, force bool,
) (Lease, error) {
	lease := Lease{Source: source}
	var had string
	var until, clock int64
	var all []Kind
	err := t.begin(ctx, statement{sql: l.sql.lockKinds},
		statement{sql: putSourceSQL, args: []any{source}},
		statement{sql: l.sql.lockSource, args: []any{source}, into: []any{&lease.Position, &lease.Fence, &had, &until}},
		statement{sql: l.sql.clock, into: []any{&clock}}, kindsQuery(&all))
	if err != nil {
		return Lease{}, fmt.Errorf("read the lease: %w", err)
	}
	var mine []string
	for _, k := range all {
		switch {
		case k.Source == source:
			mine = append(mine, k.Name)
		case k.Source != "" && slices.Contains(kinds, k.Name):
			return Lease{}, &FollowedError{k.Source, k.Name}
		}
	}
	now := time.Now()
	if clock > 0 {
		now = time.UnixMicro(clock)
	}
	if had != holder && until > now.UnixMicro() && !force {
		return Lease{}, fmt.Errorf("%w: %s, until %s", ErrHeld, had, time.UnixMicro(until).UTC().Format(time.RFC3339))
	}
	lease.Fence++
	var writes []statement
	if kinds = slices.Sorted(slices.Values(kinds)); !slices.Equal(kinds, mine) {
		lease.Position = ""
		writes = append(writes, statement{sql: releaseKindsSQL, args: []any{source}})
		for _, kind := range kinds {
			writes = append(writes, statement{sql: followKindSQL, args: []any{source, kind}})
		}
	}
	writes = append(writes, statement{
		sql: takeLeaseSQL, args: []any{lease.Position, lease.Fence, holder, now.Add(lasts).UnixMicro(), source},
	})
	return lease, execAll(ctx, t, writes)
}

// Renew extends a lease, or ends it if lasts is 0. An error wraps ErrFenced if the lease was lost.
func (l *Ledger) Renew(ctx context.Context, lease Lease, lasts time.Duration) error {
	what := fmt.Sprintf("ledger: renew the lease of source %q", lease.Source)
	return run(ctx, l, "renew", what, func(ctx context.Context) error {
		return l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
			var clock int64
			if err := t.begin(ctx, statement{sql: l.sql.clock, into: []any{&clock}}); err != nil {
				return err
			}
			now := time.Now()
			if clock > 0 {
				now = time.UnixMicro(clock)
			}
			return fenced(ctx, t, statement{sql: renewLeaseSQL, args: []any{now.Add(lasts).UnixMicro(), lease.Source, lease.Fence}})
		})
	})
}

// StartOver makes the source of a lease one that has not been read whole, and forgets which
// activities several of its rows give. Its rows stay. An error wraps ErrFenced if the lease was lost.
func (l *Ledger) StartOver(ctx context.Context, lease Lease) error {
	return l.forget(ctx, "start_over", statement{sql: startOverSQL, args: []any{lease.Source, lease.Fence}}, lease.Source, "")
}

// Settle forgets the hashes of rows that alone give their activity, once a snapshot was read. An
// error wraps ErrFenced if the lease was lost.
func (l *Ledger) Settle(ctx context.Context, lease Lease, position string) error {
	move := statement{sql: moveSourceSQL, args: []any{position, lease.Source, lease.Fence, position}}
	return l.forget(ctx, "settle", move, lease.Source, "%,%")
}

// forget forgets rows of a source, except those whose text is like except, in as many transactions
// as it takes. Each runs the fence.
func (l *Ledger) forget(ctx context.Context, operation string, fence statement, source, except string) error {
	for n := forgetMost; n == forgetMost; {
		err := run(ctx, l, operation, fmt.Sprintf("ledger: forget rows of source %q", source), func(ctx context.Context) error {
			return l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
				if err := t.begin(ctx, statement{sql: l.sql.lockKinds}); err != nil {
					return err
				}
				if err := fenced(ctx, t, fence); err != nil {
					return err
				}
				var hash int64
				n = 0
				return t.query(ctx, statement{
					sql: deleteSourceRepeatsSQL, args: []any{source, except, forgetMost}, into: []any{&hash}, each: func() error { n++; return nil },
				})
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fenced runs an update of a source that returns a row if the lease is the ledger's.
func fenced(ctx context.Context, t transaction, s statement) error {
	var fence int64
	var found bool
	s.into, s.reset = []any{&fence}, func() { found = false }
	s.each = func() error { found = true; return nil }
	if err := t.query(ctx, s); err != nil {
		return err
	}
	if !found {
		return ErrFenced
	}
	return nil
}

// Unfollow makes a kind of a source ordinary again, so that everybody may write it. Its rows stay.
// It ends the source's lease.
func (l *Ledger) Unfollow(ctx context.Context, kind string) error {
	return run(ctx, l, "unfollow", fmt.Sprintf("ledger: release kind %q", kind), func(ctx context.Context) error {
		return l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
			if err := t.begin(ctx, statement{sql: l.sql.lockKinds}); err != nil {
				return err
			}
			return execAll(ctx, t, []statement{
				{sql: endLeaseSQL, args: []any{kind}},
				{sql: followKindSQL, args: []any{"", kind}},
				{sql: deleteRepeatsSQL, args: []any{kind}},
				{sql: deleteSourcesSQL},
			})
		})
	})
}

// Sources returns all sources, in order of name.
func (l *Ledger) Sources(ctx context.Context) ([]Source, error) {
	return ask(ctx, l, &Call{Operation: "sources"}, "ledger: read sources", func(ctx context.Context) ([]Source, error) {
		var all []Source
		if err := l.db.query(ctx, sourcesQuery(&all)); err != nil {
			return nil, err
		}
		kinds, err := readKinds(ctx, l.db)
		for i := range all {
			for _, k := range kinds {
				if k.Source == all[i].Name {
					all[i].Kinds = append(all[i].Kinds, k.Name)
				}
			}
		}
		return all, err
	})
}

// Follow records what transactions of a source did, and the position to after them, in one
// transaction. So every change of the source takes effect exactly once. The error wraps ErrFenced
// if the lease was lost, or the ledger's position is not from; then nothing changes. See Record for
// everything else.
func (l *Ledger) Follow(ctx context.Context, now time.Time, lease Lease, from, to string, changes []SourceChange) (Receipt, error) {
	what := fmt.Sprintf("ledger: follow source %q with %d changes", lease.Source, len(changes))
	return ask(ctx, l, &Call{Operation: "follow"}, what, func(ctx context.Context) (Receipt, error) {
		plain := make([]Change, len(changes))
		for i, c := range changes {
			plain[i] = Change{Rows: c.Rows, Remove: true}
		}
		p, err := newPlan(l.id, plain)
		if err != nil {
			return Receipt{}, err
		}
		for i, n := 0, 0; i < len(changes); n, i = n+len(changes[i].Rows), i+1 {
			for j, r := range changes[i].Rows {
				if r.Names {
					h := stored(r.TargetHash)
					p.named[n+j].targetHash = &h
				}
			}
		}
		f := following{plan: p, lease: lease, from: from, to: to, changes: changes}
		return f.execute(ctx, l, now)
	})
}

// sourcesQuery returns a query that reads all sources in order of name, without their kinds.
func sourcesQuery(into *[]Source) statement {
	var s Source
	var until int64
	return statement{
		sql: allSourcesSQL, into: []any{&s.Name, &s.Position, &s.Holder, &until},
		reset: func() { *into = nil },
		each:  func() error { s.Until = time.UnixMicro(until).UTC(); *into = append(*into, s); return nil },
	}
}

// following is a plan of what a source did.
type following struct {
	*plan

	lease    Lease
	from, to string
	changes  []SourceChange
	noted    map[key][]Span // of activities that several rows give
}

func (f *following) execute(ctx context.Context, l *Ledger, now time.Time) (receipt Receipt, err error) {
	f.source = f.lease.Source
	err = l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
		move := statement{sql: moveSourceSQL, args: []any{f.to, f.lease.Source, f.lease.Fence, f.from}}
		if len(f.changes) == 0 {
			if err := t.begin(ctx); err != nil {
				return err
			}
			return fenced(ctx, t, move)
		}
		states, err := l.lock(ctx, t, f.plan, f.lookupRepeats(l))
		if err != nil {
			return fmt.Errorf("look up rows: %w", err)
		}
		if err := fenced(ctx, t, move); err != nil {
			return err
		}
		several, single, err := f.decide(now)
		if err != nil {
			return err
		}
		e := f.effect(states)
		receipt.Pages, receipt.Layouts, receipt.Owners = e.pages, f.layouts, f.owners
		upserts, removals := f.writes()
		err = execAll(ctx, t, []statement{
			{sql: l.sql.upsertRows, columns: columnsOf(upserts)},
			{sql: l.sql.deleteRows, columns: columnsOf(removals)[:4]},
			{sql: l.sql.upsertRepeats, columns: append(several.key(), several.times)},
			{sql: l.sql.deleteRepeats, columns: single.key()},
			l.raise(e.raised),
		})
		if err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		return nil
	})
	return receipt, err
}

// repeats are the columns of the table of that name.
type repeats struct {
	hash                       []int64
	owner, kind, target, times []string
}

func (r *repeats) add(k key, times string) {
	r.hash, r.owner, r.kind = append(r.hash, stored(k.hash)), append(r.owner, k.owner), append(r.kind, k.kind)
	r.target, r.times = append(r.target, k.target), append(r.times, times)
}

func (r *repeats) key() []any { return []any{r.hash, r.owner, r.kind, r.target} }

// lookupRepeats is a query for the activities of the changes that several rows give.
func (f *following) lookupRepeats(l *Ledger) statement {
	var hash int64
	var k key
	var text string
	var firsts repeats
	for i := range f.changes {
		firsts.add(f.changes[i].Rows[0].key(), "")
	}
	return statement{
		sql: l.sql.lookupRepeats, columns: firsts.key(), into: []any{&hash, &k.owner, &k.kind, &k.target, &text},
		reset: func() { f.noted = make(map[key][]Span) },
		each: func() (err error) {
			k.hash = unstored(hash)
			f.noted[k], err = parseSpans(text)
			return err
		},
	}
}

// decide sets the state of each entry after the changes. It returns the activities that several rows
// give from now on, and those that one row gives, or none.
func (f *following) decide(now time.Time) (several, single repeats, err error) {
	for _, e := range f.entries {
		e.state = state{e.was, e.before}
	}
	before := maps.Clone(f.noted)
	named, last := f.named, make(map[key]int)
	for i := range f.changes {
		c := &f.changes[i]
		mine := named[:len(c.Rows)]
		named = named[len(c.Rows):]
		first := mine[0].key
		known, noted := f.noted[first]
		if !noted && mine[0].is {
			known = []Span{{Since: mine[0].after.since, Until: mine[0].after.until}}
		}
		rest, err := c.apply(known, now)
		if err != nil {
			return several, single, fmt.Errorf("change %d: %s of %q for %q: %w", i, first.kind, first.owner, first.target, err)
		}
		if f.noted[first] = rest; len(rest) < 2 && !slices.ContainsFunc(rest, Span.hashed) {
			delete(f.noted, first)
		}
		for _, e := range mine {
			e.state = stateOf(rest)
		}
		last[first] = i
	}
	for i := range f.changes {
		first := f.changes[i].Rows[0].key()
		spans, is := f.noted[first]
		switch _, was := before[first]; {
		case last[first] != i:
		case is:
			several.add(first, formatSpans(spans))
		case was:
			single.add(first, "")
		}
	}
	return several, single, nil
}

// stateOf returns the state of an activity that rows with the spans give: the times of the row that
// ends last. So nothing changes when another row ends.
func stateOf(spans []Span) state {
	if len(spans) == 0 {
		return state{}
	}
	last := slices.MaxFunc(spans, Span.compare)
	return state{is: true, after: times{last.Since, last.Until}}
}

// compare orders spans by their ends; of those that end together, the earliest is the greatest.
func (s Span) compare(other Span) int {
	switch {
	case s.Until.Equal(other.Until):
		return other.Since.Compare(s.Since)
	case s.Until.IsZero():
		return 1
	case other.Until.IsZero():
		return -1
	default:
		return s.Until.Compare(other.Until)
	}
}

// apply returns the spans of the rows that give the activity after the change, given those before
// it. Rows that have ended give nothing any more.
func (c *SourceChange) apply(known []Span, now time.Time) ([]Span, error) {
	ended := func(s Span) bool { return !s.Until.IsZero() && !s.Until.After(now) }
	all, since := slices.DeleteFunc(slices.Clone(known), ended), c.At
	switch {
	case c.Whole:
		all = nil
	case c.Reading && len(all) > 0:
		since = all[0].Since
		all = slices.DeleteFunc(all, func(s Span) bool { return !s.hashed() })
	}
	for _, s := range c.Added {
		if s.hashed() && slices.ContainsFunc(all, func(k Span) bool { return !c.Reading || k.Row == s.Row }) {
			continue
		}
		if s.at = s.Since.IsZero(); s.at {
			s.Since = since
		}
		if !c.Reading {
			s.Row = 0
		}
		all = append(all, Span{microseconds(s.Since), microseconds(s.Until), s.Row, s.at})
	}
	for _, s := range c.Removed {
		since, until := microseconds(s.Since), microseconds(s.Until)
		at := -1
		for i, k := range all {
			// A row that was alone before the others may not say it is one of At.
			if k.Until.Equal(until) && (k.Since.Equal(since) || s.Since.IsZero() && (k.at || at < 0)) {
				at = i
			}
		}
		switch {
		case at >= 0:
			all = slices.Delete(all, at, at+1)
		case until.IsZero() || until.After(now):
			return nil, ErrStrayRow
		}
	}
	return slices.DeleteFunc(all, ended), nil
}

// hashed reports whether the row is one of a snapshot that is being read.
func (s Span) hashed() bool { return s.Row != 0 }

// formatSpans returns spans as text: since and until in microseconds, such as "17/18,~17/,17/:9f".
// ~ stands for at. After a colon is the hash.
func formatSpans(spans []Span) string {
	var b strings.Builder
	for i, s := range spans {
		if i > 0 {
			b.WriteByte(',')
		}
		if s.at {
			b.WriteByte('~')
		}
		fmt.Fprintf(&b, "%d/", s.Since.UnixMicro())
		if !s.Until.IsZero() {
			fmt.Fprint(&b, s.Until.UnixMicro())
		}
		if s.hashed() {
			fmt.Fprintf(&b, ":%x", s.Row)
		}
	}
	return b.String()
}

func parseSpans(text string) (spans []Span, err error) {
	for one := range strings.SplitSeq(text, ",") {
		one, row, hashed := strings.Cut(one, ":")
		var s Span
		one, s.at = strings.CutPrefix(one, "~")
		since, until, _ := strings.Cut(one, "/")
		us, err := strconv.ParseInt(since, 10, 64)
		s.Since = time.UnixMicro(us).UTC()
		if err == nil && until != "" {
			us, err = strconv.ParseInt(until, 10, 64)
			s.Until = time.UnixMicro(us).UTC()
		}
		if err == nil && hashed {
			s.Row, err = strconv.ParseUint(row, 16, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("times of rows %q: %w", text, err)
		}
		spans = append(spans, s)
	}
	return spans, nil
}
