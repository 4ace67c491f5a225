package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// surely is a false positive rate at which chance drops no post of a test.
const surely = "--false-positive-rate=1e-8"

const day = 24 * time.Hour

// seenAgo is a post that user 1 saw some time ago.
type seenAgo struct {
	id  string
	age time.Duration
}

// fortyDays returns 60 posts that were seen within the last 40 days. The times keep at least an
// hour from 30 and from 35 days ago.
func fortyDays() (history []seenAgo) {
	for i := range 60 {
		history = append(history, seenAgo{fmt.Sprint("p", i), time.Duration(i)*16*time.Hour + time.Hour})
	}
	return history
}

// TestWindowHistory imports 40 days of seen posts. Feeds must drop the posts of the last 30 days,
// and show those older than 35 days.
func TestWindowHistory(t *testing.T) {
	t.Parallel()
	now := time.Now()
	table, lines := "user,kind,target,since\n", ""
	for _, s := range fortyDays() {
		since := now.Add(-s.age).Format(time.RFC3339)
		table += fmt.Sprintf("1,seen,%s,%s\n", s.id, since)
		lines += fmt.Sprintf(`{"user":"1","kind":"seen","target":%q,"since":%q}`+"\n", s.id, since)
	}
	for name, c := range map[string]struct {
		file, content string
		args          []string
	}{
		"embedded":         {"history.csv", table, nil},
		"Redis":            {"history.ndjson", lines, []string{"--redis", redistest.Start(t).URL()}},
		"without a ledger": {"history.csv", table, []string{"--ledger", "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			args := append([]string{"--data-dir", filepath.Join(dir, "data"), surely}, c.args...)
			file := filepath.Join(dir, c.file)
			write(t, file, []byte(c.content))
			var first int
			for round := range 2 { // the second round must change nothing
				out, err := exec.CommandContext(t.Context(), command, append([]string{"import", file, "--output", "json"}, args...)...).Output()
				var counted struct {
					Imported int `json:"imported"`
					Changed  int `json:"changed"`
					Skipped  int `json:"skipped"`
					Ended    int `json:"ended"`
					Windowed int `json:"windowed"`
				}
				if err != nil || json.Unmarshal(out, &counted) != nil {
					t.Fatalf("import: %v %s", err, out)
				}
				if counted.Imported != 60 || counted.Windowed != 60 || counted.Skipped+counted.Ended != 0 {
					t.Errorf("round %d: %+v, want 60 imported", round, counted)
				}
				if round == 0 {
					first = counted.Changed
				} else if counted.Changed != 0 {
					t.Errorf("imported again, %d changed", counted.Changed)
				}
			}
			dropped := serve(t, args...).seenOf(t, fortyDays())
			if first != len(dropped) {
				t.Errorf("%d changed, and a feed drops %d", first, len(dropped))
			}
		})
	}
}

// seenOf returns the posts that a feed of user 1 drops. It fails the test unless the feed drops all
// posts of the last 30 days, and none older than 35 days.
func (s *service) seenOf(t *testing.T, history []seenAgo) (dropped []string) {
	t.Helper()
	q := feedRequest{Viewer: "1"}
	for _, h := range history {
		q.Posts = append(q.Posts, post{ID: h.id, Author: "a"})
	}
	answer, err := s.feed(q)
	if err != nil || len(answer.Degraded) > 0 {
		t.Fatalf("%v, degraded %v", err, answer.Degraded)
	}
	for _, d := range answer.Dropped {
		dropped = append(dropped, d.ID)
	}
	for _, h := range history {
		switch found := slices.Contains(dropped, h.id); {
		case h.age <= 30*day && !found:
			t.Errorf("%s, seen %v ago, is shown again", h.id, h.age)
		case h.age > 35*day && found:
			t.Errorf("%s, seen %v ago, is dropped", h.id, h.age)
		}
	}
	return dropped
}

