package sizing

import (
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
	for name, s := range map[string]spread{"of pages": placed(10, 30, 3), "of users": newSpread(300, 3)} {
		if !(math.Abs(s.mean()-300) < 1e-9) {
			t.Errorf("%s: mean %g, want 300", name, s.mean())
		}
		var mean, square float64
		before := 0.0
		for n := range 1_000_000 {
			below := s.below(float64(n) + 0.5)
			mean += (below - before) * float64(n)
			square += (below - before) * float64(n) * float64(n)
			before = below
		}
		if !(math.Abs(mean-300) < 1) || before < 0.999999 {
			t.Errorf("%s: mean of its probabilities %g, want 300; they sum up to %g", name, mean, before)
		}
		if got := s.over(func(n float64) float64 { return n }); !(math.Abs(got-mean) < 0.001*mean) {
			t.Errorf("%s: mean over keys %g, want %g", name, got, mean)
		}
		if got := s.weighted().mean(); !(math.Abs(got-square/mean) < 0.02*got) {
			t.Errorf("%s: weighted mean %g, want %g", name, got, square/mean)
		}
		if q := s.most99(); s.below(q+0.5) < 0.99 || s.below(q-0.5) >= 0.99 {
			t.Errorf("%s: the quantile of 0.99 is %g, below which are %g", name, q, s.below(q+0.5))
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

// draw returns a random input, number of pages, and kinds.
func draw(t *rapid.T) (Input, uint32, *activity.Kinds) {
	in := example()
	in.Users = math.Pow(10, rapid.Float64Range(0, 9).Draw(t, "log users"))
	in.ActivitiesPerUser = rapid.Float64Range(0, 500).Draw(t, "activities")
	in.TwoWay = rapid.Float64Range(0, 1).Draw(t, "two-way")
	in.SeenPerUserPerDay = rapid.SampledFrom([]float64{0, 0.5, 30, 300, 1e4}).Draw(t, "seen")
	in.FeedsPerSecond = rapid.Float64Range(0, 1e6).Draw(t, "feeds")
	in.Spread = rapid.Float64Range(0, 6).Draw(t, "spread")
	in.FalsePositiveRate = math.Pow(10, rapid.Float64Range(-6, -1).Draw(t, "log rate"))
	in.Replicas = rapid.IntRange(0, 2).Draw(t, "replicas")
	kinds := kindsWith(rapid.SampledFrom([]int{1, 300, 3000}).Draw(t, "most"))
	return in, 1 << rapid.IntRange(14, 24).Draw(t, "log pages"), kinds
}

// needs returns what all shards of a plan do together: CPU, input and output.
func needs(p *Plan) [3]float64 {
	n := &p.Nodes
	return [3]float64{n.CPU * n.Shards, n.In * n.Shards, n.Out * n.Shards}
}

// TestMoreNeverCostsLess checks that more users, activities, seen posts or feeds never take or cost
// less, and neither does half the false-positive rate. A slightly lower rate may change the number
// of bits per key and save some of them.
func TestMoreNeverCostsLess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, pages, kinds := draw(t)
		more := in
		factor := rapid.Float64Range(1, 10).Draw(t, "factor")
		what := rapid.SampledFrom([]string{"users", "activities", "seen", "feeds", "rate"}).Draw(t, "more")
		switch what {
		case "users":
			more.Users *= factor
		case "activities":
			more.ActivitiesPerUser *= factor
		case "seen":
			more.SeenPerUserPerDay *= factor
		case "feeds":
			more.FeedsPerSecond *= factor
		case "rate":
			more.FalsePositiveRate /= 1 + factor
		}
		p, err := New(in, pages, kinds)
		q, errMore := New(more, pages, kinds)
		switch {
		case err != nil && errMore == nil:
			t.Fatalf("%v, but not with more %s", err, what)
		case err != nil || errMore != nil:
			return
		}
		// Few users on many pages have another distribution.
		const rounding, approximate, rough = 0.999, 0.97, 0.95
		switch {
		case q.Redis.Memory < p.Redis.Memory*rounding:
			t.Errorf("%g bytes became %g", p.Redis.Memory, q.Redis.Memory)
		case q.Redis.ECPU < p.Redis.ECPU*approximate:
			t.Errorf("%g ECPU became %g", p.Redis.ECPU, q.Redis.ECPU)
		}
		fewer := false // shards may be, if what they do is a little less
		before, after := needs(p), needs(q)
		for i := range before {
			fewer = fewer || after[i] < before[i]
			if after[i] < before[i]*rough {
				t.Errorf("CPU, input and output of %g became %g", before, after)
			}
		}
		if q.Nodes.Shards < p.Nodes.Shards && !fewer {
			t.Errorf("%g shards became %g", p.Nodes.Shards, q.Nodes.Shards)
		}
	})
}

