package pagefile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isPart(id favfilter.PageID) bool { return id.Part != "" }

// checkValue takes a value that ends in "bad" for damaged.
func checkValue(value []byte) error {
	if bytes.HasSuffix(value, []byte("bad")) {
		return favfilter.ErrDamaged
	}
	return nil
}

// journal is a log that tests read.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(p) {
		var entry struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return 0, err
		}
		j.lines = append(j.lines, entry.Level+" "+entry.Msg)
	}
	return len(p), nil
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// want fails the test unless exactly these lines were logged.
func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, lines) {
		t.Errorf("logged %q, want %q", j.lines, lines)
	}
}

// fixture is a memory saved in a file.
type fixture struct {
	t       *testing.T
	name    string
	memory  *favfilter.Memory
	file    *File
	journal *journal
}

// open opens the file over an empty memory.
func open(t *testing.T, name string) *fixture {
	t.Helper()
	x := &fixture{t: t, name: name, memory: &favfilter.Memory{}, journal: &journal{}}
	var err error
	x.file, err = Open(t.Context(), name, x.memory, isPart, checkValue, x.journal.logger())
	must(t, err)
	return x
}

func (x *fixture) close() {
	x.t.Helper()
	must(x.t, x.file.Close())
}

func (x *fixture) wantRestored(pages, damaged int) {
	x.t.Helper()
	if r := x.file.Restored(); r.Pages != pages || r.Damaged != damaged || (r.Damage == nil) != (damaged == 0) || r.SetAside != "" {
		x.t.Errorf("restored %+v, want %d pages and %d damaged", r, pages, damaged)
	}
}

func identity() favfilter.Identity { return favfilter.Identity{Seed: 7, Pages: 1 << 20} }

func part(i int) favfilter.PageID { return favfilter.PageID{Number: uint32(i), Part: "seen"} }

func key(i int) favfilter.Hash { return favfilter.HashKey(7, fmt.Sprint("key", i)) }

// put puts a page with one key under id, without regions if region is 0.
func (x *fixture) put(id favfilter.PageID, i, capacity int, expire time.Duration, region uint16) {
	x.t.Helper()
	s, err := favfilter.ShapeFor(capacity, 0.001)
	must(x.t, err)
	s.Region = region
	page, err := favfilter.NewPage(favfilter.Header{Identity: identity(), Shape: s, Number: id.Number, Sequence: 1})
	must(x.t, err)
	page.Insert(key(i))
	stored, _ := x.memory.Get(id)
	done, err := x.memory.Replace(x.t.Context(), favfilter.Replacement{ID: id, Page: page, Seen: stored.Version, Expire: expire})
	if err != nil || !done {
		x.t.Fatalf("replace %v: %v, %v", id, done, err)
	}
}

func (x *fixture) putWindow(i int) {
	x.t.Helper()
	x.put(part(i), i, 100, time.Hour, 0)
}

func (x *fixture) add(id favfilter.PageID, i int) {
	x.t.Helper()
	b := favfilter.Batch{ID: id, Identity: identity(), Add: []favfilter.Hash{key(i)}}
	if res := x.memory.Apply(x.t.Context(), []favfilter.Batch{b})[0]; res.State != favfilter.Applied {
		x.t.Fatalf("add to %v: %v, %v", id, res.State, res.Err)
	}
}

// has reports whether the page under id holds the key.
func (x *fixture) has(id favfilter.PageID, i int) bool {
	stored, _ := x.memory.Get(id)
	return stored.Page != nil && stored.Page.Contains(key(i))
}

func (x *fixture) wantHas(id favfilter.PageID, i int, want bool) {
	x.t.Helper()
	if got := x.has(id, i); got != want {
		x.t.Errorf("page %v has key %d: %v, want %v", id, i, got, want)
	}
}

// exec runs SQL on the file's own connection, between its rounds.
func (x *fixture) exec(query string) {
	x.t.Helper()
	if _, err := x.file.db.db.ExecContext(x.t.Context(), query); err != nil {
		x.t.Fatalf("%s: %v", query, err)
	}
}

// count returns a number from the file.
func (x *fixture) count(query string) (n int) {
	x.t.Helper()
	if err := x.file.db.db.QueryRowContext(x.t.Context(), query).Scan(&n); err != nil {
		x.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// copyOf copies a file that is open, with its log, as a process that is killed leaves it.
func copyOf(t *testing.T, name string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(name + suffix)
		must(t, err)
		must(t, os.WriteFile(to+suffix, content, 0o600))
	}
	return to
}

// edit changes the closed file with SQL.
func edit(t *testing.T, name, query string) {
	t.Helper()
	d, err := openDatabase(context.WithoutCancel(t.Context()), name)
	must(t, err)
	_, err = d.db.ExecContext(t.Context(), query)
	must(t, errors.Join(err, d.close()))
}
