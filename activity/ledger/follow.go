package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	Name     string
	Position Position
	Holder   string    // the process that has the lease, or had it last
	Until    time.Time // end of the lease, by the ledger's clock
	// Followed is a time by the ledger's clock: all that the source had committed until then is in
	// the ledger. Zero: not known, because nobody has followed the source yet, or a version that
	// does not tell.
	Followed time.Time
	Kinds    []string // in order
}

// Lease lets its holder alone write the kinds of a source.
type Lease struct {
	Source   string
	Position Position // of the source, when the lease was taken

	ledger *Ledger
	fence  int64 // greater than that of any earlier lease
}

// Step is what a follower records: the lease by which it may, and the positions before and after.
type Step struct {
	Lease    Lease
	From, To Position
	Followed time.Time // that of the [Source], after it; zero: as before
}

// Span is the time for which a row of a source counts. Since is zero for a row that does not say.
type Span struct {
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Row is a hash of a row that a snapshot has, which may be told more than once; 0: another row.
	Row uint64 `json:"row,omitzero"`
}

// SourceChange is what a transaction of a source did to one activity. Several rows of a source may
// give the same activity: it begins with the first of them, and ends with the last.
type SourceChange struct {
	// Rows are the rows that the ledger has while a row of the source gives the activity: it, and
	// its mirrors. There must be one. Their Since and Until are those of the source's rows.
	Rows           []Row
	At             time.Time // when the activity began, if it did and the rows do not say
	Added, Removed []Span    // rows of the source that give the activity
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
//
// Once Lease has returned, nobody else's change of the kinds takes effect. Lease waits for calls of
// Record in flight, for up to 5 seconds. Later ones are refused with a [FollowedError]. Others wait
// for Lease meanwhile, but only if the source gets other kinds.
func (l *Ledger) Lease(
	ctx context.Context, source, holder string, kinds []string, lasts time.Duration, force bool,
) (*Lease, error) {
	kinds = slices.Sorted(slices.Values(kinds))
	lease := &Lease{Source: source, ledger: l}
	what := fmt.Sprintf("ledger: lease source %q", source)
	err := run(ctx, l, "lease", what, func(ctx context.Context) error {
		return l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
			return lease.take(ctx, t, holder, kinds, lasts, force)
		})
	})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// take takes the lease in a transaction. If kinds change hands, it begins the transaction again. It
// then waits for writers in flight, while no other begins. A writer may have read the kinds, and
// wait for the lock of a page. Without the exclusion it would write a kind of the source after the
// lease was taken.
//
// Writers are excluded before anything else is locked. A follower in flight counts as one of them,
// and may wait for the lock of the source.
func (s *Lease) take(
	ctx context.Context, t transaction,
	holder string, kinds []string, lasts time.Duration, force bool,
) error {
	sql := &s.ledger.sql
	var now time.Time
	for _, lock := range []string{sql.lockKinds, sql.excludeWriters} {
		var mine []string
		var err error
		if mine, now, err = s.read(ctx, t, lock, holder, kinds, force); err != nil {
			return err
		}
		if slices.Equal(kinds, mine) {
			return execAll(ctx, t, []statement{s.taken(holder, now.Add(lasts))})
		}
	}
	s.Position = ""
	writes := []statement{
		{sql: releaseKindsSQL, args: []any{s.Source}},
		{sql: newSourceSQL, args: []any{s.Source}},
	}
	for _, kind := range kinds {
		writes = append(writes, statement{sql: followKindSQL, args: []any{s.Source, kind}})
	}
	return execAll(ctx, t, append(writes, s.taken(holder, now.Add(lasts))))
}

