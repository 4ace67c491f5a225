package ledger_test

import (
	"path/filepath"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger/ledgertest"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) string { return freshFile(t) }, nil)
}

func TestLongSQLite(t *testing.T) {
	ledgertest.RunLong(t, func(t *testing.T) string { return freshFile(t) })
}

func freshFile(t testing.TB) (url string) {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
}
