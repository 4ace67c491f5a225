package ledger_test

import (
	"path/filepath"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger/ledgertest"
)

func TestSQLite(t *testing.T) { ledgertest.Run(t, freshFile) }

func TestLongSQLite(t *testing.T) { ledgertest.RunLong(t, freshFile) }

func freshFile(t *testing.T) (url string) {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
}
