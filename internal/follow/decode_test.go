package follow

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Messages of PostgreSQL 15, in hexadecimal. The column note is not mapped, and in some rows so
// long that it is stored apart.
const (
	beginMessage = "42 000000000153524800030463 75901cae000002da"
	// Table public.blocks (blocker, blocked, created_at, note), REPLICA IDENTITY FULL.
	blocksMessage = "52 00004000 7075626c696300 626c6f636b7300 66 0004" +
		"01 626c6f636b657200 00000014ffffffff 01 626c6f636b656400 00000014ffffffff" +
		"01 637265617465645f617400 000004a0ffffffff 01 6e6f746500 00000019ffffffff"
	// Table public.hides (viewer, post, note), with the primary key (viewer, post).
	hidesMessage = "52 00004005 7075626c696300 686964657300 64 0003" +
		"01 76696577657200 00000017ffffffff 01 706f737400 00000019ffffffff 00 6e6f746500 00000019ffffffff"
	commitMessage = "43 00 0000000001535248 0000000001535488 000304637590 1cae"

	created = "74 00000018 323032362d30312d30322030333a30343a30352e352b3030" // 2026-01-02 03:04:05.5+00
)

// col returns a column of a message: its text, "null", or "toast", which is one that did not
// change, and whose value is stored apart.
func col(text string) string {
	switch text {
	case "null":
		return "6e"
	case "toast":
		return "75"
	default:
		return fmt.Sprintf("74 %08x %x", len(text), text)
	}
}

// done returns what changes do, such as "+block 1 2 since".
func done(changes []activity.SourceChange) string {
	var all []string
	for _, c := range changes {
		for i, spans := range [][]ledger.Span{c.Removed, c.Added} {
			for _, s := range spans {
				text := string("-+"[i]) + strings.Join([]string{c.Kind, c.User, c.Target}, " ")
				if !s.Since.IsZero() {
					text += s.Since.Format(" 15:04:05.0")
				}
				all = append(all, text)
			}
		}
	}
	return strings.Join(all, ", ")
}

// TestDecode decodes messages as PostgreSQL sends them, without a server.
func TestDecode(t *testing.T) {
	t.Parallel()
	kinds := activity.BuiltinKinds()
	tables, err := ParseTables([]byte(`{"tables": [
		{"table": "blocks", "kind": "block", "user": "blocker", "target": "blocked", "since": "created_at"},
		{"table": "hides", "kind": "hide", "user": "viewer", "target": "post"}]}`), kinds)
	must(t, err)
	roots := map[uint32]string{0x4000: "public.blocks", 0x4005: "public.hides"}
	block := func(blocked, note string) string {
		return "0004 " + col("1") + col(blocked) + created + col(note)
	}
	hide := func(post, note string) string { return "0003 " + col("7") + col(post) + col(note) }
	toOther := hidesMessage[:3] + "00004009" + hidesMessage[11:]
	for _, c := range []struct {
		name     string
		messages []string
		want     string // of the last message
		err      error
	}{
		{"an insert", []string{blocksMessage, "49 00004000 4e " + block("2", "null")}, "+block 1 2 03:04:05.5", nil},
		{
			"an update of a mapped column", []string{blocksMessage, "55 00004000 4f " + block("2", "null") + "4e " + block("3", "null")},
			"-block 1 2 03:04:05.5, +block 1 3 03:04:05.5", nil,
		},
		{
			"an update of a row with a value stored apart",
			[]string{blocksMessage, "55 00004000 4f " + block("3", "xx") + "4e " + block("4", "toast")},
			"-block 1 3 03:04:05.5, +block 1 4 03:04:05.5", nil,
		},
		{
			"an update of a mapped value stored apart", // the new row has it from the old one
			[]string{blocksMessage, "55 00004000 4f " + block("3", "xx") + "4e " + block("toast", "null")}, "", nil,
		},
		{"an update of another column", []string{blocksMessage, "55 00004000 4f " + block("2", "null") + "4e " + block("2", "x")}, "", nil},
		{"a delete", []string{blocksMessage, "44 00004000 4f " + block("4", "xx")}, "-block 1 4 03:04:05.5", nil},
		{"an insert without a target", []string{blocksMessage, "49 00004000 4e " + block("null", "null")}, "", nil},
		{"an insert with a key", []string{hidesMessage, "49 00004005 4e " + hide("p", "xx")}, "+hide 7 p", nil},
		{"an update that keeps the key", []string{hidesMessage, "55 00004005 4e " + hide("p", "y")}, "", nil},
		{"an update of the key", []string{hidesMessage, "55 00004005 4b " + hide("p", "null") + "4e " + hide("q", "toast")}, "-hide 7 p, +hide 7 q", nil},
		{"a delete by the key", []string{hidesMessage, "44 00004005 4b " + hide("p", "null")}, "-hide 7 p", nil},
		{"the end of a transaction", []string{commitMessage}, "", nil},
		{"a truncated table", []string{blocksMessage, hidesMessage, "54 00000002 00 00004000 00004005"}, "", errLacks},
		{"a truncated table that nobody described", []string{hidesMessage, "54 00000001 00 00004000"}, "", nil},
		{"a row that is not valid", []string{blocksMessage, "49 00004000 4e 0004 " + col("1") + col("1") + created + col("null")}, "", new(rowError)},
		{
			"a row that is not valid any more", []string{blocksMessage, "55 00004000 4f " + block("2", "null") + "4e " + block("1", "null")},
			"-block 1 2 03:04:05.5", new(rowError),
		},
		{"another table of the name", []string{toOther}, "", errAltered},
		{"another name of the table", []string{strings.Replace(hidesMessage, "6869646573", "6869646574", 1)}, "", errAltered},
		{"a table without a mapped column", []string{strings.Replace(hidesMessage, "706f737400", "706f737500", 1)}, "", errAltered},
		{"a mapped column that is not in the identity", []string{strings.Replace(hidesMessage, "01 706f73", "00 706f73", 1)}, "", errAltered},
		{
			"a partition with a key below a root with the whole row",
			[]string{blocksMessage, "44 00004000 4b 0004 " + col("1") + col("null") + col("null") + col("null")}, "", errAltered,
		},
	} {
		d := newDecoder(newMapper(tables, kinds), newFigures(tables).changes, roots)
		var changes []activity.SourceChange
		var err error
		for n, text := range append([]string{beginMessage}, c.messages...) {
			data, failed := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
			must(t, failed)
			m, failed := pglogrepl.Parse(data)
			must(t, failed)
			if changes, err = d.decode(m); err != nil && n < len(c.messages) {
				t.Fatalf("%s: message %d: %v", c.name, n, err)
			}
		}
		_, invalid := errors.AsType[*rowError](err)
		_, wantInvalid := errors.AsType[*rowError](c.err)
		if got := done(changes); got != c.want || invalid != wantInvalid || !wantInvalid && !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
		for _, change := range changes {
			if want := time.Date(2026, 11, 29, 6, 49, 10, 784174000, time.UTC); !change.At.Equal(want) {
				t.Errorf("%s: at %v, want %v, when the transaction commits", c.name, change.At, want)
			}
		}
	}
}
