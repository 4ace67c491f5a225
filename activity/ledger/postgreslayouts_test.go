package ledger_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// holdLayouts makes commits of new layouts wait for the lock 4714.
const holdLayouts = `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_advisory_xact_lock(4714);
		RETURN NULL; END $$;
	CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON layouts DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION hold()`

// begin starts a call, and returns a channel for its result.
func begin(call func() (ledger.Receipt, error)) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		receipt, err := call()
		done <- outcome{receipt, err}
	}()
	return done
}

type outcome struct {
	ledger.Receipt
	err error
}

func checkOutcome(t testing.TB, what string, got outcome, layouts ledger.Layouts, pages map[uint32]uint64) {
	t.Helper()
	if got.err != nil || got.Layouts != layouts {
		t.Errorf("%s: layouts %+v, %v, want %+v", what, got.Layouts, got.err, layouts)
	}
	checkPagesOf(t, got.Receipt, got.err, pages)
}

// layoutWaits is a query: whether n sessions wait for the table of layouts in a mode.
func layoutWaits(n, mode string) string {
	return `SELECT count(*) = ` + n + ` FROM pg_locks WHERE NOT granted AND relation = 'layouts'::regclass AND mode = '` + mode + `'`
}

// testWriteHoldsBackSwitch has a write in flight while a layout begins, and one during the
// switch to it. Both steps must wait for the write, and the new pages must have its sequence.
func (server shared) testWriteHoldsBackSwitch(t testing.TB) {
	l, url := server.fresh(t)
	other := open(t, url, ledger.Options{})
	record(t, l, on(4, "a"))
	watch := raw(t, url)
	execute(t, watch, `CREATE SEQUENCE attempts START 3`, refuseCommits, onRaise)
	for i, c := range []struct {
		step    func(context.Context, uint32) error
		layouts ledger.Layouts // of the write
	}{
		{other.BeginLayout, ledger.Layouts{Current: 16}},
		{other.SwitchLayout, ledger.Layouts{Current: 16, Building: 32}},
	} {
		execute(t, watch, `SELECT pg_advisory_lock(4713)`)
		write := begin(func() (ledger.Receipt, error) {
			return l.Record(t.Context(), time.Now(), []ledger.Change{on(3, string(rune('a'+i)))})
		})
		awaitLock(t, watch)
		step := begin(func() (ledger.Receipt, error) { return ledger.Receipt{}, c.step(t.Context(), 32) })
		await(t, watch, layoutWaits("1", "ExclusiveLock"))
		execute(t, watch, `SELECT pg_advisory_unlock(4713)`)
		checkOutcome(t, "write", <-write, c.layouts, map[uint32]uint64{3: uint64(i + 1)})
		if err := (<-step).err; err != nil {
			t.Error(err)
		}
	}
	checkSequence(t, l, 32+6, 2)
	checkSequence(t, l, 32+7, 1)
	if rows, _, err := l.Snapshot(t.Context(), 32+6); err != nil || len(rows) != 2 {
		t.Errorf("%v, %v, want both rows", rows, err)
	}
}