// metric returns the value of a series.
func (s *service) metric(t *testing.T, series string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("there is no %s", series)
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestWindowMost records ten seen posts more than a window keeps. Ten of the oldest must be
// forgotten.
func TestWindowMost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kinds := filepath.Join(dir, "kinds.json")
	write(t, kinds, []byte(`{"kinds":[{"name":"seen","most":100}]}`))
	s := serve(t, "--data-dir", dir, "--kinds", kinds, "--redis", redistest.Start(t).URL(), surely)
	var batch []map[string]string
	var posts []post
	for i := range 60 {
		id := fmt.Sprint("old", i)
		batch = append(batch, map[string]string{
			"user": "1", "kind": "seen", "target": id, "op": "add", "since": time.Now().Add(-20 * day).Format(time.RFC3339),
		})
		posts = append(posts, post{ID: id, Author: "a"})
	}
	if err := s.call(http.MethodPost, "/v1/activities", map[string]any{"activities": batch}, nil); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 60 {
		ids = append(ids, fmt.Sprint("new", i))
		posts = append(posts, post{ID: ids[i], Author: "a"})
	}
	if got := s.metric(t, `feedfilter_window_evicted_total{kind="seen"}`); got != 0 {
		t.Errorf("%v counted as evicted before the window is full", got)
	}
	if err := s.call(http.MethodPost, "/v1/users/1/seen", map[string]any{"posts": ids}, nil); err != nil {
		t.Fatal(err)
	}
	answer, err := s.feed(feedRequest{Viewer: "1", Posts: posts})
	if err != nil {
		t.Fatal(err)
	}
	dropped := map[bool]int{}
	for _, d := range answer.Dropped {
		dropped[strings.HasPrefix(d.ID, "new")]++
	}
	old := dropped[false]
	if dropped[true] != 60 || old < 40 || old >= 40+100/8 {
		t.Errorf("%d of 60 new posts are dropped and %d of 60 old ones, want 60, and 40 to an eighth of 100 more", dropped[true], old)
	}
	if got := s.metric(t, `feedfilter_window_evicted_total{kind="seen"}`); int(got) != 60-old {
		t.Errorf("%v counted as evicted, want %d", got, 60-old)
	}
	var stats struct {
		Recorder struct {
			Evicted map[string]int `json:"window_evicted"`
		}
	}
	if err := s.call(http.MethodGet, "/v1/stats", nil, &stats); err != nil || stats.Recorder.Evicted["seen"] != 60-old {
		t.Errorf("stats: %+v, %v", stats, err)
	}
}

// TestWindowDamaged flips a bit of a window in Redis. No request may fail. The window counts as
// empty, a metric counts the damage, and the next write replaces the window.
func TestWindowDamaged(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := serve(t, "--data-dir", t.TempDir(), "--redis", redis.URL(), surely)
	damage := func(at int) {
		t.Helper()
		keys, err := redis.Client().Keys(t.Context(), "fav:*:seen.*:bits").Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("windows %v, %v", keys, err)
		}
		raw, err := redis.Client().Get(t.Context(), keys[0]).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		raw[(at+len(raw))%len(raw)] ^= 1
		if err := redis.Client().Set(t.Context(), keys[0], raw, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	see := func(id string) {
		t.Helper()
		if err := s.call(http.MethodPost, "/v1/users/1/seen", map[string]any{"posts": []string{id}}, nil); err != nil {
			t.Fatalf("see %s: %v", id, err)
		}
	}
	damaged := 0.0
	want := func(record bool, ids ...string) {
		t.Helper()
		q := map[string]any{
			"viewer": "1", "record_seen": record, "posts": []post{{ID: "a", Author: "x"}, {ID: "b", Author: "x"}, {ID: "c", Author: "x"}},
		}
		var answer feedAnswer
		if err := s.call(http.MethodPost, "/v1/feed/filter", q, &answer); err != nil || len(answer.Degraded) > 0 {
			t.Fatalf("%v, degraded %v", err, answer.Degraded)
		}
		var dropped []string
		for _, d := range answer.Dropped {
			dropped = append(dropped, d.ID)
		}
		if !slices.Equal(dropped, ids) {
			t.Errorf("a feed drops %v, want %v", dropped, ids)
		}
		if got := s.metric(t, `feedfilter_window_damaged_total{kind="seen"}`); got != damaged {
			t.Errorf("%v damaged windows are counted, want %v", got, damaged)
		}
	}
	see("a")
	want(false, "a")
	damage(-1)
	damaged = 1
	want(false)
	see("b") // the write finds the damage, too
	damaged = 2
	want(false, "b")
	want(false, "b")
	damage(4) // a byte of the checksum
	damaged = 3
	see("c")
	want(false, "c")
	damage(0) // a byte of the name
	damaged = 4
	want(true)
	want(false, "a", "b", "c")
}

// TestUpgradeRedisWindows checks that the service does not change windows of earlier versions in
// Redis. They expire by their time to live.
func TestUpgradeRedisWindows(t *testing.T) {
	t.Parallel()
	redis, ctx := redistest.Start(t), context.Background()
	const old = "fav:{feed/0}:seen-9c3f01d2e4b5a697-4112:bits"
	content := bytes.Repeat([]byte{0xa5}, 500)
	expires := time.Now().Add(30 * day).Truncate(time.Millisecond)
	if err := redis.Client().Set(ctx, old, content, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := redis.Client().PExpireAt(ctx, old, expires).Err(); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--data-dir", t.TempDir(), "--redis", redis.URL(), "--pages", "1", surely)
	for _, id := range []string{"p", "q"} {
		if err := s.call(http.MethodPost, "/v1/users/1/seen", map[string]any{"posts": []string{id}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.seenOf(t, []seenAgo{{"p", 0}, {"q", 0}, {"never", 100 * day}})
	kept, err := redis.Client().Get(ctx, old).Bytes()
	if err != nil || !bytes.Equal(kept, content) {
		t.Errorf("the window of an earlier version changed: %d bytes, %v", len(kept), err)
	}
	left, err := redis.Client().PTTL(ctx, old).Result()
	if err != nil || left <= 0 || time.Now().Add(left).After(expires.Add(time.Minute)) {
		t.Errorf("the window expires in %v, %v", left, err)
	}
}
