package integration

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// oldUsers is the number of users in the data directory of testdata/upgrade.
const oldUsers = 20

// TestUpgradeDataDirectory serves feeds from a data directory of release 0.1.0. See
// testdata/upgrade/README.md.
func TestUpgradeDataDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ledger", "windows"} {
		unpack(t, fmt.Sprintf("testdata/upgrade/%s-0.1.0.db.gz", name), filepath.Join(dir, name+".db"))
	}
	kinds, err := filepath.Abs("testdata/upgrade/kinds.json")
	must(t, err)
	s := serve(t, "--data-dir", dir, "--kinds", kinds, "--pages", "64")
	s.logOnFailure()
	u := &upgraded{service: s}
	u.checkFeeds(t)
	u.checkUndo(t)
	u.checkWrites(t)
	if _, err := os.Stat(filepath.Join(dir, "windows.db.damaged")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("windows.db was set aside, %v", err)
	}
	u.stop(t)
	s.start()
	u.seenNow = true
	u.checkFeeds(t)
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	packed, err := os.Open(from)
	must(t, err)
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	must(t, err)
	content, err := io.ReadAll(r)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o600))
}

// upgraded is a service on the data directory of release 0.1.0.
type upgraded struct {
	service *service
	undone  bool // checkUndo has undone hides
	seenNow bool // checkWrites has recorded seen posts
}

// stop ends the service with SIGTERM.
func (u *upgraded) stop(t *testing.T) {
	t.Helper()
	must(t, u.service.cmd.Process.Signal(syscall.SIGTERM))
	must(t, u.service.cmd.Wait())
}

// checkFeeds checks a feed of each user with posts of every kind.
func (u *upgraded) checkFeeds(t *testing.T) {
	t.Helper()
	wrong := 0
	for i := range oldUsers {
		// Both sides of each block must drop the other's post.
		posts := []post{
			{ID: "b1", Author: fmt.Sprint("u", (i+1)%oldUsers)},
			{ID: "b2", Author: fmt.Sprint("u", (i+oldUsers-1)%oldUsers)},
			{ID: "p0", Author: "author"},
			{ID: "after", Author: "author"},
		}
		want := []string{"b1", "b2", "p0", "after"}
		add := func(id string, dropped bool) {
			posts = append(posts, post{ID: id, Author: "author"})
			if dropped {
				want = append(want, id)
			}
		}
		add("p1", !u.undone)
		add(fmt.Sprint("s", i), true) // seen before the upgrade
		add("now", u.seenNow)
		add("p2", false) // its hide was undone before the upgrade
		add("fresh", false)
		wrong += u.checkFeed(t, fmt.Sprint("u", i), posts, want)
	}
	var posts []post
	var want []string
	for n := range 40 {
		posts = append(posts, post{ID: fmt.Sprint("h", n), Author: "author"})
		want = append(want, posts[n].ID)
	}
	posts = append(posts, post{ID: "sh", Author: "author"}, post{ID: "fresh", Author: "author"})
	want = append(want, "sh")
	if wrong += u.checkFeed(t, "heavy", posts, want); wrong > 3 { // the rate is one in a thousand
		t.Errorf("%d posts were dropped that should be kept", wrong)
	}
}

// checkFeed checks that the wanted posts are dropped, and returns how many others are.
func (u *upgraded) checkFeed(t *testing.T, viewer string, posts []post, want []string) (others int) {
	t.Helper()
	answer, err := u.service.feed(feedRequest{Viewer: viewer, Posts: posts})
	if err != nil || len(answer.Degraded) > 0 {
		t.Fatalf("feed of %s: degraded %v, %v", viewer, answer.Degraded, err)
	}
	var dropped []string
	for _, p := range answer.Dropped {
		dropped = append(dropped, p.ID)
	}
	for _, id := range want {
		if !slices.Contains(dropped, id) {
			t.Errorf("the feed of %s keeps %s; it drops only %s", viewer, id, strings.Join(dropped, ", "))
		}
	}
	return len(dropped) - len(want)
}

// checkUndo undoes hides that were recorded before the upgrade.
func (u *upgraded) checkUndo(t *testing.T) {
	t.Helper()
	for i := range oldUsers {
		for _, want := range []bool{true, false} {
			changed, err := u.service.put(fmt.Sprint("u", i), "hides", "p1", true)
			if err != nil || changed != want {
				t.Errorf("undo a hide of u%d: changed %t, %v, want %t", i, changed, err, want)
			}
		}
	}
	u.undone = true
	u.checkFeeds(t)
}

// checkWrites records posts as seen, and hides of the user with a dedicated page.
func (u *upgraded) checkWrites(t *testing.T) {
	t.Helper()
	var batch []map[string]string
	for i := range oldUsers {
		batch = append(batch, map[string]string{"user": fmt.Sprint("u", i), "kind": "seen", "target": "now", "op": "add"})
	}
	if err := u.service.call(http.MethodPost, "/v1/activities", map[string]any{"activities": batch}, nil); err != nil {
		t.Error(err)
	}
	u.seenNow = true
	for _, c := range []struct {
		target string
		want   bool
	}{{"h7", false}, {"later", true}} {
		if changed, err := u.service.put("heavy", "hides", c.target, false); err != nil || changed != c.want {
			t.Errorf("heavy hides %s: changed %t, %v, want %t", c.target, changed, err, c.want)
		}
	}
	u.checkFeeds(t)
}
