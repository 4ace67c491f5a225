package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// sourceRow is a row of an app's table that gives an activity.
type sourceRow struct {
	owner, target string
	span          ledger.Span
}

func sourceChange(rows []ledger.Row, c ledger.SourceChange) ledger.SourceChange {
	c.Rows = rows
	return c
}

// follow follows a source of random rows beside a map of them, and takes the lease away at times.
func (s suite) follow(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l, ctx := s.make(t, 4), t.Context()
	must(t, l.Declare(ctx, []ledger.Kind{{Name: "block", Reverse: "blocked-by", Target: ledger.User}, {Name: "hide", Target: ledger.Post}}))
	run, steps := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		lease, err := l.Lease(ctx, "app", "one", []string{"block"}, time.Hour, false)
		must(rt, err)
		position := lease.Position
		rows, next := make(map[int]sourceRow), 0
		users := func(letters ...string) *rapid.Generator[string] {
			for i := range letters {
				letters[i] += fmt.Sprint(run)
			}
			return rapid.SampledFrom(letters)
		}
		both := func(r sourceRow) []ledger.Row {
			at := start.Add(time.Hour)
			return []ledger.Row{
				{Hash: hashOf(r.owner), Owner: r.owner, Kind: "block", Target: r.target, Since: at},
				{Hash: hashOf(r.target), Owner: r.target, Kind: "blocked-by", Target: r.owner, Since: at},
			}
		}
		now := start
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			steps++
			now = now.Add(time.Minute)
			var changes []ledger.SourceChange
			for range rapid.IntRange(0, 5).Draw(rt, "changes") {
				ids := slices.Sorted(maps.Keys(rows))
				if len(ids) > 0 && rapid.Bool().Draw(rt, "removes") {
					id := rapid.SampledFrom(ids).Draw(rt, "row")
					changes = append(changes, sourceChange(both(rows[id]), ledger.SourceChange{At: now, Removed: []ledger.Span{rows[id].span}}))
					delete(rows, id)
					continue
				}
				r := sourceRow{owner: users("a", "b").Draw(rt, "owner"), target: users("c", "d").Draw(rt, "target")}
				if rapid.Bool().Draw(rt, "says") {
					r.span.Since = start.Add(time.Duration(rapid.IntRange(-3, 0).Draw(rt, "since")) * time.Hour)
				}
				if rapid.Bool().Draw(rt, "ends") {
					r.span.Until = start.Add(time.Duration(rapid.IntRange(1, 15).Draw(rt, "until"))*time.Minute + time.Second)
				}
				rows[next] = r
				next++
				changes = append(changes, sourceChange(both(r), ledger.SourceChange{At: now, Added: []ledger.Span{r.span}}))
			}
			if rapid.IntRange(0, 3).Draw(rt, "lost") == 0 {
				stale := lease
				lease, err = l.Lease(ctx, "app", "one", []string{"block"}, time.Hour, false)
				must(rt, err)
				if lease.Position != position {
					rt.Fatalf("position %q, want %q", lease.Position, position)
				}
				if _, err := l.Follow(ctx, now, ledger.Step{Lease: *stale, From: position, To: "stale"}, changes); !errors.Is(err, ledger.ErrFenced) {
					rt.Fatalf("with a lease that was lost: %v", err)
				}
			}
			to := ledger.Position(fmt.Sprint("p", steps))
			_, err := l.Follow(ctx, now, ledger.Step{Lease: *lease, From: position, To: to}, changes)
			must(rt, err)
			if _, err := l.Follow(ctx, now, ledger.Step{Lease: *lease, From: position, To: to}, changes); !errors.Is(err, ledger.ErrFenced) {
				rt.Fatalf("a second time: %v", err)
			}
			position = to
			wantMapped(ctx, rt, l, run, rows, now)
		}
	})
}

