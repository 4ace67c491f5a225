package main

import (
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// wantDropped fails the test unless the viewer's feed drops a post of the author because of the
// kind. With kind "", the feed must keep the post.
func (s *service) wantDropped(viewer, author, kind string) {
	s.t.Helper()
	code, answer := s.do("POST", "/v1/feed/filter", `{"viewer":"`+viewer+`","posts":[{"id":"p","author":"`+author+`"}]}`)
	want := `"dropped":[{"id":"p","kind":"` + kind + `","actor":"` + author + `"}]`
	if kind == "" {
		want = `"dropped":[]`
	}
	if code != 200 || !strings.Contains(answer, want) {
		s.t.Errorf("feed of %s with a post of %s: %d %s, want %s", viewer, author, code, answer, want)
	}
}

func (s *service) put(path string) {
	s.t.Helper()
	if code, answer := s.do("PUT", path, ""); code != 200 {
		s.t.Fatalf("PUT %s: %d %s", path, code, answer)
	}
}

// Processes with different kinds may share a ledger and pages, because a rebuild includes the keys
// of all kinds. So a kind can be introduced one process at a time.
func TestKindsOfSeveralProcesses(t *testing.T) {
	pages := redistest.Start(t)
	postgres := pgtest.Start(t)
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--pages=1", "--scrub-rate=1", "--ledger", postgres.Schema(), "--redis", pages.URL()}
	writeFile(t, dir+"/mute.json", `{"kinds":[{"name":"mute","target":"user","effect":"drop"},
		{"name":"shun","target":"user","effect":"drop","two_way":true}]}`)
	without := serve(t, args...)
	with := serve(t, append(args, "--kinds", dir+"/mute.json")...)
	with.put("/v1/users/1/mutes/2")
	with.put("/v1/users/3/shuns/4")
	without.put("/v1/users/1/blocks/5")

	for _, maker := range []*service{without, with} {
		if err := pages.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		maker.wantDropped("1", "5", "block")
		without.wantDropped("1", "2", "")
		with.wantDropped("1", "2", "mute")
		with.wantDropped("4", "3", "shun")
		with.wantDropped("3", "4", "shun")
		with.wantDropped("1", "5", "block")
	}
	if code, answer := without.do("PUT", "/v1/users/1/mutes/3", ""); code != 404 {
		t.Errorf("a kind that the process does not have: %d %s", code, answer)
	}

	// A process without the kind does not start, because the kind has data.
	r := feedfilter(t, 1, append([]string{"serve", "--addr=127.0.0.1:0"}, args...)...)
	wantContains(t, r.stderr, `--kinds: `, `"mute" was declared with target "user", and is not declared now`)
	with.put("/v1/users/1/mutes/6")
	with.wantDropped("1", "6", "mute")

	// An export has the activities of all processes, even while they run.
	r = feedfilter(t, 0, append([]string{"export", "--kinds", dir + "/mute.json"}, args...)...)
	for _, line := range []string{
		`{"user":"1","kind":"block","target":"5",`, `{"user":"1","kind":"mute","target":"2",`, `{"user":"1","kind":"mute","target":"6",`,
		`{"user":"3","kind":"shun","target":"4",`,
	} {
		wantContains(t, r.stdout, line+`"op":"add","since":"`)
	}
	if n := strings.Count(r.stdout, "\n"); n != 4 {
		t.Errorf("exported %d lines, want 4:\n%s", n, r.stdout)
	}
}
