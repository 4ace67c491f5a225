package ledgertest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// lookedUp looks up rows, and compares them with the model.
func lookedUp(t tester, l *ledger.Ledger, m *model, q ledger.LookupQuery) []ledger.Row {
	t.Helper()
	got, err := l.Lookup(context.Background(), q)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	if want := m.lookup(q); !slices.Equal(got, want) {
		t.Fatalf("look up %+v: %v, want %v", q, got, want)
	}
	return got
}

// ownedRows returns rows of u3 of three kinds, some of which end at 1 to 8. It also returns rows
// of neighbours that differ from u3 as little as possible.
func ownedRows() (changes []ledger.Change) {
	for i := range 40 {
		row := block(3, fmt.Sprint("t", i*7%40))
		row.Kind = []string{"block", "hide", "block-by"}[i%3]
		row.Since = at(int64(i / 6))
		if i%4 == 0 {
			row.Until = at(int64(1 + i%8))
		}
		neighbour, twin, before := row, row, row
		neighbour.Owner = "u33"
		twin.Hash++
		before.Owner = "u"
		changes = append(changes, add(row), add(neighbour), add(twin), add(before))
	}
	return changes
}

// lookup looks up items that exist, that have ended, of other owners, and of no owner.
func (s suite) lookup(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(-1), ownedRows()...)
	q := ledger.LookupQuery{Hash: 3 << 60, Owner: "u3"}
	for i := range 45 {
		for _, kind := range []string{"hide", "block", "like"} {
			q.Items = append(q.Items, ledger.Item{Kind: kind, Target: fmt.Sprint("t", i)})
		}
	}
	for now := int64(-1); now < 10; now++ {
		q.Now = at(now)
		if n := len(lookedUp(t, l, m, q)); n < 10 {
			t.Errorf("%d rows at %d, want at least 10", n, now)
		}
	}
	q.Now = at(0)
	some := lookedUp(t, l, m, q)
	items := q.Items
	q.Items = slices.Concat(items, items, items[:1])
	if twice := lookedUp(t, l, m, q); !slices.Equal(twice, some) {
		t.Errorf("duplicate items: %v, want %v", twice, some)
	}
	for i := range items {
		q.Items = items[i : i+1]
		lookedUp(t, l, m, q)
	}
	for _, none := range []ledger.LookupQuery{
		{Hash: q.Hash, Owner: "u3", Items: nil},
		{Hash: q.Hash, Owner: "u4", Items: items},
		{Hash: q.Hash + 2, Owner: "u3", Items: items},
		{Hash: q.Hash, Owner: "u3", Items: []ledger.Item{{Kind: "t1", Target: "block"}, {Kind: "block", Target: "T1"}}},
	} {
		if got := lookedUp(t, l, m, none); len(got) != 0 {
			t.Errorf("%+v: %v, want nothing", none, got)
		}
	}
}

// lookupMany looks up numbers of items around the sizes of batches.
func (s suite) lookupMany(t *testing.T) {
	l := s.make(t, 1)
	const n = 41_000
	var changes []ledger.Change
	var items []ledger.Item
	for i := range n {
		row := block(1, fmt.Sprintf("n%05d", i))
		items = append(items, ledger.Item{Kind: "block", Target: row.Target})
		if i%4 == 0 {
			changes = append(changes, add(row))
		}
	}
	record(t, l, changes...)
	for _, n := range []int{1, 2, 3, 5, 8, 9, 16, 17, 33, 63, 64, 65, 128, 1000, 20_000, 20_001, n} {
		rows, err := l.Lookup(t.Context(), ledger.LookupQuery{Hash: 1 << 60, Owner: "u1", Items: items[:n]})
		if err != nil || len(rows) != (n+3)/4 {
			t.Fatalf("%d of %d items found, %v, want %d", len(rows), n, err, (n+3)/4)
		}
		for i, row := range rows {
			if want := changes[i].Rows[0]; row != want {
				t.Fatalf("row %d is %v, want %v", i, row, want)
			}
		}
	}
}

