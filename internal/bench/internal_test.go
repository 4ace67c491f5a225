package bench

import (
	"strings"
	"testing"
	"time"
)

func TestSignificant(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 2.5: "2.5", 0.12345: "0.123", 12.345: "12.3", 99.96: "100", 1234.5: "1,234", 150_000: "150,000",
		10_385_351.4: "10,385,351", 0.0000004: "0", -1234: "-1,234", 2.1: "2.1", 100: "100",
	} {
		if got := Significant(x); got != want {
			t.Errorf("%v is written %q, want %q", x, got, want)
		}
	}
}

func TestNoise(t *testing.T) {
	steady := func(n int, d time.Duration) Samples {
		s := make(Samples, n)
		for i := range s {
			s[i] = d
		}
		return s
	}
	slower := append(steady(20, 100), steady(10, 120)...)
	uneven := append(append(steady(85, 100), steady(15, 201)...), steady(100, 100)...)
	spread := steady(90, 100)
	for i := range spread {
		if i%5 == 0 {
			spread[i] = 201
		}
	}
	for name, c := range map[string]struct {
		load float64
		runs []Samples
		want string
	}{
		"quiet":         {1, []Samples{steady(30, 100), steady(30, 300)}, ""},
		"nothing":       {0, nil, ""},
		"few":           {0, []Samples{steady(2, 100)}, ""},
		"loaded":        {1.5, nil, "load average was 1.50"},
		"drift":         {0, []Samples{steady(30, 100), slower}, "first third"},
		"some are slow": {0, []Samples{uneven}, ""},
		"many are slow": {0, []Samples{spread}, "a tenth of the PINGs"},
	} {
		got := Noise(c.load, c.runs...)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestGoals(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		row  Row
		goal Goal
		text string
		met  *bool
	}{
		"below":    {Row{Value: 20, Unit: "us"}, Goal{Limit: 20}, "<= 20 us", &yes},
		"above":    {Row{Value: 20.1, Unit: "us"}, Goal{Limit: 20}, "<= 20 us", &no},
		"least":    {Row{Value: 999, Unit: "/s"}, Goal{Limit: 1000, Least: true}, ">= 1,000 /s", &no},
		"ratio":    {Row{Value: 99, Unit: "us", XPing: 1.2}, Goal{Limit: 1.25, OfPing: true}, "<= 1.25 x PING", &yes},
		"no ratio": {Row{Value: 99, Unit: "us"}, Goal{Limit: 1.25, OfPing: true}, "<= 1.25 x PING", nil},
		"unknown":  {Row{Unit: "B", Unknown: "not told"}, Goal{Limit: 2.6}, "<= 2.6 B", nil},
	} {
		got := c.row.Against(c.goal)
		if got.Goal != c.text || (got.Met == nil) != (c.met == nil) || got.Met != nil && *got.Met != *c.met {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTable(t *testing.T) {
	met, missed := true, false
	r := Report{Machine: "M", Server: "S", Data: "D", Noise: []string{"it was loud"}, Rows: []Row{
		{Name: "PING", Value: 33.25, Unit: "us"},
		{Name: "check", Value: 66.5, Unit: "us", XPing: 2, Goal: "<= 2.1 x PING", Met: &met},
		{Name: "bytes", Unit: "B", Unknown: "not told", Goal: "<= 2.6 B"},
		{Name: "keys", Value: 1000, Unit: "/s", Goal: ">= 2,000 /s", Met: &missed},
	}}
	const want = `Machine: M.
Pages in: S.
Data: D.

|       |             value | x PING |          goal |         |
|-------|------------------:|-------:|--------------:|--------:|
| PING  |           33.2 us |        |               |         |
| check |           66.5 us |      2 | <= 2.1 x PING |     met |
| bytes | unknown: not told |        |      <= 2.6 B |         |
| keys  |          1,000 /s |        |   >= 2,000 /s | not met |

The machine was too noisy for these figures to count:
- it was loud
`
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || b.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, b.String(), want)
	}
}
