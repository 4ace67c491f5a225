package sizing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

const (
	day     = 24 * time.Hour
	partLen = 5 * day
)

// firstPart returns the start of a part of the window of seen posts.
func firstPart() time.Time {
	return time.UnixMilli(time.Now().UnixMilli() / partLen.Milliseconds() * partLen.Milliseconds())
}

// planSeen returns the plan for users who all see the same number of posts a day, on 256 pages.
func planSeen(t *testing.T, users, daily int) *Plan {
	t.Helper()
	in := example()
	in.Users, in.SeenPerDay, in.Pages, in.Filter, in.Spread = float64(users), float64(daily), 256, "sized", 0.01
	return planned(t, in)
}

// TestWindowsTakeWhatIsPlanned checks windows that the service records for users who see the same
// number of posts twice a day. They must take the planned memory, within 3 %.
func TestWindowsTakeWhatIsPlanned(t *testing.T) {
	for _, c := range []struct{ daily, users int }{{20, 200}, {60, 100}, {100, 80}} {
		t.Run(fmt.Sprint(c.daily), func(t *testing.T) {
			cluster, client := startEmpty(t)
			now := firstPart().Add(-day / 4)
			r := service(t, cluster.Client(), 256, func() time.Time { return now })
			for range 7*10 + 5 { // to the middle of a part
				now = now.Add(day / 2)
				batch := make([]activity.Activity, 0, c.users*c.daily/2)
				for u := range c.users {
					for i := range c.daily / 2 {
						batch = append(batch, activity.Activity{User: userID(u), Kind: activity.Seen, Target: fmt.Sprint(now.Unix(), " ", i)})
					}
				}
				_, err := r.Record(t.Context(), batch)
				must(t, err)
			}
			if n := client.DBSize(t.Context()).Val(); n != int64(c.users) {
				t.Errorf("%d users have %d strings", c.users, n)
			}
			plan := planSeen(t, c.users, c.daily)
			testWindowBytes(t, client, plan)
			r.Close()
			wantNear(t, "memory of windows", float64(takenBytes(t, client)), plan.WindowsMemory, 0.03)
		})
	}
}

// testWindowBytes compares the mean length of the strings with that of the model, within 1 %.
func testWindowBytes(t *testing.T, client *redis.Client, plan *Plan) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	must(t, err)
	bytes := 0.0
	for _, key := range keys {
		bytes += float64(client.StrLen(t.Context(), key).Val())
	}
	k, _ := plan.Input.window()
	w, err := newWindows(k, plan.Input.rates().Window)
	must(t, err)
	want := over(w.keys(plan.Input.SeenPerDay, plan.Input.Spread), w.length)
	wantNear(t, "bytes of a string", bytes/float64(len(keys)), want, 0.01)
}

// TestLongWindowsTakeWhatIsPlanned checks windows of 20,000 users who have seen 20 posts a day for
// more than 60 days. They must take the planned memory, within 3 %, at the middle of a part and on
// average over several moments of a part. 10 million such users must never take more than 16 GiB.
func TestLongWindowsTakeWhatIsPlanned(t *testing.T) {
	const users, daily, parts = 20_000, 20, 12
	cluster, client := startEmpty(t)
	store, err := redisstore.New(cluster.Client(), "sized")
	must(t, err)
	plan := planSeen(t, users, daily)
	w, err := seen.Open(store, seen.Config{
		Name: activity.Seen, Length: 30 * day, Seed: 1, Pages: plan.Input.Pages, FalsePositiveRate: plan.Input.rates().Window,
	})
	must(t, err)
	start := firstPart()
	from := start
	for part := range parts { // the users come at the end of each
		to := start.Add(time.Duration(part+1)*partLen - time.Minute)
		see(t, w, users, daily, from, to)
		from = to
	}
	phases := []float64{0.1, 0.3, 0.5, 0.7, 0.9}
	used := make([]float64, len(phases))
	for i, phase := range phases {
		to := start.Add(parts*partLen + time.Duration(phase*float64(partLen)))
		see(t, w, users, daily, from, to)
		from = to
		used[i] = float64(usedBytes(t, client))
	}
	if n := client.DBSize(t.Context()).Val(); n != users {
		t.Errorf("%d strings of %d users", n, users)
	}
	must(t, client.FlushAll(t.Context()).Err())
	empty := float64(usedBytes(t, client))
	mean := 0.0
	for i, phase := range phases {
		taken := used[i] - empty
		mean += taken / float64(len(phases))
		keys := daily * (30 + 5*phase)
		t.Logf("%.1f of a part over: %.0f bytes a user, %.2f a key; 10 million users take %.2f GiB",
			phase, taken/users, taken/users/keys, taken/users*1e7/(1<<30))
		if taken/users*1e7 > 16<<30 {
			t.Errorf("%.1f of a part over: %.0f bytes a user", phase, taken/users)
		}
	}
	wantNear(t, "memory of windows at the middle of a part", used[slices.Index(phases, 0.5)]-empty, plan.WindowsMemory, 0.03)
	wantNear(t, "mean memory of windows", mean, plan.WindowsMemory, 0.03)
}

