package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// Activities that have ended only by the ledger's clock are skipped, too, anywhere in a batch.
func TestImportEndedByTheLedgersClock(t *testing.T) {
	dir := t.TempDir()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{Pages: 1})
	if err != nil {
		t.Fatal(err)
	}
	r, err := activity.Open(t.Context(), activity.Config{
		Ledger: l, Store: &favfilter.Memory{}, Now: func() time.Time { return time.Now().Add(2 * time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("user,kind,target,until\n")
	for i := range 10 { // every third activity ends in an hour, and so has ended by the ledger's clock
		until := ""
		if i%3 == 0 {
			until = time.Now().Add(time.Hour).Format(time.RFC3339)
		}
		fmt.Fprintf(&text, "1,hide,p%d,%s\n", i, until)
	}
	file := filepath.Join(dir, "a.csv")
	writeFile(t, file, text.String())
	source, err := activityfile.Open(file, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	im := &importer{source: source, to: r, ledger: r, notes: l, batch: 5, std: stdio{out: null, err: null}}
	if err := im.run(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if d := im.done; d.Imported != 6 || d.Ended != 4 || d.Skipped != 4 {
		t.Errorf("imported %d, %d ended, %d skipped; want 6, 4, 4", d.Imported, d.Ended, d.Skipped)
	}
	r.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantState(t, dir, map[string]bool{"1 hide p1": true, "1 hide p2": true, "1 hide p4": true, "1 hide p5": true, "1 hide p7": true, "1 hide p8": true})
}
