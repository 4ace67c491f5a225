package pages

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// storeFormatTwo gives page 0 and the next ones of a filter format version 2, in which no key of
// this version is found.
func storeFormatTwo(t *testing.T, client *redis.Client, filter string, pages uint32) {
	t.Helper()
	for page := range pages {
		key := fmt.Sprintf("fav:{%s/%d}:bits", filter, page)
		bits, err := client.Get(t.Context(), key).Bytes()
		must(t, err)
		clear(bits[favfilter.HeaderBytes:])
		must(t, client.Set(t.Context(), key, storetest.AsFormat(bits, 2), 0).Err())
	}
}

// Readers, writers and the scrub rebuild pages of format version 2. None of them trusts such a
// page, nor warns of it.
func TestPagesOfFormatTwo(t *testing.T) {
	server := redistest.Start(t)
	g := newRig(t, redisStore(t, server), 4)
	var log bytes.Buffer
	g.storage.log = slog.New(slog.NewTextHandler(&log, nil))
	for i := range 40 {
		g.record(t, true, add(fmt.Sprint(i), "block", fmt.Sprint("b", i)))
		g.record(t, true, add(fmt.Sprint(i), "hide", fmt.Sprint("p", i)))
	}
	toFormatTwo := func() { storeFormatTwo(t, server.Client(), "feed", 4) }
	toFormatTwo()
	for i := range 40 { // Views rebuild them
		g.want(t, fmt.Sprint(i), "block", fmt.Sprint("b", i), true)
		g.want(t, fmt.Sprint("b", i), "blocked-by", fmt.Sprint(i), true)
		g.want(t, fmt.Sprint(i), "hide", fmt.Sprint("p", i), true)
	}
	g.wantWhole(t)
	toFormatTwo()
	for i := range 40 { // writes rebuild them: undone, and added one by one and in a batch
		g.record(t, true, undo(fmt.Sprint(i), "hide", fmt.Sprint("p", i)))
		g.record(t, true, add(fmt.Sprint(i), "hide", fmt.Sprint("q", i)))
	}
	toFormatTwo()
	_, err := g.Record(t.Context(), someActivities(1))
	must(t, err)
	g.wantWhole(t)
	toFormatTwo()
	g.scrubAll()
	g.wantWhole(t)
	if s := g.Stats(); s.Found["foreign"] != 4 || len(s.Found) != 1 {
		t.Errorf("the scrub found %v, want 4 pages foreign", s.Found)
	}
	toFormatTwo()
	g.scrubber.verify(0)
	if p := g.inspectOne(t, 0); !p.Agrees() {
		t.Errorf("after a comparison the page is %v", p.State)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}

// A reader does not trust a replica's page of format version 2, and asks the primary.
func TestReplicaOfFormatTwo(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	copies, err := redisstore.NewReader(client, "copy")
	must(t, err)
	g := newRig(t, redisStore(t, server), 1)
	g.record(t, true, add("1", "hide", "p"))
	must(t, client.Copy(t.Context(), "fav:{feed/0}:bits", "fav:{copy/0}:bits", 0, true).Err())
	storeFormatTwo(t, client, "copy", 1)
	g.reader.replica = copies
	g.want(t, "1", "hide", "p", true)
	g.want(t, "1", "hide", "q", false)
	if n := g.storage.stats.pastReplica.Load(); n != 2 {
		t.Errorf("%d of 2 feeds were read past the replica", n)
	}
}
