package pagefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Pages outlive the process, with their keys and expiry. Pages that keep does not select are lost.
func TestPagesOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "odd ?name#%41.db")
		x := open(t, name)
		x.wantRestored(0, 0)
		ledger, ever, deletable := favfilter.PageID{Number: 1}, favfilter.PageID{Number: 1, Part: "ever"}, favfilter.PageID{Number: 1, Part: "deletable"}
		x.put(ledger, 1, 100, 0, 0)
		x.put(ever, 1, 100, 0, 0)
		x.put(deletable, 1, 100, 0, 8)
		x.put(part(1), 1, 100, 10*time.Second, 0)
		x.put(part(2), 2, 100, time.Minute, 0)
		x.put(part(3), 2, 100, 10*time.Second, 0)
		x.add(part(3), 3) // a change ends the time to live
		x.close()
		checkMode(t, name)

		time.Sleep(10 * time.Second) // of the bubble's clock
		x = open(t, name)
		x.wantRestored(4, 0)
		x.wantHas(ledger, 1, false)
		x.wantHas(ever, 1, true)
		x.wantHas(part(1), 1, false)
		x.wantHas(part(2), 2, true)
		x.wantHas(part(3), 3, true)
		x.wantHas(part(3), 4, false)
		// The page was restored with its collision bits, so that it can be changed.
		x.add(deletable, 2)
		x.wantHas(deletable, 2, true)

		time.Sleep(time.Minute)
		x.wantHas(part(2), 2, false)
		if n := x.count(`SELECT count(*) FROM pages`); n != 4 {
			t.Errorf("%d rows are left of 4 pages", n)
		}
		x.close()
		x = open(t, name)
		x.wantRestored(3, 0)
		x.wantHas(deletable, 2, true)
		x.close()
		x.journal.want(t)
	})
}

func checkMode(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Error(err)
	} else if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("%s has mode %o", name, mode)
	}
}

// After a kill, the file has all changes made more than two intervals earlier.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, filepath.Join(t.TempDir(), "pages.db"))
		for i := range 100 {
			x.putWindow(i)
			x.add(part(i/2), 1000+i)
			time.Sleep(37 * time.Millisecond)
		}
		time.Sleep(2 * interval)
		x.add(part(0), 5000)
		killed := open(t, copyOf(t, x.name))
		x.close()
		killed.wantRestored(100, 0)
		for i := range 100 {
			killed.wantHas(part(i), i, true)
			killed.wantHas(part(i/2), 1000+i, true)
		}
		killed.wantHas(part(0), 5000, false)
		killed.close()
	})
}

// An interval without changes writes nothing, and a change writes only the page that it changed.
func TestOnlyChangesAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, filepath.Join(t.TempDir(), "pages.db"))
		for i := range 50 {
			x.putWindow(i)
		}
		time.Sleep(2 * interval)
		before := x.count(`SELECT total_changes()`)
		time.Sleep(10*interval + interval/2) // between two writes, so that both changes are in one interval
		if n := x.count(`SELECT total_changes()`) - before; n != 0 {
			t.Errorf("%d rows were written without a change", n)
		}
		x.add(part(7), 100)
		x.add(part(7), 101)
		time.Sleep(10 * interval)
		if n := x.count(`SELECT total_changes()`) - before; n != 1 {
			t.Errorf("%d rows were written after one page changed", n)
		}
		x.close()
	})
}

func TestDamagedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "pages.db")
		x := open(t, name)
		for i := range 10 {
			x.put(part(i), i, 100, time.Hour, 8)
		}
		sound, bad := favfilter.PageID{Number: 1, Part: "seen.1"}, favfilter.PageID{Number: 1, Part: "seen.2"}
		for id, value := range map[favfilter.PageID]string{sound: "FAV sound", bad: "FAV bad"} {
			if done, err := x.memory.Replace(t.Context(), favfilter.Replacement{ID: id, Value: []byte(value)}); !done || err != nil {
				t.Fatal(done, err)
			}
		}
		x.close()
		for i, set := range map[int]string{
			1: `bits = x''`, 3: `bits = zeroblob(length(bits))`, 5: `bits = substr(bits, 1, 100)`, 7: `marks = x''`,
			9: `bits = CAST(substr(bits, 1, length(bits) - 1) || x'ff' AS BLOB)`,
		} {
			edit(t, name, fmt.Sprintf(`UPDATE pages SET %s WHERE number = %d AND part NOT LIKE '%%.%%'`, set, i))
		}
		x = open(t, name)
		x.wantRestored(6, 6)
		if err := x.file.Restored().Damage; !errors.Is(err, favfilter.ErrDamaged) || !strings.Contains(err.Error(), ":seen") {
			t.Errorf("damage %v, want one that names a page", err)
		}
		for i := range 10 {
			x.wantHas(part(i), i, i%2 == 0)
		}
		x.putWindow(3) // again
		x.close()
		x = open(t, name) // the damaged rows are gone
		x.wantRestored(7, 0)
		x.wantHas(part(3), 3, true)
		if stored, _ := x.memory.Get(sound); string(stored.Value) != "FAV sound" {
			t.Errorf("a value is restored as %q", stored.Value)
		}
		x.close()
	})
}

