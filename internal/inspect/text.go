package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// text writes lines, and keeps the first error.
type text struct {
	w   io.Writer
	err error
}

func (t *text) linef(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

// Text writes the state of a page, for people.
func (p *Page) Text(w io.Writer) error {
	t := &text{w: w}
	t.linef("page %d: %s", p.Number, p.verdict())
	if p.Damage != "" {
		t.linef("  %s", p.Damage)
	}
	p.compare(t)
	if s := p.Page; s != nil {
		t.linef("  bits      %d, %d of them set, %s; rebuilt at %s; %s",
			s.Bits, s.Set, percent(s.Fill), percent(s.FullAt), layers(s))
		t.linef(
			"  regions   %d of %d bits, %d of them shared, %s",
			s.Regions, s.RegionBits, s.Collided, percent(s.CollidedShare),
		)
		t.linef("  rate      %.2g false positives per absent key", s.Rate)
		t.linef("  bytes     %d of bits, %d of regions", s.BitsBytes, s.RegionsBytes)
		t.linef("  build     %s, ledger %s", s.Build, s.Incarnation)
	}
	if l := p.Ledger; l != nil && l.Keys > 0 {
		t.linef("  kinds     %s", counts(l.Kinds))
		for i, u := range l.Largest {
			head := ""
			if i == 0 {
				head = "largest"
			}
			t.linef("  %-9s %d keys of %s", head, u.Keys, u.User)
		}
	}
	return t.err
}

// verdict describes the page in words.
func (p *Page) verdict() string {
	who := ""
	switch {
	case p.Dedicated:
		who = ", dedicated to one user"
	case p.Ledger != nil:
		who = fmt.Sprintf(", of %d users", p.Ledger.Users)
	}
	var of []string
	if p.Behind > 0 {
		of = append(of, fmt.Sprintf("it lacks %d changes", p.Behind))
	}
	if len(p.Lacks) > 0 {
		of = append(of, "it does not report these keys of the ledger: "+counts(p.Lacks))
	}
	if p.Page != nil && p.Residual != 0 {
		of = append(of, fmt.Sprintf("it counts %+d keys", p.Residual))
	}
	switch {
	case len(of) > 0:
		return p.State + who + ": " + strings.Join(of, ", ")
	case p.Agrees != nil && *p.Agrees:
		return p.State + who + ": agrees with the ledger"
	default:
		return p.State + who
	}
}

// leftModulus is the modulus of the sequence "left" in a page's header, which has its low 24 bits.
const leftModulus = 1 << 24

// compare writes the page's header beside the ledger's state.
func (p *Page) compare(t *text) {
	if p.Page == nil && p.Ledger == nil || t.err != nil {
		return
	}
	rows := [][]any{{"", "page", ""}, {"sequence", "-", ""}, {"keys", "-", ""}, {"left", "-", ""}}
	if s := p.Page; s != nil {
		rows[1][1], rows[2][1], rows[3][1] = s.Sequence, s.Keys, s.Left
	}
	if l := p.Ledger; l != nil {
		rows[0][2] = "ledger"
		rows[1][2], rows[2][2], rows[3][2] = l.Sequence, l.Keys, l.Left%leftModulus
	}
	table := tabwriter.NewWriter(t.w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		line := strings.TrimRight(fmt.Sprintf("  %-8s\t%v\t%v", row...), "\t ")
		_, _ = fmt.Fprintln(table, line) // Flush returns the error
	}
	t.err = table.Flush()
}

func layers(s *Stands) string {
	switch {
	case len(s.Layers) > 1:
		return fmt.Sprintf("%d layers", len(s.Layers))
	case s.Uniform:
		return fmt.Sprintf("%d per key", s.Hashes)
	default:
		return fmt.Sprintf("%d per key, and those of its weight", s.Hashes)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// counts formats numbers by name.
func counts(of map[string]int) string {
	parts := make([]string, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[name], name))
	}
	return strings.Join(parts, ", ")
}

// Text writes the state of a user, for people.
func (u *User) Text(w io.Writer) error {
	t := &text{w: w}
	where := fmt.Sprintf("page %d, with %d users", u.Page, u.PageUsers)
	switch {
	case u.Dedicated:
		where = fmt.Sprintf("page %d, dedicated to the user", u.Page)
	case u.Counts == nil:
		where = fmt.Sprintf("page %d", u.Page)
	}
	t.linef("user %s: on %s; the page is %s", u.User, where, u.PageState)
	t.linef("  hash      %s: slot %d", u.Hash, u.Slot)
	if u.Counts != nil {
		t.linef("  ledger    %d keys%s", u.Keys, in(counts(u.Counts)))
		switch {
		case u.PageHolds == u.Keys:
			t.linef("  page      reports all of them; it has %d keys in all", u.PageKeys)
		default:
			t.linef("  page      reports %d of them, but not %s", u.PageHolds, counts(u.Lacks))
		}
	}
	for _, win := range u.Windows {
		t.linef(
			"  window    %s: %s in %s, %d bytes",
			win.Kind, number(win.Keys, "key"), number(win.Parts, "part"), win.Bytes,
		)
	}
	t.linef("  feed      reads %d bytes", u.FeedBytes)
	return t.err
}

// number returns n with a noun.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func in(list string) string {
	if list == "" {
		return ""
	}
	return ": " + list
}

// Text writes the state of an activity, for people.
func (k *Key) Text(w io.Writer) error {
	t := &text{w: w}
	for _, words := range k.Words {
		t.linef("%s", words)
	}
	return t.err
}
