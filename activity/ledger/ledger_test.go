package ledger_test

import (
	"path/filepath"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger/ledgertest"
)

func TestSQLite(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) string {
		return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	}, nil)
}
