package integration

import (
	"compress/gzip"
	"database/sql"
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

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// oldUsers is the number of users in the data directories of testdata/upgrade.
const oldUsers = 20

// TestUpgradeDataDirectory serves feeds from data directories of the version of 2026-11-22, of the
// first version with page format 3, and of 0.1.0. See testdata/upgrade/README.md.
func TestUpgradeDataDirectory(t *testing.T) {
	for _, version := range []string{"format2", "format3", "0.1.0"} {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"ledger", "windows"} {
				unpack(t, fmt.Sprintf("testdata/upgrade/%s-%s.db.gz", name, version), filepath.Join(dir, name+".db"))
			}
			released := version == "0.1.0"
			data := filepath.Join(dir, "windows.db")
			old := otherParts(t, data)
			for _, name := range []string{"own-", "seen-"} {
				if slices.ContainsFunc(old, func(part string) bool { return strings.HasPrefix(part, name) }) == released {
					t.Fatalf("the old service left of %s: %v", name, old)
				}
			}
			s := serve(t, "--data-dir", dir, "--kinds", "testdata/upgrade/kinds.json", "--pages", "64")
			s.logOnFailure()
			u := &upgraded{service: s, seenKept: released}
			u.checkFeeds(t)
			u.checkUndo(t)
			u.checkWrites(t)
			_, err := os.Stat(data + ".damaged") // the file has pages of another format
			if setAside := err == nil; setAside != (version == "format2") || !setAside && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("windows.db was set aside: %t, %v", setAside, err)
			}
			u.stop(t)
			if left := otherParts(t, data); len(left) > 0 {
				t.Errorf("windows.db has rows that are no windows: %v", left)
			}
			s.start()
			u.seenNow = true
			u.checkFeeds(t)
		})
	}
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

// otherParts returns the parts in the file of windows that are not windows of seen posts.
func otherParts(t *testing.T, file string) (parts []string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	must(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `SELECT part FROM pages WHERE part NOT LIKE 'seen.%' ORDER BY part`)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var part string
		must(t, rows.Scan(&part))
		parts = append(parts, part)
	}
	must(t, rows.Err())
	return parts
}

// upgraded is a service on the data directory of an earlier version.
type upgraded struct {
	service  *service
	seenKept bool // the upgrade does not empty the windows
	undone   bool // checkUndo has undone hides
	seenNow  bool // checkWrites has recorded seen posts
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
		add(fmt.Sprint("s", i), u.seenKept) // seen before the upgrade, which may empty the windows once
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
	if u.seenKept {
		want = append(want, "sh")
	}
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