// read begins the transaction with the lock, and reads the lease and the clock. It returns the
// source's kinds, or an error if holder may not take the lease for the given ones.
func (s *Lease) read(
	ctx context.Context, t transaction, lock, holder string, kinds []string, force bool,
) (mine []string, now time.Time, err error) {
	sql := &s.ledger.sql
	var had string
	var until int64
	var all []Kind
	read := statement{
		sql:  sql.lockSource,
		args: []any{s.Source},
		into: []any{&s.Position, &s.fence, &had, &until},
	}
	err = t.begin(ctx, statement{sql: lock},
		statement{sql: putSourceSQL, args: []any{s.Source}}, read,
		sql.leaseClock(&now), kindsQuery(&all))
	if err != nil {
		return nil, now, fmt.Errorf("read the lease: %w", err)
	}
	for _, k := range all {
		switch {
		case k.Source == s.Source:
			mine = append(mine, k.Name)
		case k.Source != "" && slices.Contains(kinds, k.Name):
			return nil, now, &FollowedError{k.Source, k.Name}
		}
	}
	if had != holder && until > now.UnixMicro() && !force {
		return nil, now, fmt.Errorf(
			"%w: %s, until %s", ErrHeld, had, time.UnixMicro(until).UTC().Format(time.RFC3339),
		)
	}
	return mine, now, nil
}

// taken is a statement that gives the lease to the holder.
func (s *Lease) taken(holder string, until time.Time) statement {
	s.fence++
	return statement{
		sql:  takeLeaseSQL,
		args: []any{string(s.Position), s.fence, holder, until.UnixMicro(), s.Source},
	}
}

// leaseClock is a query of the clock by which leases end: the database's, or else this machine's.
func (sql *dialect) leaseClock(into *time.Time) statement {
	*into = time.Now()
	var us int64
	return statement{sql: sql.clock, into: []any{&us}, each: func() error {
		*into = time.UnixMicro(us)
		return nil
	}}
}

// Renew extends the lease, or ends it if lasts is 0. followed is that of the [Source]; zero: as
// before. An error wraps ErrFenced if the lease was lost.
func (s *Lease) Renew(ctx context.Context, lasts time.Duration, followed time.Time) error {
	return s.transact(ctx, "renew", func(ctx context.Context, t transaction) error {
		var now time.Time
		if err := t.begin(ctx, s.ledger.sql.leaseClock(&now)); err != nil {
			return err
		}
		return fenced(ctx, t, statement{
			sql:  renewLeaseSQL,
			args: []any{now.Add(lasts).UnixMicro(), micros(followed), s.Source, s.fence},
		})
	})
}

func (s *Lease) transact(
	ctx context.Context, operation string, do func(context.Context, transaction) error,
) error {
	what := fmt.Sprintf("ledger: %s source %q", operation, s.Source)
	return run(ctx, s.ledger, operation, what, func(ctx context.Context) error {
		return s.ledger.db.transact(ctx, callTimeout, do)
	})
}

// StartOver makes the source one that has not been read whole, and forgets which activities several
// of its rows give. Its rows stay. An error wraps ErrFenced if the lease was lost.
func (s *Lease) StartOver(ctx context.Context) error {
	fence := statement{sql: startOverSQL, args: []any{s.Source, s.fence}}
	err := s.forget(ctx, "start_over", fence, "")
	if err == nil {
		s.Position = ""
	}
	return err
}

// Settle forgets the hashes of rows that alone give their activity, once a snapshot was read.
// position is the source's. An error wraps ErrFenced if the lease was lost.
func (s *Lease) Settle(ctx context.Context, position Position) error {
	return s.forget(ctx, "settle", s.move(position, position, time.Time{}), "%},{%")
}