// see records daily seen posts a day for each user, evenly from one moment to another. It writes
// them at the end.
func see(t *testing.T, w *seen.Windows, users, daily int, from, to time.Time) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	n := int(math.Round(to.Sub(from).Hours() / 24 * float64(daily)))
	for u := range users {
		group.Go(func() error { return seeOne(ctx, w, u, n, from, to) })
	}
	must(t, group.Wait())
}

// seeOne records n seen posts of one user.
func seeOne(ctx context.Context, w *seen.Windows, user, n int, from, to time.Time) error {
	owner := favfilter.HashKey(1, userID(user))
	var batch seen.Batch
	for i := range n {
		key := favfilter.HashKey(1, fmt.Sprint(user, " ", from.Unix(), " ", i))
		batch.Add(w, owner.H1, key, from.Add(to.Sub(from)*time.Duration(2*i+1)/time.Duration(2*n)), i)
	}
	_, err := batch.Write(ctx, to)
	return err
}

// TestSeenIsNeverRefused checks that there is a plan for every number of seen posts in the range,
// with any other values.
func TestSeenIsNeverRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		daily, spread, rate float64
		most                int
	}{
		{100, 3, 0.001, 10_000},
		{9e4, 3, 0.001, 10_000},
		{1e5, MaxSpread, 1e-8, 100_000},
		{1e5, 0, 0.5, 1},
		{1, MaxSpread, 0.5, 10_000},
		{1e-6, MaxSpread, 1e-8, 1},
	} {
		in := example()
		in.ActivitiesPerUser, in.SeenPerDay, in.Spread, in.FalsePositiveRate, in.Kinds = 1, c.daily, c.spread, c.rate, kindsWith(c.most)
		p := planned(t, in)
		const beside = 400 // bytes of the key, of its entries and of the list of runs
		if limit := in.Users * (beside + 12*float64(c.most)); !(p.WindowsMemory > 0 && p.WindowsMemory < limit) {
			t.Errorf("%+v: %g bytes", c, p.WindowsMemory)
		}
	}
}

// TestWindowLengths checks that the computed length of a string is that of a written one with as
// many keys, within 2 % and one bit per key of a part. At some numbers of keys, the fingerprints of
// a part get longer. More keys must never give a shorter string.
func TestWindowLengths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k, _ := activity.BuiltinKinds().Named(activity.Seen)
		k.Most = rapid.IntRange(1, 10_000).Draw(t, "most")
		k.Parts = rapid.IntRange(1, 64).Draw(t, "parts")
		w, err := newWindows(k, math.Pow(10, rapid.Float64Range(-8, -1).Draw(t, "log rate")))
		if err != nil {
			t.Fatal(err)
		}
		keys := rapid.IntRange(1, 2*k.Most).Draw(t, "keys")
		got, written := w.length(float64(keys)), w.write(keys)
		// A string with few keys may be a run longer than one with some more. The plan takes the
		// longest, because more keys never take less.
		for n := max(1, keys/2); n < min(keys, 100); n++ {
			written = max(written, w.write(n))
		}
		within := 0.02*written + float64(keys)/float64(k.Parts)/8 + 2
		if keys < k.Most*9/10 && !(math.Abs(got-written) <= within) {
			t.Errorf("%d keys take %g bytes, %g when written", keys, got, written)
		}
		more := keys + rapid.IntRange(1, k.Most).Draw(t, "more")
		if length := w.length(float64(more)); length < got {
			t.Errorf("%d keys take %g bytes, %d keys %g", keys, got, more, length)
		}
	})
}

// TestMostIsKept checks that users who see more than the most take as much memory as users who see
// twice as many. The plan must say what share is forgotten early.
func TestMostIsKept(t *testing.T) {
	t.Parallel()
	in := example()
	in.SeenPerDay, in.Spread = 20, 0.01 // 650 in a string
	in.Kinds = kindsWith(325)
	less := planned(t, in)
	in.SeenPerDay *= 2
	more := planned(t, in)
	wantNear(t, "bytes for 40 a day instead of 20", more.WindowsMemory, less.WindowsMemory, 1e-9)
	wantNear(t, "share that is forgotten", less.Forgotten, 0.5, 0.01)
	wantNear(t, "share that is forgotten", more.Forgotten, 0.75, 0.01)
	var b strings.Builder
	must(t, more.WriteText(&b))
	if want := "keeps the last 325 posts that a user has seen. It forgets 75.0 % of"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, &b)
	}
	in.Kinds = nil
	if plan := planned(t, in); plan.Forgotten > 1e-9 {
		t.Errorf("a share of %g of 1,300 posts is forgotten, want none", plan.Forgotten)
	}
}
