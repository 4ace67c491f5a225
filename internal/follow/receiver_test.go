package follow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// database is one whose changes Debezium sends: a table of rows of user and post, and the log.
type database struct {
	form string
	// keyless: rows have no key, so that equal ones may be there.
	keyless bool
	rows    map[int]string // by number, which keyless rows do not have
	next    int            // number

	millis       int64
	file         int
	pos, commit  int
	transactions [2]int // numbers of the members of a group

	log     []sent
	started int // the event at which Debezium started last
}

// sent is an event: its transaction, and its JSON but for its order.
type sent struct {
	transaction int
	event       string
}

func newDatabase(form string) *database {
	return &database{form: form, keyless: form == "copies", rows: make(map[int]string), millis: testTime * 1000, file: 1, pos: 4}
}

func (o *database) isPostgres() bool { return o.form == "postgres" || o.form == "copies" }

// row returns the JSON of a row with a number.
func (o *database) row(rt *rapid.T, number int) string {
	if o.keyless {
		number = 0
	}
	user, post := rapid.IntRange(1, 2).Draw(rt, "user"), rapid.IntRange(3, 4).Draw(rt, "post")
	return fmt.Sprintf(`{"id":%d,"user_id":%d,"post_id":"%d","ends":null,"gone":false}`, number, user, post)
}

// envelope returns an event. ORDER stands for its order.
func (o *database) envelope(op, before, after, source string) string {
	if before == "" {
		before = "null"
	}
	if after == "" {
		after = "null"
	}
	return fmt.Sprintf(`{"op":%q,"before":%s,"after":%s,"source":{"ts_ms":%d,%s},"transaction":ORDER}`, op, before, after, o.millis, source)
}

// transact makes a transaction of a few changes of the rows.
func (o *database) transact(rt *rapid.T) {
	o.millis += 1000
	number := 1
	if len(o.log) > 0 {
		number = o.log[len(o.log)-1].transaction + 1
	}
	if rapid.IntRange(0, 4).Draw(rt, "rotates") == 0 && !o.isPostgres() {
		o.file, o.pos = o.file+1, 4
	}
	member := rapid.IntRange(0, 1).Draw(rt, "member")
	o.transactions[member] += rapid.IntRange(1, 5).Draw(rt, "others")
	commit, last := o.commit, ""
	o.pos += 10
	for range rapid.IntRange(1, 4).Draw(rt, "changes") {
		if !strings.Contains(o.form, "compressed") && (o.form != "copies" || last != "c" || rapid.Bool().Draw(rt, "record")) {
			o.pos += 10
		}
		op, before, after := o.change(rt)
		last = op
		source := fmt.Sprintf(`"schema":"shop","table":"hides","lsn":%d,"txId":%d,"sequence":"[\"%d\",\"%d\"]"`, o.pos, number, commit, o.pos)
		if !o.isPostgres() {
			source = fmt.Sprintf(`"db":"shop","table":"hides","file":"bin.%06d","pos":%d,"row":0%s`, o.file, o.pos, o.gtid(member))
		}
		o.log = append(o.log, sent{number, o.envelope(op, before, after, source)})
	}
	o.pos += 10
	o.commit = o.pos
}

// gtid returns the member of source for a transaction of a member of the group.
func (o *database) gtid(member int) string {
	switch o.form {
	case "gtids", "compressed":
		return fmt.Sprintf(`,"gtid":"%s:%d"`, mysqlServer, o.transactions[0]+o.transactions[1])
	case "group":
		return fmt.Sprintf(`,"gtid":"%s:%d"`, mysqlServer, 1_000_000*member+o.transactions[member])
	default:
		return ""
	}
}

// change changes a row. Of copies, only inserts may be at the place of an insert.
func (o *database) change(rt *rapid.T) (op, before, after string) {
	number := rapid.IntRange(1, 3).Draw(rt, "number")
	if o.keyless && !rapid.Bool().Draw(rt, "anything") {
		o.next++
		number = 100 + o.next
	}
	was, found := o.rows[number]
	switch {
	case !found:
		o.rows[number] = o.row(rt, number)
		return "c", "", o.rows[number]
	case o.keyless:
		o.pos += 10
	}
	if rapid.Bool().Draw(rt, "deletes") {
		delete(o.rows, number)
		return "d", was, ""
	}
	o.rows[number] = o.row(rt, number)
	return "u", was, o.rows[number]
}

// snapshot returns the rows as events.
func (o *database) snapshot() (all []string) {
	o.millis += 1000
	o.pos += 10
	o.commit = o.pos
	source := fmt.Sprintf(`"schema":"shop","table":"%%s","snapshot":"%%s","lsn":%d,"sequence":"[null,\"%d\"]"`, o.pos, o.pos)
	if !o.isPostgres() {
		source = fmt.Sprintf(`"db":"shop","table":"%%s","snapshot":"%%s","file":"bin.%06d","pos":%d,"row":0`, o.file, o.pos)
	}
	for _, row := range o.rows {
		all = append(all, o.envelope("r", "", row, fmt.Sprintf(source, "hides", "true")))
	}
	return append(all, o.envelope("r", "", `{"id":1}`, fmt.Sprintf(source, "posts", "last")))
}

