package sizing

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
)

func TestSpreadsAreWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]spread{"gamma": placed(10, 30, 3), "lognormal": single(300, 3)} {
		if !(math.Abs(s.Mean()-300) < 1e-9) {
			t.Errorf("%s: mean %g, want 300", name, s.Mean())
		}
		var mean, square float64
		before := 0.0
		for n := range 1_000_000 {
			below := s.CDF(float64(n) + 0.5)
			mean += (below - before) * float64(n)
			square += (below - before) * float64(n) * float64(n)
			before = below
		}
		if !(math.Abs(mean-300) < 1) || before < 0.999999 {
			t.Errorf("%s: mean of its probabilities %g, want 300; they sum up to %g", name, mean, before)
		}
		if got := over(s, func(n float64) float64 { return n }); !(math.Abs(got-mean) < 0.001*mean) {
			t.Errorf("%s: mean over keys %g, want %g", name, got, mean)
		}
		if got := weighted(s).Mean(); !(math.Abs(got-square/mean) < 0.02*got) {
			t.Errorf("%s: weighted mean %g, want %g", name, got, square/mean)
		}
		if q := quantile(s, 0.9); s.CDF(q+0.5) < 0.9 || s.CDF(q-0.5) >= 0.9 {
			t.Errorf("%s: the quantile of 0.9 is %g, below which are %g", name, q, s.CDF(q+0.5))
		}
	}
}

// kindsWith returns the built-in kinds with a limit for seen posts.
func kindsWith(most int) *activity.Kinds {
	all := slices.Clone(activity.BuiltinKinds().All())
	for i := range all {
		if all[i].Name == activity.Seen {
			all[i].Most = most
		}
	}
	kinds, err := activity.NewKinds(all...)
	if err != nil {
		panic(err)
	}
	return kinds
}

// draw returns a random input.
func draw(t *rapid.T) Input {
	in := example()
	in.Users = math.Pow(10, rapid.Float64Range(0, 9).Draw(t, "log users"))
	in.ActivitiesPerUser = rapid.Float64Range(0, 500).Draw(t, "activities")
	in.TwoWay = rapid.Float64Range(0, 1).Draw(t, "two-way")
	in.SeenPerDay = rapid.SampledFrom([]float64{0, 0.5, 30, 300, 1e4}).Draw(t, "seen")
	// Lower than the default, because shorter strings take less time to write.
	in.Kinds = kindsWith(rapid.SampledFrom([]int{1, 300, 3000}).Draw(t, "most"))
	in.FeedsPerSecond = rapid.Float64Range(0, 1e6).Draw(t, "feeds")
	in.Spread = rapid.Float64Range(0, 6).Draw(t, "spread")
	in.FalsePositiveRate = math.Pow(10, rapid.Float64Range(-6, -1).Draw(t, "log rate"))
	in.Pages = 1 << rapid.IntRange(14, 24).Draw(t, "log pages")
	in.Replicas = rapid.IntRange(0, 2).Draw(t, "replicas")
	return in
}

// TestMoreNeverCostsLess checks that more users, activities, seen posts or feeds never take or cost
// less, and neither does half the false-positive rate. A slightly lower rate may change the number
// of bits per key and save some of them.
func TestMoreNeverCostsLess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		more := in
		factor := rapid.Float64Range(1, 10).Draw(t, "factor")
		what := rapid.SampledFrom([]string{"users", "activities", "seen", "feeds", "rate"}).Draw(t, "more")
		switch what {
		case "users":
			more.Users *= factor
		case "activities":
			more.ActivitiesPerUser *= factor
		case "seen":
			more.SeenPerDay *= factor
		case "feeds":
			more.FeedsPerSecond *= factor
		case "rate":
			more.FalsePositiveRate /= 1 + factor
		}
		p, err := New(in)
		q, errMore := New(more)
		switch {
		case err != nil && errMore == nil:
			t.Fatalf("%v, but not with more %s", err, what)
		case err != nil || errMore != nil:
			return
		}
		for i := range p.Ways {
			wantNoLess(t, &p.Ways[i], &q.Ways[i])
		}
	})
}

func wantNoLess(t *rapid.T, less, more *Way) {
	const rounding = 1 - 1e-9
	switch {
	case more.Memory < less.Memory*rounding:
		t.Errorf("%s: %g bytes became %g", less.Name, less.Memory, more.Memory)
	case more.FeedECPU < less.FeedECPU*rounding:
		t.Errorf("%s: %g ECPU became %g", less.Name, less.FeedECPU, more.FeedECPU)
	case less.Cluster == nil && more.Cluster != nil:
		t.Errorf("%s: a larger input has a cluster, but a smaller one has none", less.Name)
	case less.Cluster != nil && more.Cluster != nil && more.Cluster.Shards < less.Cluster.Shards:
		t.Errorf("%s: %d shards became %d", less.Name, less.Cluster.Shards, more.Cluster.Shards)
	}
}

