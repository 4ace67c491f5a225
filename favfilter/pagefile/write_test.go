package pagefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// While the disk is full the pages stay in memory. They are written once there is space again.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, filepath.Join(t.TempDir(), "pages.db"))
		x.putWindow(1)
		time.Sleep(2 * interval)
		x.exec(`PRAGMA max_page_count = 1`) // no more pages than now
		for i := range 2000 {
			x.putWindow(i)
		}
		for i := range 5 {
			time.Sleep(interval)
			x.add(part(i), 5000)
		}
		const failing, again = "ERROR page file cannot be written: what changes is lost if the process ends", "INFO page file is written again"
		synctest.Wait()
		x.journal.want(t, failing)
		x.wantHas(part(1999), 1999, true)

		x.exec(`PRAGMA max_page_count = 1000000`)
		time.Sleep(2 * interval)
		x.journal.want(t, failing, again)
		killed := open(t, copyOf(t, x.name))
		x.close()
		killed.wantRestored(2000, 0)
		killed.wantHas(part(1999), 1999, true)
		killed.wantHas(part(0), 5000, true)

		// Close reports changes that it could not write.
		killed.exec(`PRAGMA max_page_count = 1`)
		for i := range 1000 {
			killed.putWindow(3000 + i)
		}
		if err := killed.file.Close(); err == nil || !strings.Contains(err.Error(), "database or disk is full") {
			t.Errorf("close: %v", err)
		}
	})
}

// A file that is damaged while it is open is set aside, and the memory is written to a new file.
func TestDamagedWhileOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "pages.db")
		x := open(t, name)
		for i := range 100 {
			x.putWindow(i)
		}
		time.Sleep(2 * interval)
		x.exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
		content, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, garbage(content, 4096), 0o600)
		}
		must(t, err)
		x.exec(`PRAGMA shrink_memory`) // removes pages from its cache, so that it reads them from the file
		x.add(part(99), 1000)
		time.Sleep(2 * interval)
		x.journal.want(t, "ERROR page file is damaged, starting a new one")
		if _, err := os.Stat(name + ".damaged"); err != nil {
			t.Error(err)
		}
		x.putWindow(100)
		x.close()
		x = open(t, name)
		x.wantRestored(101, 0)
		x.wantHas(part(99), 1000, true)
		x.close()
	})
}

// A stream of windows that come and go leaves the file at the size of the current windows.
func TestEndlessStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, filepath.Join(t.TempDir(), "pages.db"))
		const alive, rounds = 100, 40
		var sizes []int
		for round := range rounds {
			for i := range alive {
				// The windows have many sizes, so that free space seldom fits the next one exactly.
				id := favfilter.PageID{Number: uint32(i), Part: fmt.Sprint("seen-", round)}
				x.put(id, i, 100*(1+(i+round)%20), 10*interval, 0)
			}
			time.Sleep(10 * interval)
			sizes = append(sizes, 4*x.count(`SELECT page_count FROM pragma_page_count`))
		}
		t.Logf("KiB: %d", sizes)
		if early, late := sizes[rounds/4], sizes[rounds-1]; late > 2*early {
			t.Errorf("the file grew from %d KiB to %d KiB", early, late)
		}
		log, err := os.Stat(x.name + "-wal")
		if err != nil || log.Size() > 8<<20 {
			t.Errorf("the log has %d MiB, %v", log.Size()>>20, err)
		}
		if rows := x.count(`SELECT count(*) FROM pages`); rows > 3*alive {
			t.Errorf("%d rows for %d pages", rows, alive)
		}
		x.close()
	})
}

// 100,000 windows of some hundred bytes are written, and read at the next start.
func TestLongManyPages(t *testing.T) {
	const n = 100_000
	x := open(t, filepath.Join(t.TempDir(), "pages.db"))
	for i := range n {
		x.putWindow(i)
	}
	start := time.Now()
	x.close()
	written := time.Since(start)
	start = time.Now()
	x = open(t, x.name)
	t.Logf("%d pages: written in %v, read in %v", n, written, time.Since(start))
	x.wantRestored(n, 0)
	for i := 0; i < n; i += 997 {
		x.wantHas(part(i), i, true)
	}
	x.close()
}

// After a kill, the file has the flushed pages, and not the pages that were removed before the
// flush.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, filepath.Join(t.TempDir(), "pages.db"))
		x.putWindow(1)
		x.putWindow(2)
		must(t, x.file.Flush(t.Context()))
		killed := open(t, copyOf(t, x.name))
		killed.wantRestored(2, 0)
		killed.close()
		stored, _ := x.memory.Get(part(1))
		if gone, err := x.memory.Replace(t.Context(), favfilter.Replacement{ID: part(1), Seen: stored.Version}); !gone || err != nil {
			t.Fatal(gone, err)
		}
		must(t, x.file.Flush(t.Context()))
		killed = open(t, copyOf(t, x.name))
		killed.wantRestored(1, 0)
		killed.wantHas(part(2), 2, true)
		killed.close()
		x.exec(`PRAGMA max_page_count = 1`)
		for i := range 2000 {
			x.putWindow(i)
		}
		if err := x.file.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "full") {
			t.Errorf("flush to a full disk: %v", err)
		}
		x.exec(`PRAGMA max_page_count = 1000000`)
		x.close()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := x.file.Flush(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("flush with a canceled context: %v", err)
		}
	})
}
