package activity

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// Windows of another format version count as empty, are written over, and are nothing to warn of
// with each feed.
func TestWindowsOfAnotherFormat(t *testing.T) {
	server := redistest.Start(t)
	g := newRig(t, redisStore(t, server), 4)
	g.record(t, true, add("1", "seen", "p"))
	seen := g.kind(t, "seen")
	id := g.windows["seen"].ID(g.userHash("1"))
	putOtherFormat := func() {
		key := fmt.Sprintf("fav:{feed/%d}:%s:bits", id.Number, id.Part)
		raw, err := server.Client().Get(t.Context(), key).Bytes()
		must(t, err)
		raw[3] = 3
		table := crc32.MakeTable(crc32.Castagnoli)
		binary.BigEndian.PutUint32(raw[4:], crc32.Update(crc32.Checksum(raw[:4], table), table, raw[8:]))
		must(t, server.Client().Set(t.Context(), key, raw, 0).Err())
	}
	putOtherFormat()
	g.want(t, "1", "seen", "p", None)
	if g.log.Len() > 0 {
		t.Errorf("logged %s", &g.log)
	}
	g.record(t, true, add("1", "seen", "q"))
	g.want(t, "1", "seen", "q", Direct)
	putOtherFormat()
	v, err := g.View(t.Context(), "1", []Kind{seen})
	must(t, err)
	must(t, v.Record(t.Context(), "seen", []string{"r"}))
	g.want(t, "1", "seen", "r", Direct)
}

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
