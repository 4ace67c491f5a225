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

// Values of the regularized incomplete gamma function: P(1, x) = 1 - e^-x, P(1/2, x) = erf(sqrt x), and for whole a
// the sum of Poisson's probabilities.
func TestGamma(t *testing.T) {
	t.Parallel()
	poisson := func(a int, x float64) float64 { // 1 - P(fewer than a)
		p, sum := math.Exp(-x), 0.0
		for i := range a {
			sum += p
			p *= x / float64(i+1)
		}
		return 1 - sum
	}
	for _, x := range []float64{0.01, 0.5, 1, 3, 20, 40, 100, 300} {
		for _, c := range []struct{ a, want float64 }{
			{0.5, math.Erf(math.Sqrt(x))}, {1, 1 - math.Exp(-x)}, {5, poisson(5, x)}, {19, poisson(19, x)},
			{20, poisson(20, x)}, {40, poisson(40, x)}, {300, poisson(300, x)},
		} {
			if got := gammaBelow(c.a, x); !(math.Abs(got-c.want) < 1e-11) {
				t.Errorf("P(%g, %g) is %.15f, want %.15f", c.a, x, got, c.want)
			}
		}
	}
	// Half of it, nearly, lies below the mean where a is large: the median is a - 1/3.
	if got := gammaBelow(1e8, 1e8-1./3); !(math.Abs(got-0.5) < 1e-8) {
		t.Errorf("P(1e8, median) is %.12f", got)
	}
}

// A ladder has the size of every number of keys.
func TestLadder(t *testing.T) {
	t.Parallel()
	calls := 0
	size := func(keys int) (placeBytes, error) {
		calls++
		shape, err := favfilter.ShapeFor(keys, 0.001)
		return placeBytes{float64(shape.Bits), float64(shape.Hashes)}, err
	}
	const most = 50_000
	l, err := climb(most, size)
	must(t, err)
	if calls > 2000 {
		t.Errorf("%d sizes were asked for, to find %d steps", calls, len(l))
	}
	for keys := range most + 1 {
		want, err := size(keys)
		must(t, err)
		if got := l.at(float64(keys)); got != want {
			t.Fatalf("%d keys: %v, want %v", keys, got, want)
		}
	}
}

func TestSpreadsAreWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]spread{"gamma": placed(10, 30, 3), "lognormal": single(300, 3)} {
		if !(math.Abs(s.mean()-300) < 1e-9) {
			t.Errorf("%s: mean %g, want 300", name, s.mean())
		}
		var mean, square float64
		before := 0.0
		for n := range 1_000_000 {
			below := s.below(float64(n))
			mean += (below - before) * float64(n)
			square += (below - before) * float64(n) * float64(n)
			before = below
		}
		if !(math.Abs(mean-300) < 1) || before < 0.999999 {
			t.Errorf("%s: mean of its probabilities %g, want 300; they sum up to %g", name, mean, before)
		}
		if got := s.weighted().mean(); !(math.Abs(got-square/mean) < 0.02*got) {
			t.Errorf("%s: weighted mean %g, want %g", name, got, square/mean)
		}
		if q := quantile(s, 0.9); s.below(q) < 0.9 || s.below(q-1) >= 0.9 {
			t.Errorf("%s: the quantile of 0.9 is %g, below which are %g", name, q, s.below(q))
		}
	}
}

// draw makes any input.
func draw(t *rapid.T) Input {
	in := example()
	in.Users = math.Pow(10, rapid.Float64Range(0, 9).Draw(t, "log users"))
	in.ActivitiesPerUser = rapid.Float64Range(0, 500).Draw(t, "activities")
	in.TwoWay = rapid.Float64Range(0, 1).Draw(t, "two-way")
	in.SeenPerDay = rapid.SampledFrom([]float64{0, 0.5, 30, 300}).Draw(t, "seen")
	in.FeedsPerSecond = rapid.Float64Range(0, 1e6).Draw(t, "feeds")
	in.Spread = rapid.Float64Range(0, 6).Draw(t, "spread")
	in.FalsePositiveRate = math.Pow(10, rapid.Float64Range(-6, -1).Draw(t, "log rate"))
	in.Pages = 1 << rapid.IntRange(14, 24).Draw(t, "log pages")
	in.Replicas = rapid.IntRange(0, 2).Draw(t, "replicas")
	return in
}

