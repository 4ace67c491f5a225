package activity

import (
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// TestIDsAreNotInRedis checks what a reader of Redis alone can find out. There is no list of
// activities. But the seed is in every page, so the reader can look up any pair of ids that they
// can name.
func TestIDsAreNotInRedis(t *testing.T) {
	server := redistest.Start(t)
	g := newRig(t, redisStore(t, server), 16)
	for _, a := range []Activity{
		{User: "alice-secret", Kind: "block", Target: "mallory-secret"},
		{User: "alice-secret", Kind: "hide", Target: "post-secret"},
		{User: "alice-secret", Kind: "seen", Target: "seen-secret"},
	} {
		g.record(t, true, a)
	}
	client := server.Client()
	keys, err := client.Keys(t.Context(), "*").Result()
	must(t, err)
	on := map[uint32]bool{} // one page or two
	for _, user := range []string{"alice-secret", "mallory-secret"} {
		on[g.pageOf(t, user)] = true
	}
	if want := 2*len(on) + 1; len(keys) != want { // of a window there are bits alone
		t.Fatalf("keys %q, want those of %d pages and a window", keys, len(on))
	}
	var read []*favfilter.Page
	for _, key := range keys {
		value, err := client.Get(t.Context(), key).Result()
		must(t, err)
		for _, id := range []string{"alice", "mallory", "secret"} {
			if strings.Contains(key, id) || strings.Contains(value, id) {
				t.Errorf("%q holds %q", key, id)
			}
		}
		if base, ok := strings.CutSuffix(key, "bits"); ok && !strings.Contains(key, "seen") {
			marks, err := client.Get(t.Context(), base+"regions").Bytes()
			must(t, err)
			l := favfilter.Decode(favfilter.PageID{}, []byte(value), marks)
			must(t, l.Damage)
			read = append(read, l.Page)
		}
	}
	for _, c := range []struct {
		kind, owner, facet, target string
		want                       bool
	}{
		{"block", "alice-secret", ledger.User, "mallory-secret", true}, {"hide", "alice-secret", ledger.Post, "post-secret", true},
		{"block", "alice-secret", ledger.User, "bob-secret", false}, {"hide", "alice-secret", ledger.Post, "other-secret", false},
	} {
		found := false
		for _, p := range read {
			seed := p.Header().Seed
			found = found || p.Contains(pages.KeyStart(seed, c.kind, c.owner, c.facet).With(favfilter.HashKey(seed, c.target)))
		}
		if found != c.want {
			t.Errorf("a reader of Redis finds %+v: %v", c, found)
		}
	}
}
