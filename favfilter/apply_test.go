package favfilter_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// A page refuses a batch that does not match its state: the result has the reason, and nothing
// changes.
func TestApplyAdmits(t *testing.T) {
	h := goldenHeader()
	h.Sequence = 10
	for _, c := range []struct {
		name   string
		change func(*favfilter.Batch)
		want   favfilter.State
	}{
		{"as it is", func(*favfilter.Batch) {}, favfilter.Applied},
		{"without a guard", func(b *favfilter.Batch) { b.Sequence = 0 }, favfilter.Applied},
		{"the page's own sequence", func(b *favfilter.Batch) { b.Sequence = 10 }, favfilter.Current},
		{"an old sequence", func(b *favfilter.Batch) { b.Sequence = 1 }, favfilter.Current},
		{"a sequence too far", func(b *favfilter.Batch) { b.Sequence = 12 }, favfilter.Behind},
		{"another page", func(b *favfilter.Batch) { b.ID.Number++ }, favfilter.Foreign},
		{"another page without a guard", func(b *favfilter.Batch) { b.ID.Number++; b.Sequence = 0 }, favfilter.Foreign},
		{"another seed", func(b *favfilter.Batch) { b.Identity.Seed++ }, favfilter.Foreign},
		{"other pages", func(b *favfilter.Batch) { b.Identity.Pages /= 2 }, favfilter.Foreign},
		{"another incarnation", func(b *favfilter.Batch) { b.Identity.Incarnation++ }, favfilter.Foreign},
		{"another incarnation, old", func(b *favfilter.Batch) { b.Identity.Incarnation++; b.Sequence = 1 }, favfilter.Foreign},
		{"an absent key to remove", func(b *favfilter.Batch) { b.Remove = []favfilter.Hash{{H1: 1 << 62, H2: 1 << 59}} }, favfilter.Jammed},
	} {
		page := newPage(t, h)
		before := encoded(page)
		b := favfilter.Batch{ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Sequence: 11, Add: []favfilter.Hash{{H1: 5, H2: 6 << 60}}}
		c.change(&b)
		res := page.Apply(b)
		if res.State != c.want || res.Header != page.Header() || res.Err != nil {
			t.Errorf("%s: %v at %+v, %v, want %v", c.name, res.State, res.Header, res.Err, c.want)
		}
		after := encoded(page)
		if string(res.Version) != string(after[:favfilter.HeaderBytes]) {
			t.Errorf("%s: the version differs from the header", c.name)
		}
		if changed := !bytes.Equal(before, after); changed != (c.want == favfilter.Applied) {
			t.Errorf("%s: %v, and the page changed: %v", c.name, res.State, changed)
		}
	}
}

// A page without its collision bits can be read, but not changed.
func TestApplyWithoutCollisionBits(t *testing.T) {
	whole := goldenPage(t)
	raw, _ := whole.Encode()
	page := decodePage(t, slices.Clone(raw), nil)
	h := page.Header()
	b := favfilter.Batch{ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Sequence: h.Sequence + 1}
	for _, sequence := range []uint64{0, h.Sequence, h.Sequence + 1, h.Sequence + 2} {
		b.Sequence = sequence
		if res := page.Apply(b); res.State != favfilter.Torn || res.Header != (favfilter.Header{}) || string(res.Version) != string(raw[:favfilter.HeaderBytes]) {
			t.Errorf("at %d: %+v, want torn", sequence, res)
		}
	}
	b.Identity.Seed++
	if res := page.Apply(b); res.State != favfilter.Foreign {
		t.Errorf("%v, want foreign", res.State)
	}
}

func TestStatesAndOutcomesHaveNames(t *testing.T) {
	seen := map[string]bool{"unknown": true}
	for o := favfilter.Added; o <= favfilter.Full; o++ {
		if name := o.String(); seen[name] {
			t.Errorf("outcome %d is %q", o, name)
		} else {
			seen[name] = true
		}
	}
	for s := favfilter.Applied; s <= favfilter.Jammed; s++ {
		if name := s.String(); seen[name] {
			t.Errorf("state %d is %q", s, name)
		} else {
			seen[name] = true
		}
	}
	for _, name := range []string{favfilter.Outcome(0).String(), favfilter.Outcome(99).String(), favfilter.State(0).String(), favfilter.State(99).String()} {
		if name != "unknown" {
			t.Errorf("an invalid value is named %q", name)
		}
	}
}