// More users, activities, posts seen or feeds never take less or cost less, and a rate of half as much never does.
// (From one rate to one that is hardly lower, the number of bits of a key may change, and with it save some bits.)
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
		p, err := New(in, DefaultPrices())
		q, errMore := New(more, DefaultPrices())
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
	case more.Serverless.USDMonth < less.Serverless.USDMonth*rounding:
		t.Errorf("%s: $%g serverless became $%g", less.Name, less.Serverless.USDMonth, more.Serverless.USDMonth)
	case less.Cluster == nil && more.Cluster != nil:
		t.Errorf("%s: no cluster would do, and now one does", less.Name)
	case less.Cluster != nil && more.Cluster != nil && more.Cluster.USDMonth < less.Cluster.USDMonth*rounding:
		t.Errorf("%s: a cluster of $%g became one of $%g", less.Name, less.Cluster.USDMonth, more.Cluster.USDMonth)
	}
}

// Where nobody says how many pages there are to be, more users do not take less memory either.
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
		if p.KeysPerPage > keysAPage && p.Input.Pages < favfilter.MaxPages {
			t.Errorf("%g users have %g keys a page", users, p.KeysPerPage)
		}
	}
}

// A cluster has the room, the CPU and the bandwidth, with a shard fewer it would not, and it is the cheapest.
func TestFleet(t *testing.T) {
	t.Parallel()
	prices := DefaultPrices()
	for i := range prices.Nodes {
		prices.Nodes[i].Gbit = 0.5
	}
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		in.SeenPerDay = 0
		p, err := New(in, prices)
		if err != nil {
			t.Skip(err)
		}
		f := p.Ways[0].Cluster
		if (f == nil) != (p.Ways[0].NoCluster != "") {
			t.Errorf("%+v, and none for %q", f, p.Ways[0].NoCluster)
		}
		if f == nil {
			return
		}
		node, _ := prices.node(f.Node)
		target := cpuTarget
		if node.Burstable {
			target = burstTarget
		}
		if f.Memory > in.Fill || f.CPU > target || max(f.Gbit, f.GbitIn) > node.Gbit {
			t.Errorf("over the limits: %+v", f)
		}
		for _, other := range prices.Nodes {
			in.Node = other.Type
			g, _ := in.fleetOf(other, &p.Ways[0])
			if g != nil && g.USDMonth < f.USDMonth && (!other.Burstable || g.Shards == 1) {
				t.Errorf("%+v is chosen, and %+v would do", f, g)
			}
		}
	})
	for _, c := range []struct {
		users, activities, feeds float64
		want                     string
	}{{1e8, 500, 10, "memory"}, {1e4, 1, 1e6, "CPU"}, {1e7, 500, 2e4, "network"}} {
		in := example()
		in.Users, in.ActivitiesPerUser, in.FeedsPerSecond, in.SeenPerDay, in.Pages = c.users, c.activities, c.feeds, 0, 1<<14
		p, err := New(in, prices)
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

// Where no cluster does, the text says what there would be too many of, and why.
func TestNoFleet(t *testing.T) {
	t.Parallel()
	small, large := Node{Type: "small", GiB: 0.5, Burstable: true}, Node{Type: "large", GiB: 0.5}
	for name, c := range map[string]struct {
		users, feeds float64
		gbit         float64
		nodes        []Node
		want         string
	}{
		"memory":               {users: 1e10, nodes: []Node{large}, want: "over 16384 shards (memory)"},
		"CPU":                  {users: 1e6, feeds: MaxFeeds, nodes: []Node{large, small}, want: "over 16384 shards (CPU)"},
		"network":              {users: 1e6, feeds: 1e6, gbit: 1e-9, nodes: []Node{large}, want: "over 16384 shards (network)"},
		"burstable, CPU":       {users: 10, feeds: 1e5, nodes: []Node{small}, want: "over 1 burstable node (CPU)"},
		"burstable, memory":    {users: 1e7, feeds: 1, nodes: []Node{small}, want: "over 1 burstable node (memory)"},
		"burstable, far above": {users: 1e6, feeds: MaxFeeds, nodes: []Node{small}, want: "over 16384 shards (CPU)"},
	} {
		prices := DefaultPrices()
		prices.Nodes = c.nodes
		for i := range prices.Nodes {
			prices.Nodes[i].Gbit = c.gbit
		}
		in := Input{Users: c.users, ActivitiesPerUser: 1000, FalsePositiveRate: 1e-5, FeedsPerSecond: c.feeds, Candidates: 2000, IDBytes: 12, Fill: 0.8, Filter: "feed"}
		p, err := New(in, prices)
		if err != nil {
			t.Fatal(err)
		}
		if w := p.Ways[0]; w.Cluster != nil || w.NoCluster != c.want {
			t.Errorf("%s: %+v, %q, want %q", name, w.Cluster, w.NoCluster, c.want)
		}
		var b strings.Builder
		if err := p.WriteText(&b); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %v, %s", name, err, &b)
		}
	}
}

