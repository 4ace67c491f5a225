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

// oldPages is the number of pages that the ledgers in ledger/testdata were made with.
const oldPages = 16

// oldActivity is an activity that activities.json.gz names.
type oldActivity struct {
	User   string    `json:"user"`
	Kind   string    `json:"kind"`
	Target string    `json:"target"`
	Until  time.Time `json:"until"`
}

// upgrade is a Recorder over a ledger and pages that an earlier version has written.
type upgrade struct {
	*Recorder

	ledger           *ledger.Ledger
	client           *redis.Client
	now              time.Time
	recorded, undone []oldActivity
}

// TestUpgrade opens ledgers and pages in Redis of the version of 2026-11-22, whatever became of
// their number of pages. See ledger/testdata/README.md and testdata/upgrade/README.md.
func TestUpgrade(t *testing.T) {
	client := redistest.Start(t).Client()
	for _, c := range []struct {
		name  string
		pages uint32
	}{{"never", 16}, {"grown", 64}, {"half", 64}, {"shrunk", 16}} {
		for format := 2; format <= 3; format++ {
			t.Run(fmt.Sprintf("%s/format%d", c.name, format), func(t *testing.T) {
				u := openUpgrade(t, client, c.name, format)
				u.checkRebuilds(t, c.pages)
				u.checkWindows(t)
				u.checkUndo(t)
				u.checkWrites(t)
				u.reopen(t)
			})
		}
	}
}