// readInvalid reads without an owner, a kind, a target or a limit.
func (s suite) readInvalid(t *testing.T) {
	l, ctx := s.make(t, 16), t.Context()
	list := func(owner, kind string, limit int) error {
		_, err := l.List(ctx, ledger.ListQuery{Owner: owner, Kind: kind, Limit: limit})
		return err
	}
	count := func(owner, kind string, most int) error {
		_, err := l.Counts(ctx, ledger.CountQuery{Owner: owner, Kinds: []string{"block", kind}, Most: most})
		return err
	}
	listNaming := func(owner, kind string, limit int) error {
		_, _, err := l.ListNaming(ctx, ledger.ListQuery{Owner: owner, Kind: kind, Limit: limit})
		return err
	}
	owned := func(owner string, limit int) error { _, err := l.Owned(ctx, 0, owner, nil, limit); return err }
	named := func(target string, limit int) error { _, err := l.Naming(ctx, 0, target, nil, limit); return err }
	ended := func(limit int) error { _, err := l.Ended(ctx, at(0), limit); return err }
	_, all := l.All(ctx, nil, 0)
	for i, err := range []error{
		list("u", "block", 0), list("u", "block", -1), list("", "block", 1), list("u", "", 1), list("u\x00", "block", 1),
		listNaming("u", "block", 0), listNaming("", "block", 1), listNaming("u", "", 1),
		count("", "hide", 1), count("u", "\n", 1), count("u", "", 1), count("u", "hide", 0), owned("", 1), owned("u", 0), owned("u", -1),
		named("", 1), named("a", 0), named("a", -1), ended(0), ended(-1), all,
	} {
		if err == nil {
			t.Errorf("read %d: no error", i)
		}
	}
}

func (s suite) lookupInvalid(t *testing.T) {
	l := s.make(t, 16)
	valid := ledger.Item{Kind: "block", Target: "a"}
	for names, q := range map[string]ledger.LookupQuery{
		"owner":          {Owner: "", Items: []ledger.Item{valid}},
		"item 1: kind":   {Owner: "u", Items: []ledger.Item{valid, {Target: "a"}}},
		"item 1: target": {Owner: "u", Items: []ledger.Item{valid, {Kind: "block", Target: "a\xff"}}},
		"item 0: target": {Owner: "u", Items: []ledger.Item{{Kind: "block", Target: strings.Repeat("x", 257)}, valid}},
	} {
		if rows, err := l.Lookup(t.Context(), q); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%+v: %v, %v, want an error naming %s", q, rows, err, names)
		}
	}
}

// counted counts the rows of an owner, of each kind, up to a number, and compares the counts with
// the model.
func counted(t tester, l *ledger.Ledger, m *model, of ledger.Row, now time.Time, most int) {
	t.Helper()
	kinds := []string{"block", "hide", "mute", "block-by", "like"}
	q := ledger.CountQuery{Hash: of.Hash, Owner: of.Owner, Kinds: kinds, Now: now, Most: most}
	counts, err := l.Counts(context.Background(), q)
	if err != nil || len(counts) != len(kinds) {
		t.Fatalf("Counts: %v, %v, want %d kinds", counts, err, len(kinds))
	}
	for _, kind := range kinds {
		of.Kind = kind
		if want := min(most, m.count(of, now)); counts[kind] != want {
			t.Fatalf("%s has %d rows of kind %s at %v, want %d", of.Owner, counts[kind], kind, now, want)
		}
	}
	q.Kinds = kinds[1:2]
	if one, err := l.Counts(context.Background(), q); err != nil || len(one) != 1 || one[kinds[1]] != counts[kinds[1]] {
		t.Fatalf("Counts: %v, %v, want %d of kind %s alone", one, err, counts[kinds[1]], kinds[1])
	}
}

// count counts rows with ends at all times.
func (s suite) count(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	mine := block(3, "")
	twin, nobody := mine, block(5, "")
	twin.Hash++
	counted(t, l, m, mine, at(0), 100)
	recordAt(t, l, m, at(-1), ownedRows()...)
	for now := int64(-1); now < 10; now++ {
		for _, of := range []ledger.Row{mine, twin, nobody} {
			for most := 1; most < 12; most += 5 {
				counted(t, l, m, of, at(now), most)
			}
		}
		counted(t, l, m, mine, at(now).Add(999), 100) // less than a microsecond later
	}
	recordAt(t, l, m, at(5), remove(block(3, "t0"), block(3, "t39")), remove(block(3, "t12")))
	counted(t, l, m, mine, at(5), 100)
}

// owned reads an owner's rows after an item, and compares them with the model.
func owned(t tester, l *ledger.Ledger, m *model, of ledger.Row, after ledger.Item, limit int) []ledger.Row {
	t.Helper()
	got, err := l.Owned(context.Background(), of.Hash, of.Owner, &ledger.Row{Kind: after.Kind, Target: after.Target}, limit)
	if err != nil {
		t.Fatalf("Owned: %v", err)
	}
	if want := m.owned(of.Hash, of.Owner, after, limit); !slices.Equal(got, want) {
		t.Fatalf("%d rows of %s after %v: %v, want %v", limit, of.Owner, after, got, want)
	}
	return got
}

