package known

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

// newKnown returns what a process knows of a ledger that it has polled once. It does not poll in
// the background.
func newKnown(t *testing.T, l *ledger.Ledger, bound time.Duration) *Ledger {
	t.Helper()
	life := lifecycle.New(t.Context())
	t.Cleanup(life.Close)
	k := New(life, l, Options{
		Bound: bound, Log: slog.New(slog.DiscardHandler), Changed: func([]uint32) {}, Recovered: func() {},
	})
	must(t, k.FirstPoll(t.Context()))
	return k
}

// newLedger returns a new ledger, until the test ends.
func newLedger(t *testing.T, pages uint32) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: pages})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	must(t, l.Declare(t.Context(), []ledger.Kind{{Name: "hide", Target: "post"}}))
	return l
}

// record records that the user with the hash has hidden a post, as another process does.
func record(t *testing.T, l *ledger.Ledger, hash uint64, post string) {
	t.Helper()
	row := ledger.Row{Hash: hash, Owner: "u", Kind: "hide", Target: post}
	_, err := l.Record(t.Context(), time.Now(), []ledger.Change{{Rows: []ledger.Row{row}}})
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
