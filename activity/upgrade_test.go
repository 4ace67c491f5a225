package activity

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// oldPages is the number of pages of the current layout of the ledger in ledger/testdata.
const oldPages = 32

// oldActivity is an activity that activities.json.gz names.
type oldActivity struct {
	User   string    `json:"user"`
	Kind   string    `json:"kind"`
	Target string    `json:"target"`
	Until  time.Time `json:"until"`
}

// upgrade is a Recorder over a ledger and pages that release 0.1.0 has written.
type upgrade struct {
	*Recorder

	ledger           *ledger.Ledger
	client           *redis.Client
	now              time.Time
	recorded, undone []oldActivity
}

// TestUpgrade opens a ledger and pages in Redis of release 0.1.0. See ledger/testdata/README.md and
// testdata/upgrade/README.md.
func TestUpgrade(t *testing.T) {
	u := openUpgrade(t)
	u.checkPages(t)
	u.checkWindows(t)
	u.checkUndo(t)
	u.checkWrites(t)
	u.reopen(t)
}

// openUpgrade puts the old pages into Redis and opens the old ledger.
func openUpgrade(t *testing.T) *upgrade {
	t.Helper()
	client := redistest.Start(t).Client()
	var pages map[string][]byte
	must(t, json.Unmarshal(unpackFile(t, "testdata", "upgrade", "0.1.0.json.gz"), &pages))
	for key, value := range pages {
		must(t, client.Set(t.Context(), key, value, 0).Err())
	}
	file := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.WriteFile(file, unpackFile(t, "ledger", "testdata", "0.1.0.db.gz"), 0o600))
	u := &upgrade{
		ledger: openLedger(t, file, 0),
		client: client,
		now:    time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), // two hours after they were written
	}
	var all struct {
		Recorded []oldActivity `json:"recorded"`
		Undone   []oldActivity `json:"undone"`
	}
	must(t, json.Unmarshal(unpackFile(t, "ledger", "testdata", "activities.json.gz"), &all))
	for _, a := range all.Recorded {
		if a.Until.IsZero() || a.Until.After(u.now) { // the page may have others or not
			u.recorded = append(u.recorded, a)
		}
	}
	u.undone = all.Undone
	if len(u.recorded) < 300 || len(u.undone) < 40 {
		t.Fatalf("%d activities and %d undone ones: nothing to look for", len(u.recorded), len(u.undone))
	}
	u.open(t)
	return u
}

func unpackFile(t *testing.T, path ...string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	r, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	content, err := io.ReadAll(r)
	must(t, err)
	return content
}

// open opens a Recorder that rebuilds the pages that are read, and no others.
func (u *upgrade) open(t *testing.T) {
	t.Helper()
	kinds, err := NewKinds(append(builtinKinds(), Kind{Name: "mute", Plural: "mutes", Target: User, Effect: Drop})...)
	must(t, err)
	u.Recorder, err = Open(t.Context(), Config{
		Ledger: u.ledger, Store: u.store(t), Kinds: kinds, Passive: true, StalenessBound: -1,
		Now: func() time.Time { return u.now },
	})
	must(t, err)
	t.Cleanup(u.Close)
}

func (u *upgrade) store(t *testing.T) favfilter.Store {
	t.Helper()
	store, err := redisstore.New(u.client, "feed")
	must(t, err)
	return store
}

// look returns what the user's View says of ids.
func (u *upgrade) look(t *testing.T, user string) (matches func(kind, id string) Match) {
	t.Helper()
	kinds := u.Kinds().All()
	v, err := u.View(t.Context(), user, kinds)
	must(t, err)
	if len(v.Degraded) > 0 {
		t.Errorf("%s: degraded: %v", user, v.Degraded)
	}
	return func(kind, id string) Match {
		i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == kind })
		return v.Check(i, id)
	}
}