// openUpgrade puts the old pages into Redis and opens the old ledger.
func openUpgrade(t *testing.T, client *redis.Client, name string, format int) *upgrade {
	t.Helper()
	must(t, client.FlushAll(t.Context()).Err())
	var pages map[string][]byte
	must(t, json.Unmarshal(unpackFile(t, "testdata", "upgrade", fmt.Sprintf("%s-format%d.json.gz", name, format)), &pages))
	for key, value := range pages {
		must(t, client.Set(t.Context(), key, value, 0).Err())
	}
	file := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.WriteFile(file, unpackFile(t, "ledger", "testdata", name+".db.gz"), 0o600))
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
		if want := a.Kind != Seen; (find(a.User, a.Kind, a.Target)&Direct != 0) != want {
			t.Errorf("%+v: found %t, want %t", a, !want, want)
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

// checkRebuilds reads the pages of all users. Each is rebuilt once: as foreign where an old page
// has its name, and as missing elsewhere.
func (u *upgrade) checkRebuilds(t *testing.T, pages uint32) {
	t.Helper()
	want := map[string]uint64{}
	seen := make(map[uint32]bool)
	owners := 0
	for _, a := range u.recorded {
		place, err := u.ledger.Place(t.Context(), u.userHash(a.User))
		must(t, err)
		if seen[place.Page] {
			continue
		}
		seen[place.Page] = true
		if place.Page >= ledger.DedicatedPages {
			owners++
		}
		n, err := u.client.Exists(t.Context(), pageKey(place.Page)).Result()
		must(t, err)
		if n > 0 {
			want["foreign"]++
		} else {
			want["missing"]++
		}
	}
	if layouts, err := u.ledger.Layouts(t.Context()); err != nil || layouts.Current != pages || layouts.Building != 0 {
		t.Fatalf("layouts %+v, %v, want %d pages", layouts, err, pages)
	}
	if owners != 2 || (want["foreign"] > 0) != (pages == oldPages) {
		t.Fatalf("%d dedicated pages and %v to rebuild: want two, and foreign pages in the first layout alone", owners, want)
	}
	u.checkRecorded(t)
	if got := u.rebuilt(); !maps.Equal(got, want) {
		t.Errorf("rebuilds %v, want %v", got, want)
	}
	u.checkRecorded(t)
	if got := u.rebuilt(); !maps.Equal(got, want) {
		t.Errorf("rebuilds %v when all is read again, want %v", got, want)
	}
	for page := range seen {
		key := pageKey(page)
		if page >= oldPages { // its slot depends on its users
			key = u.keyOfPart(t, "p"+strconv.FormatUint(uint64(page), 10))
		}
		if page >= pages && page < ledger.DedicatedPages {
			slot := (page - pages) / (pages / oldPages)
			if want := fmt.Sprintf("fav:{feed/%d}:p%d:bits", slot, page); key != want {
				t.Errorf("page %d has the key %s, want %s", page, key, want)
			}
		}
		if n, err := u.client.Exists(t.Context(), key).Result(); err != nil || n != 1 {
			t.Errorf("page %d: no key %q, %v", page, key, err)
		}
	}
}

// pageKey returns the key of a page that is named after its number alone: one of the first layout.
func pageKey(page uint32) string { return fmt.Sprintf("fav:{feed/%d}:bits", page) }

// keyOfPart returns the key of the page that has the part in its name.
func (u *upgrade) keyOfPart(t *testing.T, part string) string {
	t.Helper()
	keys, err := u.client.Keys(t.Context(), "fav:*:"+part+":bits").Result()
	must(t, err)
	if len(keys) != 1 {
		t.Errorf("keys %v of %s, want one", keys, part)
		return ""
	}
	return keys[0]
}

func (u *upgrade) rebuilt() map[string]uint64 {
	rebuilds := maps.Clone(u.Stats().Rebuilds)
	maps.DeleteFunc(rebuilds, func(_ string, n uint64) bool { return n == 0 })
	return rebuilds
}

// checkWindows records posts as seen by those who had windows. What was seen before the upgrade is
// not read, and left to expire; the new windows are in the slots of the old ones.
func (u *upgrade) checkWindows(t *testing.T) {
	t.Helper()
	before := u.windowKeys(t, "seen-*")
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
	if after := u.windowKeys(t, "seen-*"); !slices.Equal(after, before) {
		t.Errorf("keys of old windows %v, want %v", after, before)
	}
	var want []string
	for _, key := range before {
		slot, rest, _ := strings.Cut(key, ":seen-")
		hash, err := strconv.ParseUint(rest[:strings.IndexByte(rest, '-')], 16, 64)
		must(t, err)
		want = append(want, slot+":seen."+strconv.FormatUint(hash, 36)+":bits")
	}
	slices.Sort(want)
	if after := u.windowKeys(t, "seen.*"); !slices.Equal(after, slices.Compact(want)) {
		t.Errorf("keys of windows %v, want %v", after, want)
	}
	u.checkRecorded(t)
}

func (u *upgrade) windowKeys(t *testing.T, part string) []string {
	t.Helper()
	keys, err := u.client.Keys(t.Context(), "fav:*:"+part+":bits").Result()
	must(t, err)
	slices.Sort(keys)
	return keys
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

// TestUpgradeGrows changes the number of pages of an old ledger that was being changed. Old pages
// of the first number are closed before, and expire.
func TestUpgradeGrows(t *testing.T) {
	u := openUpgrade(t, redistest.Start(t).Client(), "half", 3)
	grow(t, u.Recorder, 256)
	u.checkRecorded(t)
	u.checkWindows(t)
	for page := range uint32(oldPages) {
		if left, err := u.client.TTL(t.Context(), pageKey(page)).Result(); err != nil || left <= 0 || left > 24*time.Hour {
			t.Errorf("page %d of the first layout expires in %v, %v", page, left, err)
		}
	}
}

// TestUpgradeScrub has a scrub rebuild all pages before anybody reads them.
func TestUpgradeScrub(t *testing.T) {
	client := redistest.Start(t).Client()
	for _, name := range []string{"never", "grown"} {
		u := openUpgrade(t, client, name, 3)
		_, err := u.Recorder.Scrubber().Scrub(0)
		must(t, err)
		for u.Recorder.Scrubber().ScrubStatus().Running {
			time.Sleep(time.Millisecond)
		}
		progress := u.Recorder.Scrubber().ScrubStatus()
		reason, other := "foreign", "missing"
		if name == "grown" {
			reason, other = other, reason
		}
		// The first layout has old pages, but dedicated pages have other names there, too.
		if progress.Done != progress.All || progress.Failed+progress.Unasked > 0 || progress.Found[reason] < 10 || progress.Found[other] > 2 {
			t.Errorf("%s: scrub %+v, want %s pages, and two %s ones at most", name, progress, reason, other)
		}
		before := u.rebuilt()
		u.checkRecorded(t)
		if got := u.rebuilt(); !maps.Equal(got, before) {
			t.Errorf("%s: rebuilds %v when pages are read after a scrub, want %v", name, got, before)
		}
		u.Close()
	}
}