// testSwitchHoldsBackWrites begins a layout, and switches to it, while writers arrive. The
// writers must wait, and find the new layouts.
func (server shared) testSwitchHoldsBackWrites(t testing.TB) {
	l, url := server.fresh(t)
	other := open(t, url, ledger.Options{})
	record(t, l, on(3, "a"), on(4, "a"), on(5, "a"))
	watch := raw(t, url)
	execute(t, watch, holdLayouts)
	for _, c := range []struct {
		step    func(context.Context, uint32) error
		moves   bool // to a dedicated page
		target  string
		layouts ledger.Layouts // of the writes
		pages   [3]map[uint32]uint64
	}{
		{other.BeginLayout, true, "b", ledger.Layouts{Current: 16, Building: 32}, [3]map[uint32]uint64{
			{3: 2}, {4: 2}, {5: 2, ledger.DedicatedPages: 1},
		}},
		{other.SwitchLayout, false, "c", ledger.Layouts{Current: 32, Leaving: 16}, [3]map[uint32]uint64{
			{38: 3}, {40: 3}, {42: 3, ledger.DedicatedPages: 2},
		}},
	} {
		execute(t, watch, `SELECT pg_advisory_lock(4714)`)
		step := begin(func() (ledger.Receipt, error) { return ledger.Receipt{}, c.step(t.Context(), 32) })
		await(t, watch, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory')`)
		write := begin(func() (ledger.Receipt, error) {
			return l.Record(t.Context(), time.Now(), []ledger.Change{on(3, c.target)})
		})
		another := begin(func() (ledger.Receipt, error) {
			return l.Record(t.Context(), time.Now(), []ledger.Change{on(4, c.target)})
		})
		move := begin(func() (ledger.Receipt, error) { return l.Move(t.Context(), 5<<60, c.moves) })
		await(t, watch, layoutWaits("3", "RowShareLock"))
		execute(t, watch, `SELECT pg_advisory_unlock(4714)`)
		if err := (<-step).err; err != nil {
			t.Error(err)
		}
		checkOutcome(t, "write", <-write, c.layouts, c.pages[0])
		checkOutcome(t, "another write", <-another, c.layouts, c.pages[1])
		checkOutcome(t, "move", <-move, c.layouts, c.pages[2])
	}
	pages, _ := changed(t, l, "")
	maps.DeleteFunc(pages, func(page uint32, _ uint64) bool { return page < 16 || page%2 > 0 })
	checkPages(t, "in the end", pages, map[uint32]uint64{38: 3, 40: 3, 42: 3, ledger.DedicatedPages: 2})
}

// testLayoutsTakenUp writes from a process whose assumed layouts have left since. The process
// must undo the try and retry.
func (server shared) testLayoutsTakenUp(t testing.TB) {
	l, url := server.fresh(t)
	other := open(t, url, ledger.Options{})
	record(t, l, on(3, "a"))
	grow := func(pages uint32) {
		t.Helper()
		now, err := other.Layouts(t.Context())
		err = errors.Join(err, other.BeginLayout(t.Context(), pages),
			other.SwitchLayout(t.Context(), pages), other.LeaveLayout(t.Context(), now.Current))
		must(t, err)
	}
	calls := []struct {
		pages uint32 // that exist by then
		call  func() (ledger.Receipt, error)
		want  map[uint32]uint64
	}{
		{32, func() (ledger.Receipt, error) {
			return l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "b")})
		}, map[uint32]uint64{32 + 6: 2}},
		{64, func() (ledger.Receipt, error) {
			return l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "c")})
		}, map[uint32]uint64{64 + 12: 3}},
		{128, func() (ledger.Receipt, error) { return l.Move(t.Context(), 3<<60, true) }, map[uint32]uint64{128 + 24: 4, ledger.DedicatedPages: 1}},
		{256, func() (ledger.Receipt, error) { return l.Move(t.Context(), 3<<60, false) }, map[uint32]uint64{256 + 48: 5, ledger.DedicatedPages: 2}},
	}
	for _, c := range calls {
		grow(c.pages)
		receipt, err := c.call()
		checkOutcome(t, "call", outcome{receipt, err}, ledger.Layouts{Current: c.pages}, c.want)
	}
	grow(512)
	place, err := l.Place(t.Context(), 3<<60)
	want := ledger.Place{Page: 512 + 96, PageState: ledger.PageState{Sequence: 5}, Layouts: ledger.Layouts{Current: 512}}
	if err != nil || place != want {
		t.Errorf("placed on %+v, %v, want %+v", place, err, want)
	}
	var rest int
	err = raw(t, url).QueryRow(t.Context(), `SELECT count(*) FROM pages WHERE page < 512`).Scan(&rest)
	if err != nil || rest > 0 {
		t.Errorf("%d pages of layouts that have left, %v", rest, err)
	}
}

