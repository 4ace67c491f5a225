package follow

import (
	"context"
	"errors"
	"testing"
)

// A look compares the catalog once, and again when a row of it has another version. A partition
// that was made since becomes known. What was altered is found by each later look.
func TestLook(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f := a.follower("one")
	a.start(f)
	a.after()
	conn, err := f.source.connect(t.Context(), false)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	known, err := f.source.catalogOf(t.Context(), conn)
	must(t, err)
	w := &watcher{f: f, conn: conn, known: known}
	look := func() error {
		t.Helper()
		_, err := w.look(t.Context())
		return err
	}
	must(t, look())
	first := w.versions
	must(t, look())
	if first == "" || w.versions != first {
		t.Errorf("versions %q, and then %q of the same catalog", first, w.versions)
	}
	a.exec(`CREATE TABLE p PARTITION OF list_members FOR VALUES IN ('x'); ALTER TABLE p REPLICA IDENTITY FULL`)
	must(t, look())
	must(t, look()) // reads the versions of the partition, too
	if len(w.known.oids) != len(known.oids)+1 || w.versions == first {
		t.Errorf("%d tables and partitions are known, want one more than %d", len(w.known.oids), len(known.oids))
	}
	a.exec(`TRUNCATE p`)
	for range 2 {
		if err := look(); !errors.Is(err, errAltered) {
			t.Errorf("after TRUNCATE: %v", err)
		}
	}
}