func TestCostIsNodesAndHours(t *testing.T) {
	t.Parallel()
	in := example()
	in.Users, in.Node, in.Replicas = 1e8, "cache.r7g.xlarge", 2
	w := planned(t, in).Ways[0]
	if f := w.Cluster; f.Node != in.Node || f.Nodes != 3*f.Shards || !(math.Abs(f.USDMonth-float64(f.Nodes)*0.3496*730) < 1e-6) {
		t.Errorf("%+v", f)
	}
	s := w.Serverless
	feeds := 1000. * 3600 * 730
	if want := s.GB*730*0.084 + feeds*s.FeedECPU*0.0023/1e6; !(math.Abs(s.USDMonth-want) < 1e-6) || !(math.Abs(s.GB-w.Memory/1e9) < 1e-9) {
		t.Errorf("%+v, want $%g", s, want)
	}
	in.Users, in.Node = 1, ""
	if got := planned(t, in).Ways[3].Serverless.GB; got != 0.1 {
		t.Errorf("%g GB are paid for one user, want 0.1", got)
	}
}

func TestInputIsChecked(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for field, changes := range map[string][]func(*Input){
		"users":                 {func(in *Input) { in.Users = 0 }, func(in *Input) { in.Users = 1.1e10 }, func(in *Input) { in.Users = nan }},
		"activities_per_user":   {func(in *Input) { in.ActivitiesPerUser = -1 }, func(in *Input) { in.ActivitiesPerUser = 1e7 }},
		"two_way":               {func(in *Input) { in.TwoWay = 1.1 }},
		"seen_per_user_per_day": {func(in *Input) { in.SeenPerDay = 1e6 }, func(in *Input) { in.SeenPerDay = 9e4 }},
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
		"nodes": {func(in *Input) { in.Node = "cache.none" }},
	} {
		for i, change := range changes {
			in := example()
			change(&in)
			_, err := New(in, DefaultPrices())
			if wrong, ok := errors.AsType[*InputError](err); !ok || wrong.Field != field {
				t.Errorf("%s, case %d: %v", field, i, err)
			}
		}
	}
}

// Kinds share the rate, and windows that nothing is known of are named.
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

func TestPrices(t *testing.T) {
	t.Parallel()
	good := string(defaultPrices)
	for _, c := range []struct{ old, replacement, want string }{
		{`"date"`, `"dates"`, `unknown field /dates`},
		{`"gib": 0.5`, `"gib": 0.5, "gib": 1`, `field /nodes/0/gib is there twice`},
		{`"gib": 0.5`, `"gib": "0.5"`, `/nodes/0/gib`},
		{`"gib": 0.5`, `"gib": 0`, `cache.t4g.micro: gib 0 is not in 0.01 to 1e6`},
		{`"gib": 0.5, `, ``, `cache.t4g.micro: gib 0 is not in 0.01 to 1e6`},
		{`0.0128`, `-1`, `usd_per_hour -1 is not above 0`},
		{`"burstable": true`, `"burstable": true, "gbit": -1`, `gbit -1 is not in 0 to 1e6`},
		{`cache.t4g.small`, `cache.t4g.micro`, `nodes[1]: cache.t4g.micro is there twice`},
		{`cache.t4g.small`, `<b>`, `nodes[1]: type "<b>"`},
		{`2026-10`, `2026-13`, `date "2026-13" is not like 2026-10`},
		{`us-east-1`, ``, `region, source or nodes is missing`},
		{`us-east-1`, `a\nb`, `region or source: has control characters`},
		{`0.084`, `0`, `serverless: a price`},
		{good, `[]`, `not a JSON object`},
		{good, good + `x`, `not JSON, at byte`},
	} {
		text := strings.Replace(good, c.old, c.replacement, 1)
		if _, err := ParsePrices([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %q", c.replacement, c.old, err, c.want)
		}
	}
	if _, err := ParsePrices([]byte(good)); err != nil {
		t.Error(err)
	}
}
