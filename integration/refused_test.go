package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/awstest"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// TestSignInRefused takes away the password with which a service signs in to its Redis. Feeds must
// then come from the ledger, writes must be acknowledged, and /readyz must say degraded. The
// service must also start in that state. When it may sign in again, it must be ready.
func TestSignInRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	do := func(args ...any) {
		t.Helper()
		if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	do("ACL", "SETUSER", "feed", "on", ">one", "~*", "+@all")
	s := serve(t, "--data-dir", t.TempDir(), "--pages", "16", "--redis", "redis://feed:one@"+server.Addr())
	s.logOnFailure()
	hide := func(id string) {
		t.Helper()
		if _, err := s.put("u1", "hides", id, false); err != nil {
			t.Errorf("hide %s: %v", id, err)
		}
	}
	hidden := func(ids ...string) {
		t.Helper()
		q := feedRequest{Viewer: "u1", Posts: []post{{ID: "shown", Author: "a"}}}
		for _, id := range ids {
			q.Posts = append(q.Posts, post{ID: id, Author: "a"})
		}
		for range 20 {
			if a, err := s.feed(q); err != nil || len(a.Dropped) != len(ids) {
				t.Fatalf("feed: %+v, %v, want %q dropped", a, err, ids)
			}
		}
	}
	ready := func(want string) {
		t.Helper()
		var answer struct{ Status string }
		if err := s.call("GET", "/readyz", nil, &answer); err != nil || answer.Status != want {
			t.Errorf("readyz: %+v, %v, want %s", answer, err, want)
		}
	}
	hide("p")
	hidden("p")
	do("ACL", "SETUSER", "feed", "resetpass", ">two")
	do("CLIENT", "KILL", "USER", "feed")
	hidden("p")
	hide("q")
	hide("q") // a repeat changes nothing; it waits for the page
	hidden("p", "q")
	ready("degraded")
	s.restart()
	hidden("p", "q")
	ready("degraded")
	do("ACL", "SETUSER", "feed", ">one")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := servertest.Await(ctx, "pages are read again", func(context.Context) error {
		var answer struct{ Status string }
		if err := s.call("GET", "/readyz", nil, &answer); err != nil || answer.Status != "ready" { //nolint:contextcheck // the test's
			return fmt.Errorf("readyz: %+v, %w", answer, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	hidden("p", "q")
	if log := s.log.String(); !strings.Contains(log, "WRONGPASS") {
		t.Errorf("the log does not say why:\n%s", log)
	}
}

// TestSignInRefusedAtStart starts a service that its cache does not let sign in.
func TestSignInRefusedAtStart(t *testing.T) {
	server := redistest.Start(t, redistest.PasswordArgs("right")...)
	a := awstest.Start(t)
	a.PutGroup("feed", awstest.Group{Addr: server.Addr(), Token: true})
	a.PutSecret("token", "wrong")
	a.Use(t)
	dir := t.TempDir()
	first := serve(t, "--data-dir", dir, "--pages", "16") // a service with an empty ledger needs its cache
	if _, err := first.put("u1", "hides", "before", false); err != nil {
		t.Fatal(err)
	}
	first.kill()
	s := serve(t, "--data-dir", dir, "--pages", "16", "--redis", "elasticache://feed?secret=token")
	s.logOnFailure()
	if _, err := s.put("u1", "hides", "p", false); err != nil {
		t.Error(err)
	}
	if f, err := s.feed(feedRequest{Viewer: "u1", Posts: []post{{ID: "p", Author: "a"}}}); err != nil || len(f.Dropped) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}