// checkRecorded looks for every activity, on both sides of a block, and for those that were undone.
func (u *upgrade) checkRecorded(t *testing.T) {
	t.Helper()
	views := make(map[string]func(kind, id string) Match)
	find := func(user, kind, id string) Match {
		t.Helper()
		if views[user] == nil {
			views[user] = u.look(t, user)
		}
		return views[user](kind, id)
	}
	for _, a := range u.recorded {
		if find(a.User, a.Kind, a.Target)&Direct == 0 {
			t.Errorf("%+v: not found", a)
		}
		if a.Kind == "block" && find(a.Target, a.Kind, a.User)&Reverse == 0 {
			t.Errorf("%+v: not found for %s", a, a.Target)
		}
	}
	found := 0
	for _, a := range u.undone {
		if find(a.User, a.Kind, a.Target)&Direct != 0 {
			found++
		}
	}
	if found > 3 { // the rate of a key is 0.05 % at most
		t.Errorf("%d of %d activities that were undone are found", found, len(u.undone))
	}
}

// checkPages reads the pages of all users. None is rebuilt, and two are dedicated.
func (u *upgrade) checkPages(t *testing.T) {
	t.Helper()
	dedicated := make(map[uint32]bool)
	for _, a := range u.recorded {
		place, err := u.ledger.Place(t.Context(), u.userHash(a.User))
		must(t, err)
		key := ":p" + strconv.FormatUint(uint64(place.Page), 10)
		if place.Page >= ledger.DedicatedPages {
			dedicated[place.Page] = true
		} else {
			key = pageKey(place.Page)
		}
		if key = u.keyOf(t, key); key == "" {
			t.Fatalf("%s is on page %d, which Redis lacks", a.User, place.Page)
		}
	}
	want := ledger.Layouts{Current: oldPages, Building: 2 * oldPages}
	if layouts, err := u.ledger.Layouts(t.Context()); err != nil || layouts != want || len(dedicated) != 2 {
		t.Fatalf("layouts %+v, %v, want %+v; dedicated pages %v, want two", layouts, err, want, dedicated)
	}
	u.checkRecorded(t)
	if got := u.rebuilt(); len(got) > 0 {
		t.Errorf("rebuilds %v, want none", got)
	}
}

// pageKey returns the part of a key that names a shared page. There are two to a slot.
func pageKey(page uint32) string { return fmt.Sprintf("{feed/%d}:p%d", (page-oldPages)/2, page) }

// keyOf returns the key of the page with the part in its name; "": there is none.
func (u *upgrade) keyOf(t *testing.T, part string) string {
	t.Helper()
	for _, key := range u.keys(t, "fav:*:bits") {
		if strings.HasSuffix(key, part+":bits") {
			return key
		}
	}
	return ""
}

func (u *upgrade) keys(t *testing.T, pattern string) []string {
	t.Helper()
	keys, err := u.client.Keys(t.Context(), pattern).Result()
	must(t, err)
	slices.Sort(keys)
	return keys
}

func (u *upgrade) rebuilt() map[string]uint64 {
	rebuilds := maps.Clone(u.Stats().Rebuilds)
	maps.DeleteFunc(rebuilds, func(_ string, n uint64) bool { return n == 0 })
	return rebuilds
}

// checkWindows records posts as seen by those who have windows, which go on.
func (u *upgrade) checkWindows(t *testing.T) {
	t.Helper()
	before := u.keys(t, "fav:*:seen.*:bits")
	users := make(map[string]bool)
	for _, a := range u.recorded {
		if a.Kind == Seen {
			users[a.User] = true
		}
	}
	if len(users) < 40 || len(before) < len(users) {
		t.Fatalf("%d users with windows, and the keys %v", len(users), before)
	}
	for user := range users {
		outcomes, err := u.Record(t.Context(), []Activity{{User: user, Kind: Seen, Target: "later"}})
		if err != nil || outcomes[0] != Changed {
			t.Errorf("%s: %v, %v", user, outcomes, err)
		}
		if u.look(t, user)(Seen, "later")&Direct == 0 {
			t.Errorf("%s: what was seen later is not found", user)
		}
	}
	if after := u.keys(t, "fav:*:seen.*:bits"); !slices.Equal(after, before) {
		t.Errorf("keys of windows %v, want %v", after, before)
	}
	u.checkRecorded(t)
}