// forget forgets rows of the source, except those whose text is like except, in as many
// transactions as it takes. Each runs the fence.
func (s *Lease) forget(
	ctx context.Context, operation string, fence statement, except string,
) error {
	for n := forgetMost; n == forgetMost; {
		err := s.transact(ctx, operation, func(ctx context.Context, t transaction) error {
			err := t.begin(ctx, statement{sql: s.ledger.sql.lockKinds})
			if err == nil {
				err = fenced(ctx, t, fence)
			}
			if err != nil {
				return err
			}
			var hash int64
			n = 0
			return t.query(ctx, statement{
				sql:  deleteSourceRepeatsSQL,
				args: []any{s.Source, except, forgetMost},
				into: []any{&hash},
				each: func() error {
					n++
					return nil
				},
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// move is an update for fenced.
func (s *Lease) move(from, to Position, followed time.Time) statement {
	return statement{
		sql:  moveSourceSQL,
		args: []any{string(to), micros(followed), s.Source, s.fence, string(from)},
	}
}

// micros returns a time as the ledger keeps it: 0 if it is zero.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
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
	what := fmt.Sprintf("ledger: release kind %q", kind)
	return run(ctx, l, "unfollow", what, func(ctx context.Context) error {
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
	c, what := &Call{Operation: "sources"}, "ledger: read sources"
	return ask(ctx, l, c, what, func(ctx context.Context) (all []Source, err error) {
		err = l.db.query(ctx, sourcesQuery(&all))
		return all, err
	})
}

// sourcesQuery returns a query that reads all sources in order of name, which has a row for each of
// their kinds.
func sourcesQuery(into *[]Source) statement {
	var s Source
	var until, followed int64
	var kind string
	return statement{
		sql: allSourcesSQL, into: []any{&s.Name, &s.Position, &s.Holder, &until, &followed, &kind},
		reset: func() { *into = nil },
		each: func() error {
			all := *into
			if n := len(all); n == 0 || all[n-1].Name != s.Name {
				s.Until, s.Followed, s.Kinds = time.UnixMicro(until).UTC(), time.Time{}, nil
				if followed > 0 {
					s.Followed = time.UnixMicro(followed).UTC()
				}
				all = append(all, s)
			}
			if last := &all[len(all)-1]; kind != "" {
				last.Kinds = append(last.Kinds, kind)
			}
			*into = all
			return nil
		},
	}
}

// Follow records what transactions of a source did, and the position after them, in one
// transaction. So every change of the source takes effect exactly once. The error wraps ErrFenced
// if the lease was lost, or the ledger's position is not step.From; then nothing changes. The
// receipt has no Changed and Refused. See Record for everything else.
func (l *Ledger) Follow(
	ctx context.Context, now time.Time, step Step, changes []SourceChange,
) (Receipt, error) {
	what := fmt.Sprintf("ledger: follow source %q with %d changes", step.Lease.Source, len(changes))
	return ask(ctx, l, &Call{Operation: "follow"}, what, func(ctx context.Context) (Receipt, error) {
		p, err := newFollowPlan(l.id, step, changes)
		if err != nil {
			return Receipt{}, err
		}
		return l.execute(ctx, p, now)
	})
}

// newFollowPlan validates the changes of a source and collects their rows.
func newFollowPlan(id Identity, step Step, changes []SourceChange) (*plan, error) {
	if err := step.To.validate(); err != nil {
		return nil, err
	}
	named := make([]Change, len(changes))
	for i, c := range changes {
		err := times{since: c.At}.validate()
		for _, s := range c.Added {
			err = cmp.Or(err, times{s.Since, s.Until}.validate())
		}
		if err != nil {
			return nil, fmt.Errorf("change %d: %w", i, err)
		}
		named[i] = Change{Rows: c.Rows, Remove: true} // as in a removal, their times say nothing
	}
	p, err := newPlan(id, named, &step)
	if err != nil {
		return nil, err
	}
	p.followed = changes
	return p, nil
}

// source returns the source that makes the changes; "": callers of Record do.
func (p *plan) source() string {
	if p.step == nil {
		return ""
	}
	return p.step.Lease.Source
}

// repeats are the columns of the table of that name.
type repeats struct {
	hash                       []int64
	owner, kind, target, times []string
}

func (r *repeats) add(k key, times string) {
	r.hash = append(r.hash, stored(k.hash))
	r.owner = append(r.owner, k.owner)
	r.kind = append(r.kind, k.kind)
	r.target = append(r.target, k.target)
	r.times = append(r.times, times)
}

func (r *repeats) key() []any { return []any{r.hash, r.owner, r.kind, r.target} }

// lookupRepeats is a query for the activities of a source's changes that several rows give.
func (l *Ledger) lookupRepeats(p *plan) (s statement) {
	if p.step == nil {
		return s
	}
	var hash int64
	var k key
	var text string
	var firsts repeats
	for i := range p.followed {
		firsts.add(p.followed[i].Rows[0].key(), "")
	}
	return statement{
		sql:     l.sql.lookupRepeats,
		columns: firsts.key(),
		into:    []any{&hash, &k.owner, &k.kind, &k.target, &text},
		reset:   func() { p.repeats = make(map[key][]Span) },
		each: func() (err error) {
			k.hash = unstored(hash)
			var spans []Span
			err = json.Unmarshal([]byte(text), &spans)
			p.repeats[k] = spans
			return err
		},
	}
}

// follow moves the position, and sets the state of each entry after a source's changes. It returns
// statements that note which activities several rows give from now on, and which no longer.
func (l *Ledger) follow(
	ctx context.Context, t transaction, p *plan, now time.Time,
) ([]statement, error) {
	if err := fenced(ctx, t, p.step.Lease.move(p.step.From, p.step.To, p.step.Followed)); err != nil {
		return nil, err
	}
	for _, e := range p.entries {
		e.state = state{e.was, e.before}
	}
	before := maps.Clone(p.repeats)
	named, last := p.named, make(map[key]int)
	for i := range p.followed {
		c := &p.followed[i]
		mine := named[:len(c.Rows)]
		named = named[len(c.Rows):]
		first := mine[0]
		known, several := p.repeats[first.key]
		if !several && first.is {
			known = []Span{{Since: first.after.since, Until: first.after.until}}
		}
		rest, err := c.apply(known, now)
		if err != nil {
			return nil, fmt.Errorf(
				"change %d: %s of %q for %q: %w", i, first.kind, first.owner, first.target, err,
			)
		}
		if p.repeats[first.key] = rest; len(rest) < 2 && !slices.ContainsFunc(rest, Span.hashed) {
			delete(p.repeats, first.key)
		}
		since := microseconds(c.At)
		if first.live(now) {
			since = first.after.since
		}
		for _, e := range mine {
			e.state = stateOf(rest, since)
		}
		last[first.key] = i
	}
	var several, single repeats
	for k := range last {
		spans, is := p.repeats[k]
		if _, was := before[k]; is {
			text, err := json.Marshal(spans)
			if err != nil {
				return nil, err
			}
			several.add(k, string(text))
		} else if was {
			single.add(k, "")
		}
	}
	return []statement{
		{sql: l.sql.upsertRepeats, columns: append(several.key(), several.times)},
		{sql: l.sql.deleteRepeats, columns: single.key()},
	}, nil
}

// stateOf returns the state of an activity that rows with the spans give: the times of the row that
// ends last. So nothing changes when another row ends. since is when it began, if no row says.
func stateOf(spans []Span, since time.Time) state {
	if len(spans) == 0 {
		return state{}
	}
	last := slices.MaxFunc(spans, Span.Compare)
	if !last.Since.IsZero() {
		since = last.Since
	}
	return state{is: true, after: times{since, last.Until}}
}

// Compare orders spans by their ends; of those that end together, the earliest is the greatest. An
// activity that several rows give has the times of the greatest.
func (s Span) Compare(other Span) int {
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
	ended := func(s Span) bool { return times{until: s.Until}.endedAt(now) }
	all := slices.DeleteFunc(slices.Clone(known), ended)
	switch {
	case c.Whole:
		all = nil
	case c.Reading:
		all = slices.DeleteFunc(all, func(s Span) bool { return !s.hashed() })
	}
	for _, s := range c.Added {
		repeated := func(k Span) bool { return !c.Reading || k.Row == s.Row }
		if s.hashed() && slices.ContainsFunc(all, repeated) {
			continue
		}
		if !c.Reading {
			s.Row = 0
		}
		all = append(all, Span{microseconds(s.Since), microseconds(s.Until), s.Row})
	}
	for _, s := range c.Removed {
		since, until := microseconds(s.Since), microseconds(s.Until)
		at := slices.IndexFunc(all, func(k Span) bool {
			return k.Until.Equal(until) && k.Since.Equal(since)
		})
		if at < 0 && since.IsZero() { // what is known of a row that was alone has a since
			at = slices.IndexFunc(all, func(k Span) bool { return k.Until.Equal(until) })
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