// TestChosenPages checks the same for users and memory with the default number of pages.
func TestChosenPages(t *testing.T) {
	t.Parallel()
	before := 0.0
	for users := 1e3; users < 1e9; users *= 1.1 {
		in := example()
		in.Users = users
		p := planned(t, in, 0)
		if p.Redis.Pages < before {
			t.Errorf("%g users take %g bytes on %d pages, fewer take %g", users, p.Redis.Pages, p.Pages.Number, before)
		}
		before = p.Redis.Pages
		if p.Pages.Keys > 2048 && p.Pages.Number < favfilter.MaxPages {
			t.Errorf("with %g users, a page has %g keys", users, p.Pages.Keys)
		}
	}
}

// TestNodes checks that a cluster has enough memory, CPU and bandwidth, and that one shard fewer
// has not.
func TestNodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, pages, kinds := draw(t)
		in.NodeGbit, in.NodeGiB = 0.5, rapid.Float64Range(0.5, 64).Draw(t, "GiB")
		p, err := New(in, pages, kinds)
		if err != nil {
			t.Skip(err)
		}
		n := p.Nodes
		load := max(n.Memory/n.Usable, n.CPU/cpuTarget, n.In/in.NodeGbit, n.Out/in.NodeGbit)
		if load > 1+1e-9 || n.Nodes != n.Shards*float64(1+in.Replicas) {
			t.Errorf("over the limits: %+v", n)
		}
		if n.Shards > 1 && load*n.Shards/(n.Shards-1) <= 1 {
			t.Errorf("one shard fewer is enough: %+v", n)
		}
	})
	for _, c := range []struct {
		users, activities, feeds, gbit float64
		want                           string
		shards                         float64
	}{
		{1e4, 1, 1, 0, "memory", 1},
		{1e8, 500, 10, 0.5, "memory", 33},
		{1e4, 1, 1e6, 0, "CPU", 14},
		{1e7, 500, 2e5, 0.5, "network", 85},
	} {
		in := example()
		in.Users, in.ActivitiesPerUser, in.FeedsPerSecond, in.NodeGbit = c.users, c.activities, c.feeds, c.gbit
		if n := planned(t, in, 0).Nodes; n.Limit != c.want || n.Shards != c.shards {
			t.Errorf("%+v: %+v", c, n)
		}
	}
}

// TestNoCluster checks that the plan says so if no cluster is large enough.
func TestNoCluster(t *testing.T) {
	t.Parallel()
	in := example()
	in.Users, in.ActivitiesPerUser, in.NodeGiB = 1e10, 1000, 0.5
	var b strings.Builder
	must(t, planned(t, in, 0).WriteText(&b))
	if want := "No cluster is large enough: it has at most 16384 shards."; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, &b)
	}
}