// Unreadable files are set aside, and a new file works.
func TestDamagedFiles(t *testing.T) {
	for kind, damage := range map[string]func(content []byte) []byte{
		"text":      func([]byte) []byte { return []byte(strings.Repeat("no database\n", 1000)) },
		"short":     func([]byte) []byte { return []byte("hello") },
		"truncated": func(content []byte) []byte { return content[:len(content)/2/4096*4096] },
		"cut off":   func(content []byte) []byte { return content[:len(content)/2+100] },
		"header":    func(content []byte) []byte { return append(make([]byte, 4096), content[4096:]...) },
		"garbage":   func(content []byte) []byte { return garbage(content, 4096) },
		"half":      func(content []byte) []byte { return garbage(content, len(content)/2) },
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				name := filepath.Join(t.TempDir(), "pages.db")
				x := open(t, name)
				for i := range 100 {
					x.putWindow(i)
				}
				x.close()
				content, err := os.ReadFile(name)
				must(t, err)
				bad := damage(content)
				must(t, os.WriteFile(name, bad, 0o600))
				if kept := wantSetAside(t, name, bad); kind == "half" && kept == 0 {
					t.Error("no page of the sound half was kept")
				}
			})
		})
	}
	for kind, query := range map[string]string{
		"of another program": `PRAGMA application_id = 5`, "of a later version": `PRAGMA user_version = 9`,
		"of an earlier version": `PRAGMA user_version = 1`, "of none": `PRAGMA application_id = 0`,
		"without a table": `DROP TABLE pages`, "without a column": `ALTER TABLE pages DROP COLUMN marks`,
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				name := filepath.Join(t.TempDir(), "pages.db")
				x := open(t, name)
				x.close()
				edit(t, name, query)
				content, err := os.ReadFile(name)
				must(t, err)
				wantSetAside(t, name, content)
			})
		})
	}
}

// garbage overwrites everything after an offset. The header and the schema are the first 4 KiB.
func garbage(content []byte, offset int) []byte {
	bad := append([]byte(nil), content...)
	for i := offset; i < len(bad); i++ {
		bad[i] = byte(i * 7)
	}
	return bad
}

// wantSetAside opens the file, which must set it aside, and then the new file. It returns the
// number of pages that were read before the damage was detected.
func wantSetAside(t *testing.T, name string, content []byte) (kept int) {
	t.Helper()
	x := open(t, name)
	r := x.file.Restored()
	if r.SetAside != name+".damaged" || r.Damage == nil {
		t.Errorf("restored %+v, want the file set aside", r)
	}
	aside, err := os.ReadFile(name + ".damaged")
	if err != nil || !bytes.Equal(aside, content) {
		t.Errorf("the file that was set aside has another content: %v", err)
	}
	x.putWindow(500)
	x.close()
	x = open(t, name)
	x.wantRestored(r.Pages+1, 0)
	x.wantHas(part(500), 500, true)
	x.close()
	return r.Pages
}

func TestOneProcessAtATime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pages.db")
	x := open(t, name)
	x.putWindow(1)
	_, err := Open(t.Context(), name, &favfilter.Memory{}, isPart, checkValue, x.journal.logger())
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), name+".lock is locked") {
		t.Errorf("the second one: %v, want ErrInUse", err)
	}
	x.close()
	x = open(t, name)
	x.wantRestored(1, 0)
	x.close()
}

func TestOpenFails(t *testing.T) {
	directory := t.TempDir()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		name string
		want error
	}{
		{t.Context(), filepath.Join(directory, "missing", "pages.db"), fs.ErrNotExist},
		{canceled, filepath.Join(directory, "pages.db"), context.Canceled},
	} {
		for range 2 { // the lock is released
			_, err := Open(c.ctx, c.name, &favfilter.Memory{}, isPart, checkValue, (&journal{}).logger())
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.name) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
	}
}
