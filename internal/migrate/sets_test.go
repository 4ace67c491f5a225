package migrate_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// pairsOf reads a source and returns each pair once, such as "1 2".
func pairsOf(t *testing.T, source *migrate.Sets) []string {
	t.Helper()
	var all []string
	err := source.Users(t.Context(), func(user string) error {
		return source.Members(t.Context(), user, func(members []migrate.Member) error {
			for _, m := range members {
				line := m.User + " " + m.Target
				if !m.Since.IsZero() {
					line += m.Since.Format(" 2006-01-02T15:04:05.999Z")
				}
				all = append(all, line)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestPattern(t *testing.T) {
	for _, text := range []string{"", "blocks", "blocks:<users>", "{user}:{user}"} {
		if err := new(migrate.Pattern).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for a pattern", text)
		}
	}
	for _, c := range []struct {
		pattern, key, user string
		ok                 bool
	}{
		{"blocks:{user}", "blocks:1", "1", true},
		{"blocks:{user}", "blocks:a{user}", "a{user}", true},
		{"blocks:{user}", "blocks:", "", false},
		{"blocks:{user}", "xblocks:1", "", false},
		{"blocks:{{user}}", "blocks:{1}", "1", true},
		{"{user}:blocks", "a:b:blocks", "a:b", true},
		{"ab{user}bc", "abc", "", false}, // the prefix and the suffix overlap
	} {
		user, ok := pattern(t, c.pattern).User(c.key)
		if ok != c.ok || ok && (user != c.user || pattern(t, c.pattern).Key(user) != c.key) {
			t.Errorf("%s of %s: %q, %v", c.pattern, c.key, user, ok)
		}
	}
}

// TestSetsLiteralPattern checks that characters beside {user} are literal, even those with a
// meaning in SCAN.
func TestSetsLiteralPattern(t *testing.T) {
	client := redistest.Start(t).Client()
	for _, prefix := range []string{"a*", "a?", "[ab]", `\a`, "ab", "{a}", "a^-"} {
		client.SAdd(t.Context(), prefix+"1"+prefix, prefix)
	}
	for _, prefix := range []string{"a*", "a?", "[ab]", `\a`, "{a}", "a^-"} {
		s := &migrate.Sets{Client: client, Keys: pattern(t, prefix+"{user}"+prefix), Scores: migrate.NoScores}
		wantLines(t, prefix, pairsOf(t, s), []string{"1 " + prefix})
	}
}

func TestSets(t *testing.T) {
	client := redistest.Start(t).Client()
	sadd(t, client, "1", "2", "3")
	sadd(t, client, "ü:\n", "é\x00")
	for score, member := range []any{"4", "5"} {
		client.ZAdd(t.Context(), "blocks:1z", redis.Z{Score: 1_700_000_000 + float64(score)/2, Member: member})
	}
	client.Set(t.Context(), "blocks:text", "x", 0)
	client.HSet(t.Context(), "blocks:hash", "x", "y")
	sadd(t, client, "", "nobody")
	var big []any
	var want []string
	for i := range 3000 { // more than a page of any size
		big = append(big, i)
		want = append(want, fmt.Sprint("big ", i))
	}
	sadd(t, client, "big", big...)

	s := sets(t, client)
	want = append(want, "1 2", "1 3", "1z 4", "1z 5", "ü:\n é\x00")
	slices.Sort(want)
	wantLines(t, "all", pairsOf(t, s), want)
	if s.Others != 2 {
		t.Errorf("%d keys were passed over, want 2", s.Others)
	}

	has, err := s.Has(t.Context(), []migrate.Pair{{"1", "2"}, {"1", "9"}, {"9", "1"}, {"1z", "4"}, {"1z", "2"}, {"text", "x"}, {"big", "2999"}})
	if want := []bool{true, false, false, true, false, false, true}; err != nil || !slices.Equal(has, want) {
		t.Errorf("it has %v, %v, want %v", has, err, want)
	}

	for scores, want := range map[migrate.Scores][]string{
		migrate.Seconds:      {"1 4 2023-11-14T22:13:20Z", "1 5 2023-11-14T22:13:20.5Z"},
		migrate.Milliseconds: {"1 4 1970-01-20T16:13:20Z", "1 5 1970-01-20T16:13:20Z"},
	} {
		s := sets(t, client)
		s.Keys, s.Scores = pattern(t, "blocks:{user}z"), scores
		got := pairsOf(t, s)
		wantLines(t, string(scores), got, want)
	}
}

// TestSetsScores checks that a score that is not a time ends the import: the activity must not get
// lost.
func TestSetsScores(t *testing.T) {
	app := redistest.Start(t).Client()
	w := newWorld(t, 0)
	source := sets(t, app)
	source.Scores = migrate.Seconds
	for _, score := range []float64{1e18, -1e18, math.Inf(1), 1_700_000_000_000, float64(time.Now().Add(24 * time.Hour).Unix()), -62e9 - 2e8} {
		app.ZAdd(t.Context(), "blocks:1", redis.Z{Score: score, Member: "2"})
		if _, err := w.newImport(t, "block", source).Run(t.Context()); err == nil || !strings.Contains(err.Error(), `user "1", target "2"`) {
			t.Errorf("%g: %v", score, err)
		}
	}
	app.ZAdd(t.Context(), "blocks:1", redis.Z{Score: 1_700_000_000, Member: "2"})
	w.importAll(t, "block", source)
	wantLines(t, "recorded", w.recorded(t), []string{"1 block 2"})
}

// TestSetsVanish checks that sets may be removed or replaced during the scan.
func TestSetsVanish(t *testing.T) {
	client := redistest.Start(t).Client()
	for i := range 50 {
		sadd(t, client, fmt.Sprint(i), "x")
	}
	s := sets(t, client)
	err := s.Users(t.Context(), func(user string) error {
		client.FlushAll(t.Context())
		return s.Members(t.Context(), user, func([]migrate.Member) error { return nil })
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSetsMoved checks that a scan during which the servers changed fails with ErrMoved.
func TestSetsMoved(t *testing.T) {
	server := redistest.Start(t)
	for i := range 50 {
		sadd(t, server.Client(), fmt.Sprint(i), "x")
	}
	restarted := false
	err := sets(t, server.Client()).Users(t.Context(), func(string) error {
		if !restarted {
			restarted = true
			server.Kill()
			server.Restart()
		}
		return nil
	})
	if !errors.Is(err, migrate.ErrMoved) {
		t.Errorf("after a restart: %v, want %v", err, migrate.ErrMoved)
	}
}

// TestSetsFailedReader checks that an error of a reader ends the scan.
func TestSetsFailedReader(t *testing.T) {
	client := redistest.Start(t).Client()
	sadd(t, client, "1", "x")
	sadd(t, client, "2", "x")
	broken := errors.New("broken")
	calls := 0
	err := sets(t, client).Users(t.Context(), func(string) error {
		calls++
		return broken
	})
	if !errors.Is(err, broken) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestSetsHashTag refuses a pattern that takes a hash tag for a part of the ids.
func TestSetsHashTag(t *testing.T) {
	client := redistest.Start(t).Client()
	client.SAdd(t.Context(), "blocks:{1}", "2")
	err := sets(t, client).Users(t.Context(), func(string) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "write {{user}} in the pattern") {
		t.Errorf("got %v", err)
	}
}

func TestSetsCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	client := cluster.Client()
	var want []string
	for i := range 60 {
		client.SAdd(t.Context(), fmt.Sprintf("blocks:{%d}", i), "x")
		want = append(want, fmt.Sprint(i, " x"))
	}
	slices.Sort(want)
	s := sets(t, client)
	s.Keys = pattern(t, "blocks:{{user}}")
	wantLines(t, "all", pairsOf(t, s), want)
	var pairs []migrate.Pair
	for i := range 60 {
		pairs = append(pairs, migrate.Pair{User: fmt.Sprint(i), Target: "x"}, migrate.Pair{User: fmt.Sprint(i), Target: "y"})
	}
	has, err := s.Has(t.Context(), pairs)
	for i, there := range has {
		if there != (i%2 == 0) {
			t.Errorf("%v: %v", pairs[i], there)
		}
	}
	if err != nil || len(has) != len(pairs) {
		t.Errorf("%d answers, %v", len(has), err)
	}
}