// testLayoutsConflict has the commits of changes of layouts refused. A retried change must
// happen once. A change that is refused finally must have no effect.
func (server shared) testLayoutsConflict(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"))
	conn := raw(t, url)
	execute(t, conn, `CREATE SEQUENCE attempts`, refuseCommits,
		`CREATE CONSTRAINT TRIGGER refuse AFTER DELETE ON layouts DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION refuse()`)
	check := func(want ledger.Layouts) {
		t.Helper()
		if now, err := l.Layouts(t.Context()); err != nil || now != want {
			t.Errorf("layouts %+v, %v, want %+v", now, err, want)
		}
	}
	steps := []struct {
		step  func(context.Context, uint32) error
		pages uint32
		after ledger.Layouts
	}{
		{l.BeginLayout, 32, ledger.Layouts{Current: 16, Building: 32}},
		{l.SwitchLayout, 32, ledger.Layouts{Current: 32, Leaving: 16}},
		{l.LeaveLayout, 16, ledger.Layouts{Current: 32}},
	}
	before := ledger.Layouts{Current: 16}
	for _, s := range steps {
		execute(t, conn, strings.Replace(refuseCommits, "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)+`;
			ALTER SEQUENCE attempts RESTART`,
			`CREATE OR REPLACE FUNCTION on_principle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'on principle'; END $$`,
			`CREATE TRIGGER on_principle BEFORE DELETE ON layouts FOR EACH ROW EXECUTE FUNCTION on_principle()`)
		if err := s.step(t.Context(), s.pages); err == nil || !strings.Contains(err.Error(), "on principle") {
			t.Errorf("error %v, want the final one", err)
		}
		check(before)
		execute(t, conn, `DROP TRIGGER on_principle ON layouts`)
		if err := s.step(t.Context(), s.pages); err != nil {
			t.Errorf("after two conflicts: %v", err)
		}
		check(s.after)
		before = s.after
	}
	checkSequence(t, l, 32+6, 1)
}

// beforePages calls do once, before a poll reads pages.
type beforePages struct{ do func() }

func (b *beforePages) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	first := data.Batch.QueuedQueries[0].SQL
	if do := b.do; do != nil && strings.HasPrefix(first, "SELECT page, sequence, left_at, changed FROM pages") {
		b.do = nil
		do()
	}
	return ctx
}

func (*beforePages) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*beforePages) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (*beforePages) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (*beforePages) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// testPollInOneSnapshot changes users and layouts after a poll has read them, and before it
// reads pages. That poll must report none of it, and the next poll all of it.
func (server shared) testPollInOneSnapshot(t testing.TB) {
	url := server.Schema()
	hook := &beforePages{}
	l, other := open(t, url, ledger.Options{Pages: 16, Tracer: hook}), open(t, url, ledger.Options{})
	record(t, other, on(3, "a"))
	var next ledger.Cursor
	poll := func(layouts ledger.Layouts, owners map[uint64]uint32, want map[uint32]ledger.PageState) {
		t.Helper()
		got := map[uint32]ledger.PageState{}
		progress, err := l.Changed(t.Context(), next, func(page uint32, s ledger.PageState) error {
			got[page] = s
			return nil
		})
		must(t, err)
		if progress.Layouts != layouts || !maps.Equal(progress.Owners, owners) || !maps.Equal(got, want) {
			t.Errorf("a poll reports %v, %v in %+v, want %v, %v in %+v", got, progress.Owners, progress.Layouts, want, owners, layouts)
		}
		next = progress.Next
	}
	called := false
	set := func(call func() error) {
		called = false
		hook.do = func() {
			called = true
			if err := call(); err != nil {
				t.Error(err)
			}
		}
	}
	checkCalled := func() {
		t.Helper()
		if !called {
			t.Error("nothing happened during the poll")
		}
	}
	sixteen := ledger.Layouts{Current: 16}
	// The first poll, and one that continues.
	set(func() error { return second(other.Move(t.Context(), 3<<60, true)) })
	poll(sixteen, nil, map[uint32]ledger.PageState{3: {Sequence: 1}})
	checkCalled()
	set(func() error { return second(other.Move(t.Context(), 3<<60, false)) })
	poll(sixteen, map[uint64]uint32{3 << 60: ledger.DedicatedPages},
		map[uint32]ledger.PageState{3: {Sequence: 2, Left: 2}, ledger.DedicatedPages: {Sequence: 1}})
	checkCalled()
	set(func() error { return other.BeginLayout(t.Context(), 32) })
	poll(sixteen, nil, map[uint32]ledger.PageState{3: {Sequence: 3, Left: 2}, ledger.DedicatedPages: {Sequence: 2, Left: 2}})
	checkCalled()
	set(func() error {
		record(t, other, on(3, "b"))
		return other.SwitchLayout(t.Context(), 32)
	})
	poll(ledger.Layouts{Current: 16, Building: 32}, nil, map[uint32]ledger.PageState{38: {Sequence: 3}, 39: {Sequence: 3}})
	checkCalled()
	poll(ledger.Layouts{Current: 32, Leaving: 16}, nil, map[uint32]ledger.PageState{3: {Sequence: 4, Left: 2}, 38: {Sequence: 4}})
	poll(ledger.Layouts{Current: 32, Leaving: 16}, nil, map[uint32]ledger.PageState{})
}

// testLayoutsReplaced changes layouts of a ledger that was restored while it was open.
func (server shared) testLayoutsReplaced(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"))
	other := open(t, url, ledger.Options{})
	must(t, other.BeginLayout(t.Context(), 32))
	restored := open(t, url, ledger.Options{Restored: true})
	for name, err := range map[string]error{
		"SwitchLayout": l.SwitchLayout(t.Context(), 32),
		"BeginLayout":  other.BeginLayout(t.Context(), 32),
		"Dedicate":     second(other.Move(t.Context(), 3<<60, true)),
	} {
		if err == nil || !strings.Contains(err.Error(), "restored") {
			t.Errorf("%s: error %v, want one about a restored ledger", name, err)
		}
	}
	if now, err := restored.Layouts(t.Context()); err != nil || now != (ledger.Layouts{Current: 16, Building: 32}) {
		t.Errorf("layouts %+v, %v, want no change", now, err)
	}
}
