package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// A migration may pause between two statements for longer than other transactions may.
func TestPostgresMigrationPauses(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).Schema()
	to := addressOf(t, url)
	proxy := proxytest.Start(t, to)
	proxy.Delay(50*time.Millisecond, 0) // more than a transaction may be idle
	slow := strings.Replace(url, to, proxy.Addr(), 1) + "&idle_in_transaction_session_timeout=20ms"
	if l, err := ledger.Open(t.Context(), slow, ledger.Options{Pages: 16}); err == nil {
		must(t, l.Close())
	} // or a later transaction was idle, which is not the point
	execute(t, raw(t, url), `SELECT phrases FROM kinds`) // the last migration made it
}