// wantMapped checks that the ledger has the activities that the rows give, and their mirrored rows.
func wantMapped(ctx context.Context, rt *rapid.T, l *ledger.Ledger, run int, rows map[int]sourceRow, now time.Time) {
	want, silent := make(map[[2]string]ledger.Span), make(map[[2]string]bool) // rows that say no beginning
	for _, r := range rows {
		if !r.span.Until.IsZero() && !r.span.Until.After(now) {
			continue
		}
		k := [2]string{r.owner, r.target}
		had, found := want[k]
		end := func(s ledger.Span) time.Time { // of the span
			if s.Until.IsZero() {
				return now.AddDate(1, 0, 0)
			}
			return s.Until
		}
		later := end(r.span).Compare(end(had))
		if !found || later > 0 || later == 0 && r.span.Since.Before(had.Since) {
			want[k] = r.span
		}
		silent[k] = r.span.Since.IsZero() && (!found || later >= 0) || silent[k] && later <= 0
	}
	for _, owner := range []string{"a", "b", "c", "d"} {
		owner += fmt.Sprint(run)
		for _, kind := range []string{"block", "blocked-by"} {
			listed, err := l.List(ctx, ledger.ListQuery{Hash: hashOf(owner), Owner: owner, Kind: kind, Now: now, Limit: 100})
			must(rt, err)
			got := make(map[[2]string]ledger.Span)
			for _, r := range listed {
				k := [2]string{owner, r.Target}
				if kind == "blocked-by" {
					k = [2]string{r.Target, owner}
				}
				got[k] = ledger.Span{Since: r.Since, Until: r.Until}
			}
			for k, w := range want {
				if silent[k] {
					w.Since = got[k].Since
				}
				if (kind == "block" && k[0] == owner || kind == "blocked-by" && k[1] == owner) && got[k] != w {
					rt.Fatalf("%s of %s: %v is %v, want %v", kind, owner, k, got[k], w)
				}
			}
			for k := range got {
				if _, found := want[k]; !found {
					rt.Fatalf("%s of %s: %v is there, and no row gives it", kind, owner, k)
				}
			}
		}
	}
}

func isFollowed(err error) bool {
	_, followed := errors.AsType[*ledger.FollowedError](err)
	return followed
}

