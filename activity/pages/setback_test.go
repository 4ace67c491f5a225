package pages

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// snapshot returns all strings of the server. restore sets the server back to them.
func snapshot(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	must(t, err)
	m := map[string]string{}
	for _, k := range keys {
		m[k], err = client.Get(t.Context(), k).Result()
		must(t, err)
	}
	return m
}

func restore(t *testing.T, client *redis.Client, m map[string]string) {
	t.Helper()
	must(t, client.FlushAll(t.Context()).Err())
	for k, v := range m {
		must(t, client.Set(t.Context(), k, v, 0).Err())
	}
}

// TestOldSnapshot sets pages back to an older state. The Recorder that wrote them notices, and so
// does one that starts later.
func TestOldSnapshot(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 2)
	g.recordAll(t, "1", posts("old"), 30, false)
	before := snapshot(t, client)
	g.recordAll(t, "1", posts("new"), 30, false)
	g.recordAll(t, "1", posts("old"), 10, true)
	for _, restart := range []bool{false, true} {
		restore(t, client, before)
		if restart {
			g.open(t, g.ledger, redisStore(t, server))
		}
		for i := range 30 {
			g.want(t, "1", "hide", fmt.Sprint("new", i), true)
			if i >= 10 {
				g.want(t, "1", "hide", fmt.Sprint("old", i), true)
			}
		}
		g.checkRate(t, g.countFound(t, "1", "hide", posts("old"), 10), 10) // undone
		restore(t, client, before)
		g.record(t, true, add("1", "hide", fmt.Sprint("after", restart)))
		g.want(t, "1", "hide", "new3", true)
	}
}

// backup closes the ledger, copies it and opens it again. It returns the copy's name.
func (g *rig) backup(t *testing.T) string {
	t.Helper()
	g.Close()
	must(t, g.ledger.Close())
	saved := filepath.Join(t.TempDir(), "saved.db")
	copyFile(t, g.file, saved)
	g.ledger = openLedger(t, g.file, 0)
	g.open(t, g.ledger, g.store)
	return saved
}

// TestLedgerSetBack restores a ledger from a copy, with and without a read before later writes.
// Pages that are ahead of the ledger must be rebuilt.
func TestLedgerSetBack(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 2)
	g.record(t, true, add("1", "hide", "kept"))
	saved := g.backup(t)
	for i := range 5 {
		g.record(t, true, add("1", "hide", fmt.Sprint("lost", i)))
	}
	pages := snapshot(t, client)

	for _, readFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("read first ", readFirst), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ledger.db")
			copyFile(t, saved, file)
			restore(t, client, pages)
			back := &rig{ledger: openLedger(t, file, 0), store: redisStore(t, server)}
			back.open(t, back.ledger, back.store)
			if readFirst {
				back.want(t, "1", "hide", "kept", true)
				back.want(t, "1", "hide", "lost1", false)
			}
			// As many writes as were lost, so that the sequences are the same again.
			for i := range 5 {
				back.record(t, true, add("1", "hide", fmt.Sprint("new", i)))
			}
			for i := range 5 {
				back.want(t, "1", "hide", fmt.Sprint("new", i), true)
			}
			back.want(t, "1", "hide", "kept", true)
			back.want(t, "1", "hide", "lost1", false)
		})
	}
}

// TestRestoredLedger restores a ledger whose sequences then reach the same numbers with other
// changes. Only the incarnation tells old pages apart.
func TestRestoredLedger(t *testing.T) {
	server := redistest.Start(t)
	g := newRig(t, redisStore(t, server), 2)
	g.record(t, true, add("1", "hide", "kept"))
	saved := g.backup(t)
	g.record(t, true, add("1", "hide", "lost"))
	g.Close()

	l, err := ledger.Open(t.Context(), "sqlite:"+saved, ledger.Options{Restored: true})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	back := &rig{ledger: l, store: redisStore(t, server)}
	back.open(t, l, back.store)
	back.record(t, true, add("1", "hide", "new"))
	back.want(t, "1", "hide", "new", true)
	back.want(t, "1", "hide", "kept", true)
	back.want(t, "1", "hide", "lost", false)
}

// TestPageOfAnotherLedgerAtTheSameSequence checks that the identity tells two ledgers' pages apart,
// for readers and for writers.
func TestPageOfAnotherLedgerAtTheSameSequence(t *testing.T) {
	server := redistest.Start(t)
	first, second := newRig(t, redisStore(t, server), 1), newRig(t, redisStore(t, server), 1)
	second.record(t, true, add("1", "hide", "r"))
	first.record(t, true, add("1", "hide", "p"))
	second.want(t, "1", "hide", "r", true)
	second.want(t, "1", "hide", "p", false)
	first.record(t, true, add("1", "hide", "q"))
	second.record(t, true, add("1", "hide", "s"))
	second.want(t, "1", "hide", "s", true)
	second.want(t, "1", "hide", "q", false)
}

// TestPageLostDuringRebuild loses a page between its read and its replacement. The page is stored
// all the same.
func TestPageLostDuringRebuild(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 1)
	g.record(t, true, add("1", "hide", "p"))
	must(t, client.SetRange(t.Context(), "fav:{feed/0}:bits", 0, "rubbish").Err())
	g.storage.store = beforeReplace{g.store, func() { must(t, client.FlushAll(t.Context()).Err()) }}
	g.want(t, "1", "hide", "p", true)
	if h := g.header(t, 0); h.Count != 1 || h.Sequence != 1 {
		t.Errorf("header %+v, want one key at 1", h)
	}
}

type beforeReplace struct {
	favfilter.Store
	do func()
}

func (s beforeReplace) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	s.do()
	return s.Store.Replace(ctx, r)
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	must(t, err)
	if !bytes.HasPrefix(b, []byte("SQLite format 3")) {
		t.Fatalf("%s is no SQLite file", from)
	}
	must(t, os.WriteFile(to, b, 0o600))
}
