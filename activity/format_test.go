package activity

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A filter without a ledger of format version 2 is refused: nothing can rebuild it.
func TestWithoutLedgerOfFormatTwo(t *testing.T) {
	server := redistest.Start(t)
	store := redisStore(t, server)
	g := openWithout(t, PlainConfig{Store: store, Pages: 2})
	for i := range 50 {
		g.record(t, true, add(fmt.Sprint(i), "hide", "p"))
	}
	g.Close()
	client := server.Client()
	for key, value := range snapshot(t, client) {
		if strings.HasSuffix(key, ":bits") {
			must(t, client.Set(t.Context(), key, storetest.AsFormat([]byte(value), 2), 0).Err())
		}
	}
	before := snapshot(t, client)
	refused := func(when string) {
		t.Helper()
		_, err := OpenPlain(t.Context(), PlainConfig{Store: redisStore(t, server), Pages: 2})
		if !errors.Is(err, favfilter.ErrFormat) || !strings.Contains(err.Error(), "another format version: 2, this version reads 3") {
			t.Errorf("%s: error %v, want ErrFormat", when, err)
		}
	}
	refused("as it was")
	if after := snapshot(t, client); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("what was refused was changed")
	}
	must(t, client.Del(t.Context(), "fav:{feed/0}:bits", "fav:{feed/0}:regions").Err())
	refused("without page 0")
	if n := len(snapshot(t, client)); n != len(before)-2 {
		t.Errorf("%d strings, want %d", n, len(before)-2)
	}
}
