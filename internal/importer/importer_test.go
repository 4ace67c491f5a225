package importer_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/importer"
)

// Activities that have ended only by the ledger's clock are skipped, too, anywhere in a batch.
func TestImportEndedByTheLedgersClock(t *testing.T) {
	dir := t.TempDir()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{Pages: 1})
	must(t, err)
	r, err := activity.Open(t.Context(), activity.Config{
		Ledger: l, Store: &favfilter.Memory{}, Now: func() time.Time { return time.Now().Add(2 * time.Hour) },
	})
	must(t, err)
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
	im, err := importFile(t, file, r, l, 5)
	must(t, err)
	if d := im.Done; d.Imported != 6 || d.Ended != 4 || d.Skipped != 4 {
		t.Errorf("imported %d, %d ended, %d skipped; want 6, 4, 4", d.Imported, d.Ended, d.Skipped)
	}
	want := map[string]bool{"1 hide p1": true, "1 hide p2": true, "1 hide p4": true, "1 hide p5": true, "1 hide p7": true, "1 hide p8": true}
	if got := recorded(t, r); !maps.Equal(got, want) {
		t.Errorf("the ledger has %v, want %v", got, want)
	}
	r.Close()
	must(t, l.Close())
}

// TestImportByEitherName: lines give a kind by its name or its plural, and the ledger has the name.
func TestImportByEitherName(t *testing.T) {
	dir := t.TempDir()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{Pages: 1})
	must(t, err)
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}})
	must(t, err)
	for name, text := range map[string]string{
		"a.csv":    "user,kind,target,op\n1,blocks,2,add\n1,block,2,add\n1,hides,p,add\n1,like,p,add\n1,likes,p,remove\n1,seen,p,add\n",
		"b.ndjson": `{"user":"3","kind":"blocks","target":"2"}` + "\n" + `{"user":"3","kind":"block","target":"4"}` + "\n",
	} {
		file := filepath.Join(dir, name)
		writeFile(t, file, text)
		im, err := importFile(t, file, r, l, 5)
		if n := int64(strings.Count(text, "\n")); err != nil || im.Done.Imported < n-1 || im.Done.Skipped > 0 {
			t.Errorf("%s: imported %d of %d, %d skipped, %v", name, im.Done.Imported, n, im.Done.Skipped, err)
		}
	}
	want := map[string]bool{"1 block 2": true, "1 hide p": true, "3 block 2": true, "3 block 4": true}
	if got := recorded(t, r); !maps.Equal(got, want) {
		t.Errorf("the ledger has %v, want %v", got, want)
	}
	if counts, want := r.Stats().Recorded, map[string]uint64{"seen": 1}; counts["seen"] != want["seen"] || counts["blocks"] > 0 {
		t.Errorf("recorded %v", counts)
	}
	r.Close()
	must(t, l.Close())
}

// importFile imports a file, batch lines at a time.
func importFile(t *testing.T, file string, r *activity.Recorder, l *ledger.Ledger, batch int) (*importer.Import, error) {
	t.Helper()
	source, err := activityfile.Open(file, "", nil)
	must(t, err)
	defer source.Close()
	im := &importer.Import{
		Source: source, To: r, Ledger: r, Checkpoints: l, Batch: batch, Bad: func(error) {}, Advance: func(int64) {},
	}
	if err = im.Begin(t.Context(), false); err == nil {
		err = im.Run(t.Context())
	}
	return im, err
}

// recorded returns the activities in the ledger, such as "1 block 2".
func recorded(t *testing.T, r *activity.Recorder) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	err := r.Export(t.Context(), "", func(a activity.Activity) error {
		all[a.User+" "+a.Kind+" "+a.Target] = true
		return nil
	})
	must(t, err)
	return all
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t rapid.TB, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(text), 0o600))
}