// followed: others cannot write a followed kind, until it is released.
func (s suite) followed(t *testing.T) {
	l := s.make(t, 4)
	ctx := t.Context()
	must(t, l.Declare(ctx, []ledger.Kind{{Name: "hide", Target: ledger.Post}, {Name: "like", Target: ledger.Post}}))
	row := ledger.Row{Hash: hashOf("u"), Owner: "u", Kind: "hide", Target: "p", Since: time.Now()}
	lease, err := l.Lease(ctx, "app", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	if _, err := l.Lease(ctx, "app", "two", []string{"hide"}, time.Hour, false); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("the lease of another: %v", err)
	}
	if _, err := l.Lease(ctx, "other", "two", []string{"hide"}, time.Hour, false); !isFollowed(err) {
		t.Errorf("a kind of another source: %v", err)
	}
	record := func(remove bool) error {
		_, err := l.Record(ctx, time.Now(), []ledger.Change{{Rows: []ledger.Row{row}, Remove: remove}})
		return err
	}
	for _, remove := range []bool{false, true} {
		if err := record(remove); !isFollowed(err) {
			t.Errorf("a write of a followed kind: %v", err)
		}
	}
	_, err = l.Follow(ctx, time.Now(), ledger.Step{Lease: *lease, From: "", To: ""}, []ledger.SourceChange{
		sourceChange([]ledger.Row{row}, ledger.SourceChange{At: time.Now(), Whole: true, Added: []ledger.Span{{}, {}}})})
	must(t, err)
	if _, err := l.Follow(ctx, time.Now(), ledger.Step{Lease: *lease, From: "", To: "1"}, []ledger.SourceChange{sourceChange([]ledger.Row{{Hash: 1, Owner: "u", Kind: "like", Target: "p"}}, ledger.SourceChange{})}); !isFollowed(err) {
		t.Errorf("a change of a kind that is not the source's: %v", err)
	}
	must(t, lease.Renew(ctx, time.Hour, time.Time{}))
	if _, err := l.Lease(ctx, "app", "two", []string{"hide"}, time.Hour, false); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("the lease of another, renewed: %v", err)
	}
	must(t, lease.Renew(ctx, 0, time.Time{}))
	second, err := l.Lease(ctx, "app", "two", []string{"hide"}, time.Hour, false)
	must(t, err)
	if err := lease.Renew(ctx, time.Hour, time.Time{}); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("renewed a lease that was lost: %v", err)
	}
	third, err := l.Lease(ctx, "app", "three", []string{"hide"}, time.Hour, true)
	if err != nil {
		t.Fatalf("a lease taken by force: %v", err)
	}
	if err := second.Renew(ctx, time.Hour, time.Time{}); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("renewed a lease that was taken by force: %v", err)
	}
	must(t, third.Renew(ctx, 0, time.Time{}))
	second, err = l.Lease(ctx, "app", "two", []string{"hide"}, time.Hour, false)
	must(t, err)
	if _, err := l.Follow(ctx, time.Now(), ledger.Step{Lease: *second, From: "", To: "1"}, []ledger.SourceChange{sourceChange([]ledger.Row{{Hash: 1, Owner: "v", Kind: "hide", Target: "p"}}, ledger.SourceChange{Removed: []ledger.Span{{}}})}); !errors.Is(err, ledger.ErrStrayRow) {
		t.Errorf("a row that nobody added: %v", err)
	}
	for position, kinds := range map[ledger.Position][]string{"5": {"hide"}, "": {"hide", "like"}} {
		moved, err := l.Lease(ctx, "app", "two", []string{"hide"}, time.Hour, false)
		must(t, err)
		_, err = l.Follow(ctx, time.Now(), ledger.Step{Lease: *moved, From: moved.Position, To: "5"}, nil)
		must(t, err)
		if second, err = l.Lease(ctx, "app", "two", kinds, time.Hour, false); err != nil || second.Position != position {
			t.Errorf("a lease of %v: position %q, %v, want %q", kinds, second.Position, err, position)
		}
	}
	both, err := l.Lease(ctx, "app", "two", []string{"hide", "like"}, time.Hour, false)
	must(t, err)
	for _, c := range []struct {
		step, renewed time.Time
		want          time.Time
	}{
		{want: time.Time{}}, // other kinds: nobody has followed them yet
		{step: time.UnixMicro(1_000_001).UTC(), want: time.UnixMicro(1_000_001).UTC()},
		{renewed: time.UnixMicro(2_000_002).UTC(), want: time.UnixMicro(2_000_002).UTC()},
		{step: time.UnixMicro(1_500_000), renewed: time.UnixMicro(2_000_001), want: time.UnixMicro(2_000_002).UTC()},
		{want: time.UnixMicro(2_000_002).UTC()}, // not known
	} {
		_, err := l.Follow(ctx, time.Now(), ledger.Step{Lease: *both, From: both.Position, To: both.Position, Followed: c.step}, nil)
		must(t, err)
		must(t, both.Renew(ctx, time.Hour, c.renewed))
		all, err := l.Sources(ctx)
		must(t, err)
		if all[0].Followed != c.want {
			t.Errorf("followed up to %v after a step of %v, renewed with %v, want %v", all[0].Followed, c.step, c.renewed, c.want)
		}
	}
	_, err = l.Lease(ctx, "bare", "one", nil, time.Hour, false)
	must(t, err)
	polled, err := l.Changed(ctx, "", func(uint32, ledger.PageState) error { return nil })
	must(t, err)
	asked, err := l.Sources(ctx)
	must(t, err)
	for _, all := range [][]ledger.Source{polled.Sources, asked} {
		if len(all) != 2 || !slices.Equal(all[0].Kinds, []string{"hide", "like"}) || all[1].Name != "bare" || all[1].Kinds != nil {
			t.Errorf("sources %+v, want app with hide and like, and bare", all)
		}
		if until := time.Until(all[0].Until); until < 50*time.Minute || until > time.Hour {
			t.Errorf("the lease of an hour ends in %v", until)
		}
	}
	must(t, l.Unfollow(ctx, "like"))
	if err := both.Renew(ctx, time.Hour, time.Time{}); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("a lease of a released kind: %v", err)
	}
	must(t, l.Unfollow(ctx, "hide"))
	if _, err := l.Follow(ctx, time.Now(), ledger.Step{Lease: *second, From: "", To: "1"}, nil); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("follows a released source: %v", err)
	}
	if all, err := l.Sources(ctx); err != nil || len(all) > 0 {
		t.Errorf("sources %v, %v", all, err)
	}
	must(t, record(true))
	s.forgotten(t, l, row)
}