// TestChosenPages checks the same for users and memory with the default number of pages.
func TestChosenPages(t *testing.T) {
	t.Parallel()
	before := 0.0
	for users := 1e3; users < 1e9; users *= 1.1 {
		in := example()
		in.Users = users
		p := planned(t, in)
		if p.PagesMemory < before {
			t.Errorf("%g users take %g bytes on %d pages, fewer take %g", users, p.PagesMemory, p.Input.Pages, before)
		}
		before = p.PagesMemory
		if p.KeysPerPage > 2048 && p.Input.Pages < favfilter.MaxPages {
			t.Errorf("with %g users, a page has %g keys", users, p.KeysPerPage)
		}
	}
}

// TestFleet checks that a cluster has enough memory, CPU and bandwidth, and that one shard fewer
// has not.
func TestFleet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		in.SeenPerDay, in.NodeGbit = 0, 0.5
		in.NodeGiB = rapid.Float64Range(0.5, 64).Draw(t, "GiB")
		p, err := New(in)
		if err != nil {
			t.Skip(err)
		}
		w := p.Ways[0]
		f := w.Cluster
		if (f == nil) != (w.NoCluster != "") {
			t.Errorf("cluster %+v, but also a reason for none: %q", f, w.NoCluster)
		}
		if f == nil {
			return
		}
		if f.Memory > in.Fill || f.CPU > cpuTarget || max(f.Gbit, f.GbitIn) > in.NodeGbit || f.Nodes != f.Shards*(1+in.Replicas) {
			t.Errorf("over the limits: %+v", f)
		}
		free, fewer := in.NodeGiB*(1<<30)*(1-reserved)*in.Fill, f.Shards-1
		share := float64(f.Shards) / float64(max(1, fewer))
		if fewer > 0 && ofShard(w.Memory, fewer, w.scatter) <= free && f.CPU*share <= cpuTarget && max(f.Gbit, f.GbitIn)*share <= in.NodeGbit {
			t.Errorf("one shard fewer is enough: %+v", f)
		}
	})
	for _, c := range []struct {
		users, activities, feeds float64
		want                     string
	}{{1e8, 500, 10, "memory"}, {1e4, 1, 1e6, "CPU"}, {1e7, 500, 2e4, "network"}} {
		in := example()
		in.Users, in.ActivitiesPerUser, in.FeedsPerSecond, in.SeenPerDay, in.Pages, in.NodeGbit = c.users, c.activities, c.feeds, 0, 1<<14, 0.5
		p, err := New(in)
		if err != nil || p.Ways[0].Cluster == nil || p.Ways[0].Cluster.Limit != c.want {
			t.Errorf("%+v: %v, cluster %+v, want it to be limited by %s", c, err, p.Ways[0].Cluster, c.want)
		}
	}
	for _, c := range []struct {
		total, most, scatter float64
		want                 int
	}{{0, 1, 0, 1}, {10, 0, 0, 1}, {1, 1, 0, 1}, {10, 1, 0, 10}, {10.1, 1, 0, 11}, {10, 1, 0.1, 11}, {1e9, 1, 0, maxShards + 1}} {
		if got := shardsFor(c.total, c.most, c.scatter); got != c.want {
			t.Errorf("%g shared by shards that take %g: %d, want %d", c.total, c.most, got, c.want)
		}
	}
}

// TestNoFleet checks that the text says what is missing if no cluster is large enough.
func TestNoFleet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		users, feeds, gbit float64
		want               string
	}{
		{1e10, 1, 0, "over 16384 shards (memory)"},
		{1e6, MaxFeeds, 0, "over 16384 shards (CPU)"},
		{1e6, 1e6, 1e-9, "over 16384 shards (network)"},
	} {
		in := Input{
			Users: c.users, ActivitiesPerUser: 1000, FalsePositiveRate: 1e-5, FeedsPerSecond: c.feeds, Candidates: 2000, IDBytes: 12,
			Fill: 0.8, NodeGiB: 0.5, NodeGbit: c.gbit, Filter: "feed",
		}
		p := planned(t, in)
		if w := p.Ways[0]; w.Cluster != nil || w.NoCluster != c.want {
			t.Errorf("%+v, %q, want %q", w.Cluster, w.NoCluster, c.want)
		}
		var b strings.Builder
		if err := p.WriteText(&b); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%v, %s", err, &b)
		}
	}
}