// begins makes the log begin again, as RESET MASTER does, or a server that was restored elsewhere.
func (o *database) begins() {
	o.file, o.pos, o.commit, o.transactions = 1, 4, 0, [2]int{}
}

// has returns what the rows give, as [sink.has] does.
func (o *database) has() (all []string) {
	for _, row := range o.rows {
		var id, user, post int
		if _, err := fmt.Sscanf(row, `{"id":%d,"user_id":%d,"post_id":"%d"`, &id, &user, &post); err != nil {
			panic(err)
		}
		all = append(all, fmt.Sprintf("hide %d %d", user, post))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// events returns events from one on, as Debezium sends them. If it starts within a transaction, it
// counts from there, and does not start before that again.
func (o *database) events(from, to int, starts bool) (all []string) {
	order, last := 0, 0
	if starts {
		o.started = max(o.started, from)
	}
	begin := from
	for begin > 0 && begin != o.started && o.log[begin-1].transaction == o.log[from].transaction {
		begin--
	}
	for n := begin; n < to; n++ {
		order++
		if o.log[n].transaction != last {
			order, last = 1, o.log[n].transaction
		}
		text := "null"
		if o.form == "copies" || o.form == "compressed" {
			text = fmt.Sprintf(`{"id":"x","total_order":%d,"data_collection_order":1}`, order)
		}
		if n >= from {
			all = append(all, strings.Replace(o.log[n].event, "ORDER", text, 1))
		}
	}
	return all
}

// TestEventsEndInTheModel: however often events are sent again, from any of them on, the ledger has
// what the rows give, or the event is refused. Late rows of old snapshots come between them. Only
// events of a log that began again are refused, or those of a form that cannot be told. It takes
// some forms; TestLongEventsEndInTheModel takes all.
func TestEventsEndInTheModel(t *testing.T) { endInTheModel(t, oneIn(3)) }

func TestLongEventsEndInTheModel(t *testing.T) { endInTheModel(t, orShort(oneIn(3))) }

func endInTheModel(t *testing.T, take func() bool) {
	t.Helper()
	for _, form := range []string{"postgres", "copies", "files", "gtids", "group", "compressed", "anonymous and compressed"} {
		if !take() {
			continue
		}
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := newSink(t)
			base := int64(0)
			rapid.Check(t, func(rt *rapid.T) {
				o := newDatabase(form)
				o.millis += base
				defer func() { base = o.millis - testTime*1000 }()
				var late []string     // rows of snapshots
				var recorded []string // events of the log
				done, first := 0, 0
				resets := false
				readAgain := func() {
					rows := o.snapshot()
					for n := range rows {
						rows[n] = strings.Replace(rows[n], "ORDER", "null", 1)
					}
					_, err := s.send(rt, rows...)
					sound(rt, err)
					late = append(late, rows...)
					done, first, resets = len(o.log), len(o.log), false
				}
				readAgain()
				for range rapid.IntRange(1, 8).Draw(rt, "steps") {
					switch rapid.IntRange(0, 5).Draw(rt, "step") {
					case 0:
						if n := rapid.IntRange(0, len(late)-1).Draw(rt, "late"); true {
							got, err := s.send(rt, late[n])
							if err != nil || got.Recorded > 0 {
								rt.Fatalf("a late row of a snapshot: %+v, %v", got, err)
							}
						}
						continue
					case 1:
						if !o.keyless && done == len(o.log) && rapid.IntRange(0, 2).Draw(rt, "begins again") == 0 {
							o.begins()
							resets = true
						}
						continue
					case 2:
						if len(recorded) > 0 {
							n := rapid.IntRange(0, len(recorded)-1).Draw(rt, "late event")
							got, err := s.send(rt, recorded[n])
							if unsure := strings.Contains(form, "compressed"); err != nil && !unsure || got.Recorded > 0 {
								rt.Fatalf("a late event: %+v, %v; position %s", got, err, s.position(rt))
							}
						}
						continue
					default:
						o.transact(rt)
					}
					from := rapid.IntRange(max(first, o.started), done).Draw(rt, "from")
					to := rapid.IntRange(max(from+1, done), len(o.log)).Draw(rt, "to")
					starts := !o.keyless && rapid.Bool().Draw(rt, "starts")
					events := o.events(from, to, starts)
					_, err := s.send(rt, events...)
					if bad, ok := errors.AsType[*activity.InvalidError](err); ok {
						mayRefuse := resets || strings.Contains(form, "compressed")
						if !mayRefuse || bad.Code != CodeSnapshotNeeded && bad.Code != activity.CodeInvalidPosition {
							rt.Fatalf("events %d to %d of %d, %d sent before: %v; position %s", from, to, len(o.log), done, err, s.position(rt))
						}
						readAgain()
					} else {
						sound(rt, err)
						done = max(done, to)
						recorded = append(recorded, events...)
					}
					if got, want := s.has(rt), o.has(); done == len(o.log) && !slices.Equal(got, want) {
						rt.Fatalf("has %q, want %q of %v; position %s", got, want, o.rows, s.position(rt))
					}
				}
			})
		})
	}
}