// interlude is a context that calls do when its error is asked for the left-th time.
type interlude struct {
	context.Context

	left atomic.Int64
	do   func()
}

func (c *interlude) Err() error {
	if c.left.Add(-1) == 0 {
		c.do()
	}
	return c.Context.Err()
}

// followedAnywhere takes the lease of a kind at each point of a Record of the kind, which adds or
// removes a row. Either the lease is taken, and the Record is refused, or the lease waits for the
// Record, whose change is there when the lease is taken.
func (s suite) followedAnywhere(t *testing.T) {
	handles := s.handles(t, 4)
	l, other, ctx := handles[0], handles[len(handles)-1], t.Context()
	must(t, l.Declare(ctx, []ledger.Kind{{Name: "block", Target: ledger.User}}))
	row := block(1, "a")
	lease := func(lasts time.Duration) error {
		limited, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		_, err := other.Lease(limited, "app", "one", []string{"block"}, time.Hour, false)
		return err
	}
	patience := 10 * time.Millisecond
	if l.Shared() { // otherwise Records wait for each other from their beginning
		patience = 200 * time.Millisecond
	}
	outcomes := make(map[bool]int) // by whether the lease was taken during the Record
	remove := false
	for looks, ended := int64(1), false; !ended; looks++ {
		ended = true
		var leased error
		during := &interlude{Context: ctx, do: func() { ended, leased = false, lease(patience) }}
		during.left.Store(looks)
		receipt, err := l.Record(during, at(0), []ledger.Change{{Rows: []ledger.Row{row}, Remove: remove}})
		taken := !ended && leased == nil
		switch {
		case ended:
			must(t, err)
		case taken && !isFollowed(err):
			t.Errorf("look %d: %v of a Record when the lease was taken, want it refused", looks, err)
		case !taken && (err != nil || !receipt.Changed[0] || !errors.Is(leased, context.DeadlineExceeded)):
			t.Errorf("look %d: %v, Record %+v, %v, want the lease to wait for the Record", looks, leased, receipt, err)
		}
		outcomes[taken]++
		must(t, lease(time.Minute))
		if _, err := l.Record(ctx, at(0), []ledger.Change{add(row)}); !isFollowed(err) {
			t.Errorf("look %d: %v of a Record after the lease was taken, want it refused", looks, err)
		}
		if left, _ := snapshot(t, l, l.Identity().PageIn(4, row.Hash)); (len(left) > 0) != (remove == taken) {
			t.Errorf("look %d: rows %v after remove %v, refused %v", looks, left, remove, taken)
		}
		remove = remove == taken // the row is there
		must(t, l.Unfollow(ctx, "block"))
	}
	if l.Shared() && outcomes[true] == 0 || outcomes[false] < 2 {
		t.Errorf("the lease was taken during %d records, and waited for %d", outcomes[true], outcomes[false]-1)
	}
}

