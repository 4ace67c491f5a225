package ledger

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"modernc.org/sqlite"
)

// Targets are read one by one if all targets of an owner and kind exceed the size of one value.
func TestKeysThatAreTooMuchForOneValue(t *testing.T) {
	l, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), Options{Pages: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var rows []Row
	for i := range 500 {
		rows = append(rows, Row{Hash: 1, Owner: "u", Kind: "hide", Target: fmt.Sprintf("p%06d", i), Since: time.Now()})
	}
	if _, err := l.Record(t.Context(), time.Now(), []Change{{Rows: rows}}); err != nil {
		t.Fatal(err)
	}
	d, _ := l.db.(*sqliteDatabase)
	d.readers.SetMaxOpenConns(1)
	conn, err := d.readers.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const limitLength = 0 // SQLITE_LIMIT_LENGTH: of a value, and of a row
	if _, err := sqlite.Limit(conn, limitLength, 2000); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = d.inPage(t.Context(), 0, func(q sqliteQueries, held []hashRange) error {
		_, err := q.groups(t.Context(), held)
		return err
	})
	if err == nil {
		t.Fatal("500 targets fit a value of less than 2,000 bytes")
	}
	keys, _, err := l.Keys(t.Context(), 0)
	if want := withoutTimes(slices.Clone(rows)); err != nil || !slices.Equal(keys, want) {
		t.Errorf("%d keys of %d, %v", len(keys), len(want), err)
	}
}