// owned reads an owner's rows in steps of all sizes, and starts at items without a row.
func (s suite) owned(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(-1), ownedRows()...)
	mine := block(3, "")
	for limit := 1; limit <= 45; limit++ {
		var after *ledger.Row
		seen := 0
		for {
			got, err := l.Owned(t.Context(), mine.Hash, mine.Owner, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			var from ledger.Item
			if after != nil {
				from = ledger.Item{Kind: after.Kind, Target: after.Target}
			}
			if want := m.owned(mine.Hash, mine.Owner, from, limit); !slices.Equal(got, want) {
				t.Fatalf("%d rows after %v: %v, want %v", limit, after, got, want)
			}
			seen += len(got)
			if len(got) < limit {
				break
			}
			after = &got[limit-1]
		}
		if seen != 40 {
			t.Errorf("%d rows in steps of %d, want 40", seen, limit)
		}
	}
	for _, after := range []ledger.Item{{}, {Kind: "block"}, {Kind: "block", Target: "t15"}, {Kind: "c", Target: "zzz"}, {Kind: "z"}} {
		owned(t, l, m, mine, after, 7)
	}
	for _, kind := range []string{"a", "block", "block-by", "hide"} {
		after := ledger.AfterKind(kind)
		for _, row := range owned(t, l, m, mine, ledger.Item{Kind: after.Kind, Target: after.Target}, 45) {
			if row.Kind <= kind {
				t.Errorf("after all rows of kind %q comes %v", kind, row)
			}
		}
	}
	if rows := owned(t, l, m, block(5, ""), ledger.Item{}, 7); len(rows) != 0 {
		t.Errorf("an owner without rows has %v", rows)
	}
}

// named reads rows that name a user, and compares them with the model.
func named(t tester, l *ledger.Ledger, m *model, target string, limit int) []ledger.Row {
	t.Helper()
	got, err := l.Naming(context.Background(), hashOf(target), target, nil, limit)
	if err != nil {
		t.Fatalf("Naming: %v", err)
	}
	if want := m.naming(hashOf(target), target, limit); !slices.Equal(got, want) {
		t.Fatalf("%d rows that name %q: %v, want %v", limit, target, got, want)
	}
	for _, kind := range []string{"mute", "report", "block"} {
		namedBy(t, l, m, ledger.ListQuery{Hash: hashOf(target), Owner: target, Kind: kind, Limit: limit, Now: at(15)})
	}
	return got
}

// namedBy lists rows of one kind that name a user, in steps, and compares them with the model.
func namedBy(t tester, l *ledger.Ledger, m *model, q ledger.ListQuery) {
	t.Helper()
	want := slices.DeleteFunc(m.naming(q.Hash, q.Owner, math.MaxInt), func(r ledger.Row) bool {
		return r.Kind != q.Kind || !r.Until.IsZero() && !r.Until.After(q.Now)
	})
	var all []ledger.Row
	for {
		got, rest, err := l.ListNaming(context.Background(), q)
		if err != nil || len(got) > q.Limit {
			t.Fatalf("list %+v: %d rows, %v", q, len(got), err)
		}
		all = append(all, got...)
		switch {
		case len(got) == q.Limit:
			q.Before = &got[q.Limit-1]
			continue
		case rest != nil:
			q.Before = rest
			continue
		}
		break
	}
	if !slices.Equal(all, want) {
		t.Fatalf("list %+v is %v, want %v", q, all, want)
	}
}

// namingMany lists rows of a kind among very many of another kind that name the same user.
func (s suite) namingMany(t *testing.T) {
	l := s.make(t, 1)
	const others, every = 2*ledger.MaxLooked + 1, 4000
	m := newModel(l.Identity())
	var changes []ledger.Change
	for i := range others {
		row := mute(1, "a")
		row.Owner, row.Hash = fmt.Sprintf("n%05d", i), uint64(i)
		changes = append(changes, add(row))
		if i%every == 0 {
			row.Kind = "report"
			changes = append(changes, add(row))
		}
	}
	recordAt(t, l, m, at(0), changes...)
	for _, limit := range []int{1, 2, 100} {
		q := ledger.ListQuery{Hash: hashOf("a"), Owner: "a", Kind: "report", Limit: limit, Now: at(1)}
		namedBy(t, l, m, q)
		q.Kind = "like"
		parts := 0
		for more := true; more; parts++ {
			rows, rest, err := l.ListNaming(t.Context(), q)
			if err != nil || len(rows) > 0 {
				t.Fatalf("rows of a kind that nobody has: %v, %v", rows, err)
			}
			more, q.Before = rest != nil, rest
		}
		if want := len(changes)/ledger.MaxLooked + 1; parts != want {
			t.Errorf("%d rows that name a user were looked at in %d parts, want %d", len(changes), parts, want)
		}
	}
}

