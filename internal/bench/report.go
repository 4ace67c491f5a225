package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Goal is what a row is to reach.
type Goal struct {
	Limit  float64
	Least  bool // Limit is the least, not the most
	OfPing bool // of the ratio to PING, not of the value
}

// Row is a line of a table: one figure.
type Row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	XPing float64 `json:"x_ping,omitzero"` // the value over PING's in the same run
	Goal  string  `json:"goal,omitzero"`
	Met   *bool   `json:"met,omitzero"`
	// Unknown reports why there is no value.
	Unknown string `json:"unknown,omitzero"`
}

// Against sets the goal of the row, and reports whether the row meets it.
func (r Row) Against(g Goal) Row {
	sign, got := "<=", r.Value
	if g.Least {
		sign = ">="
	}
	r.Goal = sign + " " + Significant(g.Limit) + " " + r.Unit
	if g.OfPing {
		got = r.XPing
		r.Goal = sign + " " + Significant(g.Limit) + " x PING"
	}
	if r.Unknown == "" && (!g.OfPing || r.XPing > 0) {
		met := got <= g.Limit
		if g.Least {
			met = got >= g.Limit
		}
		r.Met = &met
	}
	return r
}

// unknown is the row without a value, for a reason.
func unknown(name, unit, reason string) Row { return Row{Name: name, Unit: unit, Unknown: reason} }

// Report is what a run found.
type Report struct {
	Machine string   `json:"machine"`
	Server  string   `json:"server"`
	Data    string   `json:"data"`
	Noise   []string `json:"noise"` // why the figures do not count; empty: they do
	Rows    []Row    `json:"rows"`
	Points  []Point  `json:"points"` // how cost grows with the candidates
}

// Point is what feeds of one size cost. What is not known is 0.
type Point struct {
	Candidates int     `json:"candidates"`
	Check      float64 `json:"check_us"` // medians
	Slow       float64 `json:"check_p90_us"`
	Ping       float64 `json:"ping_us"`
	PerSecond  float64 `json:"per_second"` // of 16 goroutines
	ServerCPU  float64 `json:"server_cpu_us"`
	ClientCPU  float64 `json:"client_cpu_us"`
}

// WriteText writes the report as Markdown.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\nPages in: %s.\nData: %s.\n\n", r.Machine, r.Server, r.Data)
	table := append(make([][]string, 0, 1+len(r.Rows)), []string{"", "value", "x PING", "goal", ""})
	for _, row := range r.Rows {
		table = append(table, row.cells())
	}
	if !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.XPing > 0 }) { // no server, no ratios
		for i, cells := range table {
			table[i] = slices.Delete(cells, 2, 3)
		}
	}
	WriteTable(&b, table)
	WriteNoise(&b, r.Noise)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Row) cells() []string {
	cells := []string{r.Name, "unknown: " + r.Unknown, "", r.Goal, ""}
	if r.Unknown == "" {
		cells[1] = Significant(r.Value) + " " + r.Unit
	}
	if r.XPing > 0 {
		cells[2] = Significant(r.XPing)
	}
	switch {
	case r.Met == nil:
	case *r.Met:
		cells[4] = "met"
	default:
		cells[4] = "not met"
	}
	return cells
}

// WriteTable writes a Markdown table of which the first row is the head, and all but the first
// column are figures.
func WriteTable(b *strings.Builder, table [][]string) {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range table {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + pad)
			} else {
				b.WriteString(" | " + pad + cell)
			}
		}
		b.WriteString(" |\n")
		if n > 0 {
			continue
		}
		for i, width := range widths {
			rule := strings.Repeat("-", width+1)
			if i == 0 {
				b.WriteString("|-" + rule[:width] + "-")
			} else {
				b.WriteString("|-" + rule[:width] + ":")
			}
		}
		b.WriteString("|\n")
	}
}

// WriteNoise writes why the figures do not count, or nothing if they do.
func WriteNoise(b *strings.Builder, reasons []string) {
	if len(reasons) == 0 {
		return
	}
	b.WriteString("\nThe machine was too noisy for these figures to count:\n")
	for _, reason := range reasons {
		b.WriteString("- " + reason + "\n")
	}
}

// Significant writes x as the tables do, with three significant digits, or all before the point.
func Significant(x float64) string {
	if x == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	text := strconv.FormatFloat(x, 'f', min(digits, 6), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return group(text)
}

// group puts commas between thousands.
func group(text string) string {
	whole, fraction, hasFraction := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if hasFraction {
		return whole + "." + fraction
	}
	return whole
}
