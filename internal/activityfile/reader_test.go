package activityfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
)

// line is a valid or invalid line that a reader finds in a file.
type line struct {
	activity activity.Activity
	problem  string
	number   int64
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readAll reads the rest of the file after c, in batches. It returns the lines, the checkpoint
// after each batch, and the number of lines up to each checkpoint.
func readAll(t testing.TB, name string, c Checkpoint, size int) (lines []line, ends []Checkpoint, counts []int) {
	t.Helper()
	s, err := Open(name, "", nil)
	must(t, err)
	defer s.Close()
	r, err := NewReader(s, activity.BuiltinKinds().Check, c)
	if err != nil {
		t.Fatalf("at %+v: %v", c.Position, err)
	}
	for {
		b := r.Batch(size, false)
		if b.Err != nil && len(b.Bad) == 0 { // otherwise the last problem is fatal
			t.Fatal(b.Err)
		}
		for _, a := range b.Activities {
			lines = append(lines, line{activity: a})
		}
		for _, bad := range b.Bad {
			var problem *LineError
			if !errors.As(bad, &problem) {
				t.Fatalf("problem %v names no line", bad)
			}
			lines = append(lines, line{problem: problem.Err.Error(), number: problem.Line})
		}
		if b.SHA256 != nil {
			ends = append(ends, Checkpoint{Position: b.End, SHA256: b.SHA256, Format: s.Format, Columns: b.Columns})
			counts = append(counts, len(lines))
			if b.Err != nil {
				counts[len(counts)-1]-- // the fatal line comes after the checkpoint
			}
		}
		if b.Last {
			return lines, ends, counts
		}
	}
}

// Reading can stop after any batch and continue there, with any content.
func TestReaderContinues(t *testing.T) {
	long := strings.Repeat("x", maxRecord)
	pool := []string{
		"1,hide,p1\n", "1,hide,p2\r\n", `"1","block","2",remove` + "\n", "\n", "\r\n", "op,target,user,kind\n", "user,kind,target\n",
		"1,hide,\"p\n3\",add\n", "1,hide,\"p4\n", "1,nope,p5\n", "1,hide\n", "1,hide,p6,\n", long + "\n", long[1:] + "\n", "\"" + long + "\n",
	}
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SampledFrom([]string{"", "\ufeff"}).Draw(rt, "mark") +
			strings.Join(rapid.SliceOfN(rapid.SampledFrom(pool), 0, 20).Draw(rt, "lines"), "") +
			rapid.SampledFrom([]string{"", "1,hide,p7", "1,hide,\"p8", "\r"}).Draw(rt, "end")
		size := rapid.IntRange(1, 5).Draw(rt, "batch")
		name := filepath.Join(dir, "file.csv")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			rt.Fatal(err)
		}
		lines, ends, counts := readAll(t, name, Checkpoint{}, 1)
		for i, c := range ends {
			before := text[:c.Position.Offset]
			if sum := sha256.Sum256([]byte(before)); !bytes.Equal(sum[:], c.SHA256) {
				rt.Fatalf("checkpoint %d: the hash is not that of the first %d bytes", i, len(before))
			}
			if want := int64(strings.Count(before, "\n") + 1); c.Position.Line != want {
				rt.Fatalf("checkpoint %d at byte %d: line %d, want %d", i, len(before), c.Position.Line, want)
			}
			rest, _, _ := readAll(t, name, c, size)
			want := slices.Clone(lines[counts[i]:])
			if !slices.Equal(sorted(rest), sorted(want)) {
				rt.Fatalf("checkpoint %d at byte %d: read %+v, want %+v", i, len(before), rest, want)
			}
		}
	})
}

// sorted orders lines independently of their batches: first activities in their order, then
// problems by line number.
func sorted(lines []line) []line {
	slices.SortStableFunc(lines, func(a, b line) int { return int(a.number - b.number) })
	return lines
}

func TestReaderLineLengths(t *testing.T) {
	const start = `{"user":"1","kind":"hide","target":"p"}`
	for _, c := range []struct {
		name   string
		length int // without the line's end
		end    string
		good   bool
	}{
		{"longest", maxRecord - 1, "\n", true},
		{"longest without an end", maxRecord - 1, "", true},
		{"too long by one", maxRecord, "\n", false},
		{"too long by one, without an end", maxRecord, "", false},
		{"too long for two buffers", 2*maxRecord + 1, "\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := start + strings.Repeat(" ", c.length-len(start)) + c.end
			if c.end != "" {
				text += start
			}
			name := filepath.Join(t.TempDir(), "file.ndjson")
			must(t, os.WriteFile(name, []byte(text), 0o600))
			lines, _, _ := readAll(t, name, Checkpoint{}, 1)
			if good := lines[0].problem == ""; good != c.good {
				t.Errorf("line of %d bytes: %+v, want good: %t", c.length, lines[0], c.good)
			}
			if c.end != "" && (len(lines) != 2 || lines[1].problem != "") {
				t.Errorf("the line after it was not read: %d lines", len(lines))
			}
		})
	}
}

// An unbalanced quote invalidates only its line.
func TestReaderUnclosedQuote(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file.csv")
	text := "1,hide,o\n1,hide,\"p\n\"," + strings.Repeat("x", maxRecord) + "\n1,hide,p\n"
	must(t, os.WriteFile(name, []byte(text), 0o600))
	lines, _, _ := readAll(t, name, Checkpoint{}, 1)
	want := []line{
		{activity: activity.Activity{User: "1", Kind: "hide", Target: "o"}},
		{problem: "extraneous or missing \" in quoted-field", number: 2},
		{problem: "the line is longer than 65535 bytes", number: 3},
		{activity: activity.Activity{User: "1", Kind: "hide", Target: "p"}},
	}
	if !slices.Equal(lines, want) {
		t.Errorf("read %+v, want %+v", lines, want)
	}
}