// begins: an activity whose rows do not say when it began has begun with the first of them.
func (s suite) begins(t *testing.T) {
	l, ctx := s.make(t, 4), t.Context()
	must(t, l.Declare(ctx, []ledger.Kind{{Name: "hide", Target: ledger.Post}}))
	lease, err := l.Lease(ctx, "app", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	row, step := ledger.Row{Hash: hashOf("u"), Owner: "u", Kind: "hide", Target: "p"}, ledger.Step{Lease: *lease}
	for n, c := range []ledger.SourceChange{
		{Added: []ledger.Span{{}}}, {Added: []ledger.Span{{}}}, {Removed: []ledger.Span{{}}}, {Removed: []ledger.Span{{}}, Added: []ledger.Span{{Until: first.AddDate(1, 0, 0)}}},
	} {
		c.At = first.Add(time.Duration(n) * time.Hour)
		_, err := l.Follow(ctx, c.At, step, []ledger.SourceChange{sourceChange([]ledger.Row{row}, c)})
		must(t, err)
		rows, err := l.List(ctx, ledger.ListQuery{Hash: row.Hash, Owner: "u", Kind: "hide", Now: c.At, Limit: 2})
		if err != nil || len(rows) != 1 || !rows[0].Since.Equal(first) {
			t.Errorf("after change %d: %v, %v, want one since %v", n, rows, err, first)
		}
	}
}

// startsOver: a source that starts over has not been read whole, in the ledger and in the lease.
// With a lease that was lost, neither that nor the end of a snapshot has an effect. A change that
// is not valid moves nothing.
func (s suite) startsOver(t *testing.T) {
	l, ctx := s.make(t, 4), t.Context()
	must(t, l.Declare(ctx, []ledger.Kind{{Name: "hide", Target: ledger.Post}}))
	take := func(holder string, position ledger.Position) *ledger.Lease {
		t.Helper()
		lease, err := l.Lease(ctx, "app", holder, []string{"hide"}, time.Hour, true)
		must(t, err)
		if lease.Position != position {
			t.Errorf("%s takes the lease at position %q, want %q", holder, lease.Position, position)
		}
		return lease
	}
	move := func(lease *ledger.Lease, to ledger.Position) {
		t.Helper()
		_, err := l.Follow(ctx, at(0), ledger.Step{Lease: *lease, From: lease.Position, To: to}, nil)
		must(t, err)
	}
	move(take("one", ""), "5")
	lease := take("one", "5")
	valid := []ledger.Row{{Owner: "u", Kind: "hide", Target: "p"}}
	late := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, invalid := range map[string]ledger.SourceChange{
		"without rows":      {At: at(0), Added: []ledger.Span{{}}},
		"without an owner":  {Rows: []ledger.Row{{Kind: "hide", Target: "p"}}, At: at(0), Added: []ledger.Span{{}}},
		"in the year 10000": {Rows: valid, At: late, Added: []ledger.Span{{}}},
		"since 10000":       {Rows: valid, At: at(0), Added: []ledger.Span{{Since: late}}},
		"until 10000":       {Rows: valid, At: at(0), Added: []ledger.Span{{}, {Until: late}}},
		"until the year 1":  {Rows: valid, At: at(0), Added: []ledger.Span{{Until: time.Time{}.Add(time.Hour)}}},
	} {
		step := ledger.Step{Lease: *lease, From: "5", To: "6"}
		if _, err := l.Follow(ctx, at(0), step, []ledger.SourceChange{invalid}); err == nil {
			t.Errorf("a change %s is followed", what)
		}
	}
	for _, to := range []ledger.Position{" ", "6 ", " 6", "6  a=1", "6 =1", "6\ta", "6\n"} {
		if _, err := l.Follow(ctx, at(0), ledger.Step{Lease: *lease, From: "5", To: to}, nil); err == nil {
			t.Errorf("the position %q is recorded", to)
		}
	}
	must(t, lease.Settle(ctx, "5"))
	if err := lease.Settle(ctx, "4"); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("a snapshot ends at another position: %v, want ErrFenced", err)
	}
	must(t, lease.StartOver(ctx))
	if lease.Position != "" {
		t.Errorf("the lease is at position %q after a new start", lease.Position)
	}
	move(take("two", ""), "6")
	for name, do := range map[string]func() error{
		"a new start":           func() error { return lease.StartOver(ctx) },
		"the end of a snapshot": func() error { return lease.Settle(ctx, "6") },
	} {
		if err := do(); !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("%s with a lost lease: %v, want ErrFenced", name, err)
		}
	}
	take("two", "6")
}

