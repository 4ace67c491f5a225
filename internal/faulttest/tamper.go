package faulttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Tamper replaces the only page of a ledger. The new page lacks the keys in lost, and has those in
// madeUp besides. The sequence stays the same, so the header shows no difference.
func Tamper(t testing.TB, l *ledger.Ledger, store favfilter.Store, lost, madeUp []string) {
	t.Helper()
	for range 50 {
		if tampered(t, l, store, lost, madeUp) {
			return
		}
	}
	t.Fatal("not replaced")
}

// tampered tries what Tamper does, and reports whether the page was still the one that it read: the
// scrubber may rebuild a page while the first writes create it.
func tampered(t testing.TB, l *ledger.Ledger, store favfilter.Store, lost, madeUp []string) bool {
	t.Helper()
	rows, _, err := l.Keys(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	loaded, _, err := store.Load(t.Context(), []favfilter.PageID{{}})
	if err != nil || loaded[0].Page == nil {
		t.Fatal("no page to tamper with", err)
	}
	page, err := favfilter.NewPage(loaded[0].Page.Header())
	if err != nil {
		t.Fatal(err)
	}
	seed, found := l.Identity().Seed, 0
	for _, row := range rows {
		line := row.Owner + " " + row.Kind + " " + row.Target
		if slices.Contains(lost, line) {
			found++
			continue
		}
		if !loaded[0].Page.Contains(Key(seed, line)) {
			t.Fatalf("%q is no key as the page has them", line)
		}
		page.Insert(Key(seed, line))
	}
	if found != len(lost) {
		t.Fatalf("lost %d of %q", found, lost)
	}
	for _, line := range madeUp {
		page.Insert(Key(seed, line))
	}
	done, err := store.Replace(
		t.Context(), favfilter.Replacement{Page: page, Seen: loaded[0].Version},
	)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Key returns the hash of the key of an activity, such as "1 hide 2" or "1 blocked-by 2".
func Key(seed uint64, line string) favfilter.Hash {
	f := strings.Fields(line)
	target, weight := "_P", uint8(4) // as pages.Weight has it; tests of pages import this package
	switch {
	case strings.HasPrefix(f[1], "block"),
		slices.Contains([]string{"no-repost", "mute", "mute-of", "follow", "follow-of"}, f[1]):
		target, weight = "_U", 6
	case f[1] == "shun", f[1] == "domain-mute":
		target, weight = "_domain:", 10
	}
	switch strings.TrimSuffix(f[1], "-of") {
	case "like", "follow", "pin": // drop no posts
		weight = 0
	}
	start := favfilter.HashStart(seed, f[1]+":U"+f[0]+target)
	start.Extra = weight
	return start.With(favfilter.HashKey(seed, f[2]))
}
