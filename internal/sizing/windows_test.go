package sizing

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	in.Users, in.SeenPerUserPerDay, in.Spread = float64(users), float64(daily), 0.01
	return planned(t, in, 256)
}

// TestWindowsTakeWhatIsPlanned checks windows of one size, chosen at random.
// TestLongWindowSizes takes all.
func TestWindowsTakeWhatIsPlanned(t *testing.T) { wantWindowsAsPlanned(t, 1) }

func TestLongWindowSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("TestWindowsTakeWhatIsPlanned takes one of them")
	}
	wantWindowsAsPlanned(t, 3)
}

// wantWindowsAsPlanned checks windows of so many sizes, which the service records for users who see
// the same number of posts twice a day. They must take the planned memory, within 3 %.
func wantWindowsAsPlanned(t *testing.T, sizes int) {
	t.Helper()
	all := []struct{ daily, users int }{{20, 200}, {60, 100}, {90, 80}}
	for _, i := range rand.Perm(len(all))[:sizes] {
		c := all[i]
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
			wantNear(t, "memory of windows", float64(takenBytes(t, client)), plan.Redis.Windows, 0.03)
		})
	}
}

// testWindowBytes compares the mean length of the strings with that of the model, within 2 %.
func testWindowBytes(t *testing.T, client *redis.Client, plan *Plan) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	must(t, err)
	bytes := 0.0
	for _, key := range keys {
		bytes += float64(client.StrLen(t.Context(), key).Val())
	}
	n := plan.Input.SeenPerUserPerDay * 32.5
	want := windowBytes(n, activity.DefaultParts, activity.DefaultMost, windowRate(plan.Input))
	wantNear(t, "bytes of a string", bytes/float64(len(keys)), want, 0.02)
}

// windowRate returns the false-positive rate of a key in the window of seen posts.
func windowRate(in Input) float64 {
	kinds := activity.BuiltinKinds()
	k, _ := kinds.Named(activity.Seen)
	return kinds.Rates(in.FalsePositiveRate).OfWindow(k)
}

// TestLongWindowsTakeWhatIsPlanned checks windows of 5,000 users who have seen 20 posts a day for
// more than 60 days. They must take the planned memory, within 3 %, at the middle of a part and on
// average over several moments of a part. 10 million such users must never take more than 21 GiB.
func TestLongWindowsTakeWhatIsPlanned(t *testing.T) {
	if testing.Short() {
		t.Skip("TestLongPagesTakeWhatIsPlanned measures the same server")
	}
	const users, daily, parts = 5_000, 20, 12
	cluster, client := startEmpty(t)
	store, err := redisstore.New(cluster.Client(), "feed")
	must(t, err)
	plan := planSeen(t, users, daily)
	w, err := seen.Open(store, seen.Config{
		Name: activity.Seen, Length: 30 * day, Seed: 1, Pages: plan.Pages.Number, FalsePositiveRate: windowRate(plan.Input),
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
		if taken/users*1e7 > 21<<30 {
			t.Errorf("%.1f of a part over: %.0f bytes a user", phase, taken/users)
		}
	}
	wantNear(t, "memory of windows at the middle of a part", used[slices.Index(phases, 0.5)]-empty, plan.Redis.Windows, 0.03)
	wantNear(t, "mean memory of windows", mean, plan.Redis.Windows, 0.03)
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
		{1e5, 30, 1e-8, 100_000},
		{1e5, 0, 0.5, 1},
		{1, 30, 0.5, 10_000},
		{1e-6, 30, 1e-8, 1},
	} {
		in := example()
		in.ActivitiesPerUser, in.SeenPerUserPerDay, in.Spread, in.FalsePositiveRate = 1, c.daily, c.spread, c.rate
		p, err := New(in, 0, kindsWith(c.most))
		must(t, err)
		const beside = 400 // bytes of the key, of its entries and of the list of runs
		if limit := in.Users * (beside + 12*float64(c.most)); !(p.Redis.Windows > 0 && p.Redis.Windows < limit) {
			t.Errorf("%+v: %g bytes", c, p.Redis.Windows)
		}
	}
}

// TestWindowLengths compares the computed length of a string with that of a written one with as
// many keys. It must agree within 5 % and a few bytes. Near the most keys, within 20 % is enough.
// More keys must never give a shorter string.
func TestWindowLengths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most, parts := rapid.IntRange(1000, 10_000).Draw(t, "most"), rapid.IntRange(5, 12).Draw(t, "parts")
		rate := math.Pow(10, rapid.Float64Range(-8, -2).Draw(t, "log rate"))
		keys := rapid.IntRange(1, 2*most).Draw(t, "keys")
		got := windowBytes(float64(keys), float64(parts), float64(most), rate)
		written := writeWindow(t, seen.Config{Length: 30 * day, Parts: parts, Most: most, FalsePositiveRate: rate}, keys)
		within := 0.05
		if keys > most/2 {
			within = 0.2
		}
		if !(math.Abs(got-written) <= within*written+8) {
			t.Errorf("%d keys take %g bytes, %g when written: %+.1f %%", keys, got, written, 100*(got-written)/written)
		}
		more := keys + rapid.IntRange(1, most).Draw(t, "more")
		if length := windowBytes(float64(more), float64(parts), float64(most), rate); length < got {
			t.Errorf("%d keys take %g bytes, %d keys %g", keys, got, more, length)
		}
	})
}

// writeWindow writes the window of a user who has recorded so many keys, evenly until the middle of
// a part, and returns the length of its string. Keys beyond the most are evicted an eighth of it at
// a time, so half of that is left on average.
func writeWindow(t *rapid.T, c seen.Config, keys int) float64 {
	store := &favfilter.Memory{}
	w, err := seen.Open(store, c)
	must(t, err)
	part := (c.Length/time.Duration(c.Parts) + time.Millisecond - 1).Truncate(time.Millisecond)
	now := time.UnixMilli(0).Add(time.Duration(c.Parts+2)*part + part/2)
	kept := min(keys, c.Most+c.Most/16)
	var batch seen.Batch
	for i := range kept {
		before := (float64(kept-i) - 0.5) / float64(keys) * float64(c.Length+part/2)
		batch.Add(w, 0, favfilter.HashKey(0, fmt.Sprint(i)), now.Add(-time.Duration(before)), i)
	}
	_, err = batch.Write(context.Background(), now)
	must(t, err)
	loaded, _, err := store.Load(context.Background(), []favfilter.PageID{w.ID(0)})
	must(t, err)
	return float64(len(loaded[0].Value))
}

// TestMostIsKept checks that users who see more than the most take as much memory as users who see
// twice as many. The plan must say what share is forgotten early.
func TestMostIsKept(t *testing.T) {
	t.Parallel()
	in := example()
	in.SeenPerUserPerDay, in.Spread = 20, 0.01 // 650 in a string
	less, err := New(in, 0, kindsWith(325))
	must(t, err)
	in.SeenPerUserPerDay *= 2
	more, err := New(in, 0, kindsWith(325))
	must(t, err)
	wantNear(t, "bytes for 40 a day instead of 20", more.Redis.Windows, less.Redis.Windows, 1e-9)
	wantNear(t, "share that is forgotten", less.Redis.Forgotten, 0.5, 0.01)
	wantNear(t, "share that is forgotten", more.Redis.Forgotten, 0.75, 0.01)
	if plan := planned(t, in, 0); plan.Redis.Forgotten > 1e-9 {
		t.Errorf("a share of %g of 1,300 posts is forgotten, want none", plan.Redis.Forgotten)
	}
}