// checkUndo undoes activities on shared pages and on dedicated ones.
func (u *upgrade) checkUndo(t *testing.T) {
	t.Helper()
	undone := 0
	u.recorded = slices.DeleteFunc(u.recorded, func(a oldActivity) bool {
		heavy := strings.HasPrefix(a.User, "heavy") && a.Target == "h7"
		if a.Kind == Seen || !heavy && a.User != "u3" && a.Target != "p1" {
			return false
		}
		undo := []Activity{{User: a.User, Kind: a.Kind, Target: a.Target, Remove: true}}
		for _, want := range []Outcome{Changed, Unchanged} {
			if outcomes, err := u.Record(t.Context(), undo); err != nil || outcomes[0] != want {
				t.Errorf("undo %+v: %v, %v, want %v", a, outcomes, err, want)
			}
		}
		u.undone = append(u.undone, a)
		undone++
		return true
	})
	if undone < 40 {
		t.Fatalf("%d activities were undone, too few", undone)
	}
	u.checkRecorded(t)
}

// checkWrites records activities of old users and of a new one.
func (u *upgrade) checkWrites(t *testing.T) {
	t.Helper()
	for _, user := range []string{"u0", "u17", "heavy0", "heavy1", "heavy2", "Zoë_%1", "new"} {
		for _, a := range []Activity{{User: user, Kind: "hide", Target: "post"}, {User: user, Kind: "block", Target: "troll"}} {
			if outcomes, err := u.Record(t.Context(), []Activity{a}); err != nil || outcomes[0] != Changed {
				t.Errorf("%+v: %v, %v", a, outcomes, err)
			}
			u.recorded = append(u.recorded, oldActivity{User: user, Kind: a.Kind, Target: a.Target})
		}
	}
	u.checkRecorded(t)
}

// reopen opens another Recorder over the same ledger and pages, which has nothing to rebuild.
func (u *upgrade) reopen(t *testing.T) {
	t.Helper()
	u.Close()
	u.open(t)
	u.checkRecorded(t)
	if got := u.rebuilt(); len(got) > 0 {
		t.Errorf("rebuilds %v after a restart, want none", got)
	}
}

// TestUpgradeGrows ends the change of the number of pages that 0.1.0 had begun. Its pages are
// closed, and expire.
func TestUpgradeGrows(t *testing.T) {
	u := openUpgrade(t)
	grow(t, u.Recorder, 2*oldPages)
	u.checkRecorded(t)
	u.checkWindows(t)
	for page := uint32(oldPages); page < 2*oldPages; page++ {
		key := u.keyOf(t, pageKey(page))
		if left, err := u.client.TTL(t.Context(), key).Result(); err != nil || left <= 0 || left > 24*time.Hour {
			t.Errorf("page %d of the old layout expires in %v, %v", page, left, err)
		}
	}
}

// TestUpgradeScrub has a scrub compare all pages. All are as the ledger says.
func TestUpgradeScrub(t *testing.T) {
	u := openUpgrade(t)
	_, err := u.Recorder.Scrubber().Scrub(0)
	must(t, err)
	for u.Recorder.Scrubber().ScrubStatus().Running {
		time.Sleep(time.Millisecond)
	}
	progress := u.Recorder.Scrubber().ScrubStatus()
	if progress.Done != oldPages+2 || progress.Done != progress.All || progress.Failed+progress.Unasked > 0 || len(progress.Found) > 0 {
		t.Errorf("scrub %+v, want all %d pages, and nothing found", progress, oldPages+2)
	}
	u.checkRecorded(t)
	if got := u.rebuilt(); len(got) > 0 {
		t.Errorf("rebuilds %v, want none", got)
	}
}