// mute returns a row of user number owner that names a user.
func mute(owner int, target string) ledger.Row {
	row := block(owner, target)
	row.Kind, row.Names, row.TargetHash = "mute", true, hashOf(target)
	return row
}

// naming reads rows that name users, among them the users with the lowest and the highest hash. It
// must not return rows with the same target that name no user.
func (s suite) naming(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	stranger := mute(2, "a")
	stranger.TargetHash = 7
	report := mute(9, "a")
	report.Kind = "report"
	ends := until(mute(7, "a"), at(10))
	changes := []ledger.Change{add(block(1, "a"), block(1, "b")), add(stranger), add(report), add(ends)}
	for owner := range 16 {
		changes = append(changes, add(mute(owner, "b"), mute(owner, "c")))
	}
	recordAt(t, l, m, at(0), changes...)
	for _, target := range []string{"a", "b", "c", "d"} {
		for _, limit := range []int{1, 2, 15, 16, 100} {
			named(t, l, m, target, limit)
		}
	}
	if rows := named(t, l, m, "a", 100); len(rows) != 2 {
		t.Errorf("%v name a, want those of u7 and u9", rows)
	}
	// Rows still name their user after their end is moved, and after they are recorded again after
	// their end.
	for _, now := range []int64{5, 30} {
		recordAt(t, l, m, at(now), add(until(ends, at(20))))
		named(t, l, m, "a", 100)
	}
	// A row that names no user names one once it is recorded with another end.
	row := mute(11, "a")
	row.Names = false
	recordAt(t, l, m, at(30), add(row))
	named(t, l, m, "a", 100)
	recordAt(t, l, m, at(30), add(until(mute(11, "a"), at(40))))
	named(t, l, m, "a", 100)
	// Remove them step by step, which alters their owners' pages.
	for rows := named(t, l, m, "b", 5); len(rows) > 0; rows = named(t, l, m, "b", 5) {
		recordAt(t, l, m, at(0), remove(rows...))
	}
	m.check(t, l)
}

// checkAll reads all rows, in steps.
func checkAll(t *testing.T, l *ledger.Ledger, rows []ledger.Row, limit int) {
	t.Helper()
	var got []ledger.Row
	for after := (*ledger.Row)(nil); ; after = &got[len(got)-1] {
		some, err := l.All(t.Context(), after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, some...); len(some) < limit {
			break
		}
	}
	if !slices.Equal(got, rows) {
		t.Errorf("%d at a time: %d of %d rows", limit, len(got), len(rows))
	}
}

// all reads the rows of all users in steps of all sizes, also of the users with the lowest and
// the highest hash. It starts after rows that do not exist.
func (s suite) all(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	checkAll(t, l, nil, 1)
	changes := append(ownedRows(), add(block(0, "a"), block(0, "b"), block(15, "a"), block(8, "a")))
	recordAt(t, l, m, at(-1), changes...)
	dedicated(t, l, m, block(3, "").Hash)
	m.check(t, l) // the page has all owners of that hash, and none of the next one
	every := m.rowsOf(func(uint64) bool { return true })
	for limit := 1; limit <= len(every)+1; limit += 1 + limit/8 {
		checkAll(t, l, every, limit)
	}
	for _, after := range []ledger.Row{
		{}, {Hash: 3 << 60}, {Hash: 3 << 60, Owner: "u3", Kind: "c"}, {Hash: 3<<60 + 1, Owner: "u3", Kind: "hide", Target: "t1x"},
		{Hash: math.MaxUint64, Owner: "u15", Kind: "block", Target: "a"},
	} {
		want := slices.DeleteFunc(slices.Clone(every), func(r ledger.Row) bool { return compareRows(r, after) <= 0 })
		want = want[:min(5, len(want))]
		if got, err := l.All(t.Context(), &after, 5); err != nil || !slices.Equal(got, want) {
			t.Errorf("after %v: %v, %v, want %v", after, got, err, want)
		}
	}
}
