package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Style is the style of a drawing.
type Style struct {
	ASCII  bool // only ASCII characters
	Colors bool // 256 terminal colors
	Width  int  // of a drawing, in characters; 0: 64
}

// width returns the width of a drawing.
func (s Style) width() int {
	if s.Width == 0 {
		return 64
	}
	return s.Width
}

// Cells returns the number of cells of a drawing in the style, in at most 16 lines.
func (s Style) Cells() int { return min(MaxCells, 16*s.width()) }

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
func (p Page) Text(w io.Writer, style Style) error {
	t := &text{w: w}
	t.linef("page %d: %s", p.Number, p.verdict())
	if p.Damage != "" {
		t.linef("  %s", p.Damage)
	}
	p.compare(t)
	if s := p.Page; s != nil {
		t.linef("  bits      %d, %d of them set, %s; rebuilt at %s; %s",
			s.Bits, s.Set, percent(s.Fill), percent(s.FullAt), layers(s))
		t.linef("  regions   %d of %d bits, %d of them shared, %s", s.Regions, s.RegionBits, s.Collided, percent(s.CollidedShare))
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
	if p.Drawing != nil {
		style.draw(t, "bits", p.Drawing.Bits)
		style.draw(t, "shared regions", p.Drawing.Regions)
	}
	return t.err
}

// verdict describes the page in words.
func (p Page) verdict() string {
	who := ""
	switch {
	case p.Own:
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
func (p Page) compare(t *text) {
	if p.Page == nil && p.Ledger == nil || t.err != nil {
		return
	}
	rows := [][3]string{{"", "page", "ledger"}, {"sequence"}, {"keys"}, {"left"}}
	for i, n := range p.said() {
		rows[i+1][1] = n
	}
	for i, n := range p.known() {
		rows[i+1][2] = n
	}
	table := tabwriter.NewWriter(t.w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		if p.Ledger == nil {
			row[2] = ""
		}
		_, _ = fmt.Fprintln(table, strings.TrimRight(fmt.Sprintf("  %-8s\t%s\t%s", row[0], row[1], row[2]), "\t ")) // Flush says
	}
	t.err = table.Flush()
}

func (p Page) said() [3]string {
	if p.Page == nil {
		return [3]string{"-", "-", "-"}
	}
	return [3]string{
		strconv.FormatUint(p.Page.Sequence, 10), strconv.FormatUint(uint64(p.Page.Keys), 10), strconv.FormatUint(uint64(p.Page.Left), 10),
	}
}

func (p Page) known() [3]string {
	if p.Ledger == nil {
		return [3]string{}
	}
	l := p.Ledger
	return [3]string{strconv.FormatUint(l.Sequence, 10), strconv.Itoa(l.Keys), strconv.FormatUint(l.Left%leftModulus, 10)}
}

func layers(s *Stands) string {
	if len(s.Layers) > 1 {
		return fmt.Sprintf("%d layers", len(s.Layers))
	}
	return fmt.Sprintf("%d per key", s.Hashes)
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

// draw draws one character per cell. The strongest shade stands for the fullest cell.
func (s Style) draw(t *text, title string, cells []byte) {
	most := byte(0)
	for _, c := range cells {
		most = max(most, c)
	}
	if len(cells) == 0 {
		return
	}
	t.linef("  %s: %s", title, s.legend(most))
	for row := range slices.Chunk(cells, s.width()) {
		var b strings.Builder
		for _, c := range row {
			b.WriteString(s.cell(c, most))
		}
		if s.Colors {
			b.WriteString("\x1b[0m")
		}
		t.linef("  |%s|", b.String())
	}
}

// legend returns all shades, from that of 0 to that of most.
func (s Style) legend(most byte) string {
	var b strings.Builder
	b.WriteString("0 % |")
	for i := range s.shades() {
		b.WriteString(s.shade(i))
	}
	if s.Colors {
		b.WriteString("\x1b[0m")
	}
	fmt.Fprintf(&b, "| %.0f %%", 100*float64(most)/255)
	return b.String()
}

// cell returns the shade of a cell. Only an empty cell has the first shade.
func (s Style) cell(c, most byte) string {
	if c == 0 {
		return s.shade(0)
	}
	n := s.shades() - 1
	return s.shade(1 + int(c-1)*n/max(1, int(most)))
}

const asciiShades = " .:-=+*#%@"

// Shades of blocks, and colors from dark to light that color-blind people can tell apart.
func blockShades() []rune { return []rune(" ░▒▓█") }
func colorShades() []int  { return []int{0, 17, 18, 24, 30, 36, 71, 107, 149, 191, 227} }

func (s Style) shades() int {
	switch {
	case s.Colors:
		return len(colorShades())
	case s.ASCII:
		return len(asciiShades)
	default:
		return len(blockShades())
	}
}

func (s Style) shade(i int) string {
	i = min(i, s.shades()-1)
	switch {
	case s.Colors:
		return fmt.Sprintf("\x1b[48;5;%dm ", colorShades()[i])
	case s.ASCII:
		return asciiShades[i : i+1]
	default:
		return string(blockShades()[i])
	}
}

// Text writes the state of a user, for people.
func (u User) Text(w io.Writer) error {
	t := &text{w: w}
	where := fmt.Sprintf("page %d, with %d users", u.Page, u.PageUsers)
	switch {
	case u.OwnPage:
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
		t.linef("  window    %s: %s in %s, %d bytes", win.Kind, number(win.Keys, "key"), number(win.Parts, "part"), win.Bytes)
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
func (k Key) Text(w io.Writer, style Style) error {
	t := &text{w: w}
	for i, s := range k.Sides {
		t.linef("%s", k.Words[i])
		if len(s.Positions) == 0 {
			continue
		}
		var bits, marks strings.Builder
		for _, p := range s.Positions {
			fmt.Fprintf(&bits, " %*d", 9, p.Bit)
			fmt.Fprintf(&marks, " %*s", 9, style.mark(p))
		}
		t.linef("  bit %s", bits.String())
		t.linef("      %s", marks.String())
	}
	if len(k.Sides) == 0 {
		t.linef("%s", k.Words[0])
	}
	return t.err
}

// mark shows whether a bit is set, and whether its region has a collision bit.
func (s Style) mark(p Position) string {
	switch {
	case p.Set && p.Collided:
		return "shared"
	case p.Set:
		return "set"
	case p.Collided:
		return "0, shared"
	default:
		return "0"
	}
}