// TestLateSnapshotEvents: a row of a snapshot that has ended begins no new snapshot, which would
// remove all that it lacks, and brings nothing back. So does one of a snapshot that was
// interrupted.
func TestLateSnapshotEvents(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	read := func(lsn, id int, user any) string { return pg("r", "blocks", 0, lsn, "", blockRow(id, user, 50)) }
	early := pg("c", "blocks", 80, 90, "", blockRow(8, 8, 50))
	s.want(t, recorded(1), early)
	interrupted := []string{read(100, 1, 1), read(100, 7, 7)}
	s.want(t, recorded(2), interrupted...)
	first := []string{read(200, 1, 1), read(200, 2, 2)}
	s.want(t, recorded(2), first...)
	s.want(t, replayed(2), interrupted...)
	s.want(t, replayed(1), early) // it ends no snapshot
	s.want(t, recorded(1), marked("last", read(200, 3, 3)))
	s.wantHas(t, "block 1 50", "block 2 50", "block 3 50")
	s.want(t, recorded(2), pg("d", "blocks", 300, 310, blockRow(1, 1, 50), ""), pg("c", "blocks", 300, 320, "", blockRow(4, 4, 50)))
	for _, late := range [][]string{first, {marked("last", read(200, 3, 3))}, interrupted} {
		s.want(t, replayed(len(late)), late...)
		s.wantHas(t, "block 2 50", "block 3 50", "block 4 50")
	}
	s.want(t, recorded(1), pg("d", "blocks", 300, 330, blockRow(2, 2, 50), ""))
	s.wantHas(t, "block 3 50", "block 4 50")
	if n := s.Stats().Snapshots; n != 1 {
		t.Errorf("%d snapshots, want 1", n)
	}

	// A log that began again may have a snapshot at the same place.
	later := strings.NewReplacer("1714000000000", "1714000999000")
	s.want(t, recorded(1), later.Replace(marked("last", read(200, 9, 9))))
	s.wantHas(t, "block 9 50")
	s.want(t, recorded(1), later.Replace(pg("c", "blocks", 200, 210, "", blockRow(10, 10, 50))))
	s.want(t, replayed(2), first...)
	s.wantHas(t, "block 10 50", "block 9 50")
}

// TestEqualRowsOfACopy: two equal rows are two, so the activity ends with the second. Their orders
// tell them from one that is sent twice.
func TestEqualRowsOfACopy(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	row := block(1, 2)
	at := func(order int, event string) string {
		return strings.Replace(event, `"transaction":null`, fmt.Sprintf(`"transaction":{"id":"555","total_order":%d,"data_collection_order":1}`, order), 1)
	}
	copied := pg("c", "blocks", 100, 110, "", row)
	s.want(t, recorded(2), at(1, copied), at(2, copied))
	s.want(t, replayed(2), at(1, copied), at(2, copied))
	s.want(t, replayed(1), at(2, copied))
	s.want(t, recorded(1), at(3, copied))
	for n := range 3 {
		s.wantHas(t, "block 1 2")
		s.want(t, recorded(1), pg("d", "blocks", 120, 130+n, row, ""))
	}
	s.wantHas(t)

	// Without orders, an event that is sent again is one, and two of a request may be either.
	s.want(t, recorded(1), pg("c", "blocks", 200, 210, "", row))
	s.want(t, replayed(1), pg("c", "blocks", 200, 210, "", row))
	next := pg("c", "blocks", 300, 310, "", row)
	s.refuses(t, activity.CodeInvalidPosition, "provide.transaction.metadata=true", next, next)
}

// TestPositionsOfOlderVersions: a position of 0.2.0 does not say enough.
func TestPositionsOfOlderVersions(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	s.want(t, recorded(1), pg("c", "blocks", 100, 110, "", block(1, 2)))
	src, err := s.recorder.Follow(t.Context(), "app", "events", s.mapper.tables.Kinds(), 0, false)
	must(t, err)
	old := ledger.Position(`{"tables":"` + s.fingerprint + `","last":{"txn":100,"at":110},"events":[7]}`)
	must(t, src.Record(t.Context(), old, nil))
	next := pg("c", "blocks", 120, 130, "", block(3, 4))
	s.refuses(t, CodeSnapshotNeeded, "not one of events of this version: take a new snapshot", next)
	s.want(t, recorded(2), marked("last", pg("r", "blocks", 0, 125, "", block(1, 5))), next)
	s.wantHas(t, "block 1 5", "block 3 4")
}