// snapshotInParts: a snapshot tells two rows of an activity in different calls, and one of them
// again. The activity ends when both were removed. A row that has ended does not stand for one that
// is told.
func (s suite) snapshotInParts(t *testing.T) {
	l, ctx := s.make(t, 4), t.Context()
	must(t, l.Declare(ctx, []ledger.Kind{{Name: "hide", Target: ledger.Post}}))
	lease, err := l.Lease(ctx, "app", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	row := ledger.Row{Hash: hashOf("u"), Owner: "u", Kind: "hide", Target: "p"}
	told := func(hash uint64) ledger.SourceChange {
		return ledger.SourceChange{Reading: true, Added: []ledger.Span{{Row: hash}}}
	}
	removed := ledger.SourceChange{Removed: []ledger.Span{{}}}
	for n, step := range []struct {
		change ledger.SourceChange
		left   int
	}{
		{told(1), 1}, {told(2), 1}, {told(1), 1}, {removed, 1}, {removed, 0},
		{ledger.SourceChange{Added: []ledger.Span{{Until: at(6)}}}, 1},
		{ledger.SourceChange{Added: []ledger.Span{{Row: 3}}}, 1},
		{ledger.SourceChange{Added: []ledger.Span{{Row: 4}}}, 1}, {removed, 0}, // there was a row already
		{ledger.SourceChange{Added: []ledger.Span{{Row: 5}}}, 1},
		{told(6), 1}, {removed, 0}, // only what this snapshot tells gives the activity
	} {
		now := at(int64(n))
		step.change.At = now
		changes := []ledger.SourceChange{sourceChange([]ledger.Row{row}, step.change)}
		_, err := l.Follow(ctx, now, ledger.Step{Lease: *lease}, changes)
		must(t, err)
		query := ledger.ListQuery{Hash: row.Hash, Owner: "u", Kind: "hide", Now: now, Limit: 2}
		if rows, err := l.List(ctx, query); err != nil || len(rows) != step.left {
			t.Errorf("after step %d: %v, %v, want %d", n, rows, err, step.left)
		}
	}
}

// stray: a removed row that nobody added is one only if it has not ended.
func (s suite) stray(t *testing.T) {
	l, ctx := s.make(t, 4), t.Context()
	must(t, l.Declare(ctx, []ledger.Kind{{Name: "hide", Target: ledger.Post}}))
	lease, err := l.Lease(ctx, "app", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	row, now := ledger.Row{Hash: hashOf("u"), Owner: "u", Kind: "hide", Target: "p"}, at(0)
	remove := func(span ledger.Span) error {
		change := sourceChange([]ledger.Row{row}, ledger.SourceChange{At: now, Removed: []ledger.Span{span}})
		_, err := l.Follow(ctx, now, ledger.Step{Lease: *lease}, []ledger.SourceChange{change})
		return err
	}
	for _, c := range []struct {
		known, removed ledger.Span
		stray          bool
	}{
		{removed: ledger.Span{}, stray: true},
		{removed: ledger.Span{Until: at(1)}, stray: true},
		{removed: ledger.Span{Until: at(0)}},
		{removed: ledger.Span{Until: at(-1)}},
		{known: ledger.Span{Until: at(5)}, removed: ledger.Span{}, stray: true},
		{known: ledger.Span{Until: at(5)}, removed: ledger.Span{Until: at(4)}, stray: true},
		{known: ledger.Span{Since: at(-9), Until: at(5)}, removed: ledger.Span{Since: at(-8), Until: at(5)}, stray: true},
		{known: ledger.Span{Since: at(-9), Until: at(5)}, removed: ledger.Span{Until: at(5)}}, // says no beginning
		{known: ledger.Span{Until: at(5)}, removed: ledger.Span{Until: at(5)}},
	} {
		var added []ledger.Span
		if c.known != (ledger.Span{}) {
			added = []ledger.Span{c.known}
		}
		whole := sourceChange([]ledger.Row{row}, ledger.SourceChange{At: now, Whole: true, Added: added})
		_, err := l.Follow(ctx, now, ledger.Step{Lease: *lease}, []ledger.SourceChange{whole})
		must(t, err)
		if err := remove(c.removed); errors.Is(err, ledger.ErrStrayRow) != c.stray || !c.stray && err != nil {
			t.Errorf("%+v is removed, and %+v is known: %v, want a stray row: %v", c.removed, added, err, c.stray)
		}
		left, err := l.List(ctx, ledger.ListQuery{Hash: row.Hash, Owner: "u", Kind: "hide", Now: now, Limit: 2})
		if want := len(added) > 0 && c.stray; err != nil || (len(left) > 0) != want {
			t.Errorf("%+v is removed, and %+v is known: %v is left, %v", c.removed, added, left, err)
		}
	}
}

// forgetsMany: a new start forgets more activities than one transaction does.
func (s suite) forgetsMany(t *testing.T) {
	const n = 10_001 // one more than a transaction forgets
	l, ctx := s.make(t, 4), t.Context()
	must(t, l.Declare(ctx, []ledger.Kind{{Name: "hide", Target: ledger.Post}}))
	lease, err := l.Lease(ctx, "app", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	follow := func(c ledger.SourceChange) {
		t.Helper()
		changes := make([]ledger.SourceChange, n)
		for i := range changes {
			changes[i] = sourceChange([]ledger.Row{{Hash: hashOf("u"), Owner: "u", Kind: "hide", Target: fmt.Sprint(i)}}, c)
		}
		_, err := l.Follow(ctx, at(0), ledger.Step{Lease: *lease}, changes)
		must(t, err)
	}
	follow(ledger.SourceChange{At: at(0), Added: []ledger.Span{{}, {}}})
	must(t, lease.StartOver(ctx))
	follow(ledger.SourceChange{At: at(0), Removed: []ledger.Span{{}}})
	all := ledger.CountQuery{Hash: hashOf("u"), Owner: "u", Kinds: []string{"hide"}, Now: at(0), Most: n}
	if left, err := l.Counts(ctx, all); err != nil || left["hide"] > 0 {
		t.Errorf("%v are left, %v: a second row was known of them", left, err)
	}
}

// forgotten: after a new start, or a release, nothing is known of several rows of an activity.
func (s suite) forgotten(t *testing.T, l *ledger.Ledger, row ledger.Row) {
	ctx := t.Context()
	lease, err := l.Lease(ctx, "app", "one", []string{"hide"}, time.Hour, false)
	must(t, err)
	follow := func(c ledger.SourceChange) {
		t.Helper()
		c.At = time.Now()
		_, err := l.Follow(ctx, time.Now(), ledger.Step{Lease: *lease, From: lease.Position, To: lease.Position}, []ledger.SourceChange{sourceChange([]ledger.Row{row}, c)})
		must(t, err)
	}
	for _, forget := range []func(){
		func() { must(t, lease.StartOver(ctx)) },
		func() {
			must(t, l.Unfollow(ctx, "hide"))
			lease, err = l.Lease(ctx, "app", "one", []string{"hide"}, time.Hour, false)
			must(t, err)
		},
	} {
		follow(ledger.SourceChange{Whole: true, Added: []ledger.Span{{}, {}}})
		forget()
		follow(ledger.SourceChange{Removed: []ledger.Span{{}}})
		left, err := l.List(ctx, ledger.ListQuery{Hash: row.Hash, Owner: row.Owner, Kind: row.Kind, Now: time.Now(), Limit: 1})
		if err != nil || len(left) > 0 {
			t.Errorf("the activity is left: %v, %v", left, err)
		}
	}
}