func TestInputIsChecked(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for flag, changes := range map[string][]func(*Input){
		"users":                 {func(in *Input) { in.Users = 0 }, func(in *Input) { in.Users = 1.1e10 }, func(in *Input) { in.Users = nan }},
		"activities-per-user":   {func(in *Input) { in.ActivitiesPerUser = -1 }, func(in *Input) { in.ActivitiesPerUser = 1e7 }},
		"two-way":               {func(in *Input) { in.TwoWay = 1.1 }},
		"seen-per-user-per-day": {func(in *Input) { in.SeenPerUserPerDay = 1e6 }, func(in *Input) { in.SeenPerUserPerDay = -1 }},
		"false-positive-rate":   {func(in *Input) { in.FalsePositiveRate = 0 }, func(in *Input) { in.FalsePositiveRate = 0.6 }},
		"feeds-per-second":      {func(in *Input) { in.FeedsPerSecond = -1 }, func(in *Input) { in.FeedsPerSecond = inf }},
		"spread":                {func(in *Input) { in.Spread = 31 }},
		"candidates":            {func(in *Input) { in.Candidates = 0 }, func(in *Input) { in.Candidates = 10_001 }},
		"id-bytes":              {func(in *Input) { in.IDBytes = 0 }, func(in *Input) { in.IDBytes = activity.MaxIDBytes + 1 }},
		"replicas":              {func(in *Input) { in.Replicas = -1 }, func(in *Input) { in.Replicas = 6 }},
		"fill":                  {func(in *Input) { in.Fill = 0 }, func(in *Input) { in.Fill = 1.1 }},
		"node-gib":              {func(in *Input) { in.NodeGiB = 0 }, func(in *Input) { in.NodeGiB = 2e5 }},
		"node-gbit":             {func(in *Input) { in.NodeGbit = -1 }},
	} {
		for i, change := range changes {
			in := example()
			change(&in)
			if err := in.Check(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "--"+flag+": ") {
				t.Errorf("%s, case %d: %v", flag, i, err)
			}
		}
	}
	in := example()
	in.Users = 1e9
	if _, err := New(in, 1, activity.BuiltinKinds()); err == nil || !strings.HasPrefix(err.Error(), "--pages: ") {
		t.Errorf("all on one page: %v", err)
	}
}

// TestService checks that the service takes CPU for each feed and each candidate, and memory for
// each page.
func TestService(t *testing.T) {
	t.Parallel()
	in := example()
	before := planned(t, in, 1<<16).Service
	if want := in.FeedsPerSecond * before.CPU / 1e6 * 2; before.Cores < 0.999*want || before.Cores > 1.001*want {
		t.Errorf("%g cores, half busy, for %g feeds a second of %g us each", before.Cores, in.FeedsPerSecond, before.CPU)
	}
	in.Candidates, in.FeedsPerSecond = 2*in.Candidates, 2*in.FeedsPerSecond
	after := planned(t, in, 1<<17).Service
	if after.CPU <= before.CPU || after.CPU >= 2*before.CPU || after.CPUJSON < after.CPU {
		t.Errorf("twice the candidates: %g us instead of %g, by JSON %g", after.CPU, before.CPU, after.CPUJSON)
	}
	if more := after.Memory - before.Memory; more != 40<<16 || after.MemoryFull-before.MemoryFull != more {
		t.Errorf("twice the pages: %+v instead of %+v", after, before)
	}
}

// TestKinds checks that kinds share the false-positive rate, and that windows of unknown size are
// named.
func TestKinds(t *testing.T) {
	t.Parallel()
	before := planned(t, example(), 0)
	all := append(slices.Clone(activity.BuiltinKinds().All()),
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "glimpse", Plural: "glimpses", Target: activity.Post, Effect: activity.Drop, Window: 24 * 3600 * 1e9})
	kinds, err := activity.NewKinds(all...)
	must(t, err)
	after, err := New(example(), 0, kinds)
	must(t, err)
	if after.Redis.Pages <= before.Redis.Pages || after.Redis.Request <= before.Redis.Request {
		t.Errorf("with two kinds more, pages of %g bytes instead of %g, requests of %g instead of %g",
			after.Redis.Pages, before.Redis.Pages, after.Redis.Request, before.Redis.Request)
	}
	if notes := strings.Join(after.Notes, " "); !strings.Contains(notes, "how much of it there is: seen, glimpse.") {
		t.Errorf("notes: %s", notes)
	}
}

// TestFullPageFits checks that a page with the most keys that the plan counts fits at the lowest
// rate.
func TestFullPageFits(t *testing.T) {
	t.Parallel()
	_, _, err := pageBytes(pageName(0), fullPage, keySize{1e-11, map[int]float64{13: 1}})
	must(t, err)
}
