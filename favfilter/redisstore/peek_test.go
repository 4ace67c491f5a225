package redisstore_test

import (
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A user without permission to count collision bits can peek at pages.
func TestPeekWithoutCounting(t *testing.T) {
	server := redistest.Start(t)
	s := openStore(t, server.Client(), "uncounted")
	id := favfilter.PageID{Number: 3}
	page := newPage(t, id.Number, shapeFor(t, 100))
	for _, h := range hashes(3, 0, 100) {
		page.Insert(h)
	}
	put(t, s, id, page)
	want := page.Status()
	if got, err := s.Peek(t.Context(), []favfilter.PageID{id}); err != nil || got[0] != want || want.Collided == 0 {
		t.Errorf("peeked at %+v, %v, want %+v", got, err, want)
	}
	must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "-bitcount").Err())
	want.Collided = 0
	if got, err := s.Peek(t.Context(), []favfilter.PageID{id}); err != nil || got[0] != want {
		t.Errorf("without BITCOUNT, peeked at %+v, %v, want %+v", got, err, want)
	}
}