func TestInputIsChecked(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for field, changes := range map[string][]func(*Input){
		"users":                 {func(in *Input) { in.Users = 0 }, func(in *Input) { in.Users = 1.1e10 }, func(in *Input) { in.Users = nan }},
		"activities_per_user":   {func(in *Input) { in.ActivitiesPerUser = -1 }, func(in *Input) { in.ActivitiesPerUser = 1e7 }},
		"two_way":               {func(in *Input) { in.TwoWay = 1.1 }},
		"seen_per_user_per_day": {func(in *Input) { in.SeenPerDay = 1e6 }, func(in *Input) { in.SeenPerDay = -1 }},
		"false_positive_rate":   {func(in *Input) { in.FalsePositiveRate = 0 }, func(in *Input) { in.FalsePositiveRate = 0.6 }},
		"feeds_per_second":      {func(in *Input) { in.FeedsPerSecond = -1 }, func(in *Input) { in.FeedsPerSecond = math.Inf(1) }},
		"spread":                {func(in *Input) { in.Spread = 31 }},
		"candidates":            {func(in *Input) { in.Candidates = 0 }, func(in *Input) { in.Candidates = 10_001 }},
		"id_bytes":              {func(in *Input) { in.IDBytes = 0 }, func(in *Input) { in.IDBytes = 257 }},
		"replicas":              {func(in *Input) { in.Replicas = -1 }, func(in *Input) { in.Replicas = 6 }},
		"fill":                  {func(in *Input) { in.Fill = 0 }, func(in *Input) { in.Fill = 1.1 }},
		"pages": {
			func(in *Input) { in.Pages = 3 }, func(in *Input) { in.Pages = 1 << 25 }, func(in *Input) { in.Pages, in.Users = 1, 1e9 },
		},
		"node_gib":  {func(in *Input) { in.NodeGiB = 0 }, func(in *Input) { in.NodeGiB = 2e5 }},
		"node_gbit": {func(in *Input) { in.NodeGbit = -1 }},
	} {
		for i, change := range changes {
			in := example()
			change(&in)
			_, err := New(in)
			if wrong, ok := errors.AsType[*InputError](err); !ok || wrong.Field != field {
				t.Errorf("%s, case %d: %v", field, i, err)
			}
		}
	}
}

// TestService checks that the service takes CPU for each feed and each candidate, and memory for
// each page. The text must call figures other than those of Redis estimates.
func TestService(t *testing.T) {
	t.Parallel()
	in := example()
	in.Pages = 1 << 16
	before := planned(t, in).Service
	if want := in.FeedsPerSecond * before.FeedCPU / 1e6 * 2; before.Cores < 0.999*want || before.Cores > 1.001*want {
		t.Errorf("%g cores, half busy, for %g feeds a second of %g us each", before.Cores, in.FeedsPerSecond, before.FeedCPU)
	}
	in.Candidates, in.Pages, in.FeedsPerSecond = 2*in.Candidates, 2*in.Pages, 2*in.FeedsPerSecond
	p := planned(t, in)
	after := p.Service
	if after.FeedCPU <= before.FeedCPU || after.FeedCPU >= 2*before.FeedCPU || after.FeedCPUJSON < after.FeedCPU {
		t.Errorf("twice the candidates: %g us instead of %g, by JSON %g", after.FeedCPU, before.FeedCPU, after.FeedCPUJSON)
	}
	if more := after.Known - before.Known; more != before.Known || after.Memory-before.Memory != more || after.MemoryFull <= after.Memory {
		t.Errorf("twice the pages: %+v instead of %+v", after, before)
	}
	var b strings.Builder
	must(t, p.WriteText(&b))
	for _, want := range []string{"\nPostgreSQL, estimated: 120,000,000 rows, ", "\n  indexes  ", "\nservice, estimated: ", "\n  CPU of a feed  ", " when it is full\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestKinds checks that kinds share the false-positive rate, and that windows of unknown size are
// named.
func TestKinds(t *testing.T) {
	t.Parallel()
	in := example()
	before := planned(t, in)
	all := append(slices.Clone(activity.BuiltinKinds().All()),
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "glimpse", Plural: "glimpses", Target: activity.Post, Effect: activity.Drop, Window: 24 * 3600 * 1e9})
	var err error
	in.Kinds, err = activity.NewKinds(all...)
	must(t, err)
	after := planned(t, in)
	if after.PagesMemory <= before.PagesMemory || after.Ways[0].FeedRequest <= before.Ways[0].FeedRequest {
		t.Errorf("with two kinds more, pages of %g bytes instead of %g, requests of %g instead of %g",
			after.PagesMemory, before.PagesMemory, after.Ways[0].FeedRequest, before.Ways[0].FeedRequest)
	}
	if notes := strings.Join(after.Notes, " "); !strings.Contains(notes, "how much of it there is: seen, glimpse.") {
		t.Errorf("notes: %s", notes)
	}
}
