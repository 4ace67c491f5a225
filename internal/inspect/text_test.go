package inspect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/inspect"
)

func somePage() *inspect.Page {
	agrees := true
	return &inspect.Page{
		Number: 5, State: "sound", Agrees: &agrees, Lacks: map[string]int{},
		Page: &inspect.Stands{
			Sequence: 17, Left: 12, Keys: 41, Bits: 4096, Hashes: 10, RegionBits: 4, Layers: []inspect.Layer{{4096, 10}}, Set: 400, Fill: 0.09765,
			Regions: 1024, Collided: 32, CollidedShare: 0.03125, Rate: 7.9e-11, FullAt: 0.4, BitsBytes: 576, RegionsBytes: 136, Build: "00b1", Incarnation: "00c2",
		},
		Ledger: &inspect.Ledger{
			Sequence: 17, Left: 1<<24 + 12, Keys: 41, Kinds: map[string]int{"hide": 40, "block": 1}, Users: 2, Largest: []inspect.UserKeys{{"u", 40}, {"v", 1}},
		},
	}
}

func textOf(t *testing.T, write func(*strings.Builder) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPageText(t *testing.T) {
	p := somePage()
	got := textOf(t, func(b *strings.Builder) error { return p.Text(b) })
	want := `page 5: sound, of 2 users: agrees with the ledger
            page  ledger
  sequence  17    17
  keys      41    41
  left      12    12
  bits      4096, 400 of them set, 9.8 %; rebuilt at 40.0 %; 10 per key, and those of its weight
  regions   1024 of 4 bits, 32 of them shared, 3.1 %
  rate      7.9e-11 false positives per absent key
  bytes     576 of bits, 136 of regions
  build     00b1, ledger 00c2
  kinds     1 block, 40 hide
  largest   40 keys of u
            1 keys of v
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	p.Page.Uniform = true // a page of the format before weights
	want = strings.Replace(want, ", and those of its weight", "", 1)
	if got := textOf(t, func(b *strings.Builder) error { return p.Text(b) }); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestHarmedPageText(t *testing.T) {
	no := false
	for want, p := range map[string]inspect.Page{
		"page 5: missing, of 2 users: it does not report these keys of the ledger: 3 hide\n            page  ledger\n  sequence  -     9\n": {
			Number: 5, State: "missing", Agrees: &no, Lacks: map[string]int{"hide": 3}, Ledger: &inspect.Ledger{Sequence: 9, Users: 2}, Residual: -3,
		},
		"page 7: behind, dedicated to one user: it lacks 2 changes, it counts -1 keys\n": {
			Number: 7, Dedicated: true, State: "behind", Agrees: &no, Behind: 2, Residual: -1, Page: &inspect.Stands{}, Ledger: &inspect.Ledger{},
		},
		"page 1: damaged\n  half of it is gone\n": {Number: 1, State: "damaged", Damage: "half of it is gone"},
	} {
		got := textOf(t, func(b *strings.Builder) error { return p.Text(b) })
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

func TestUserText(t *testing.T) {
	u := inspect.User{
		User: "1", Hash: "00ff", Slot: 3, Page: 3, Counts: map[string]int{"block": 2}, Keys: 2, PageHolds: 2, PageState: "sound", PageKeys: 9,
		PageUsers: 4, FeedBytes: 700, Windows: []inspect.Window{{"seen", 1, 5, 378}},
	}
	want := `user 1: on page 3, with 4 users; the page is sound
  hash      00ff: slot 3
  ledger    2 keys: 2 block
  page      reports all of them; it has 9 keys in all
  window    seen: 5 keys in 1 part, 378 bytes
  feed      reads 700 bytes
`
	if got := textOf(t, func(b *strings.Builder) error { return u.Text(b) }); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	u.PageHolds, u.Lacks, u.Dedicated = 1, map[string]int{"block": 1}, true
	got := textOf(t, func(b *strings.Builder) error { return u.Text(b) })
	for _, want := range []string{"on page 3, dedicated to the user; the page is", "reports 1 of them, but not 1 block\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	if got := textOf(t, func(b *strings.Builder) error { return (&inspect.User{User: "1", PageState: "sound"}).Text(b) }); strings.Contains(got, "ledger") {
		t.Errorf("without a ledger: %s", got)
	}
}

func TestKeyText(t *testing.T) {
	k := inspect.Key{Words: []string{"it is there.", "it is not there."}, Sides: make([]inspect.Side, 2)}
	if got, want := textOf(t, func(b *strings.Builder) error { return k.Text(b) }), "it is there.\nit is not there.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestTextThatCannotBeWritten(t *testing.T) {
	for i, err := range []error{
		somePage().Text(full{}), (&inspect.User{}).Text(full{}), (&inspect.Key{Words: []string{""}}).Text(full{}),
	} {
		if !errors.Is(err, errFull) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
