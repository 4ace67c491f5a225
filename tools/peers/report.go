package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// report is the result of a run.
type report struct {
	machine, data string
	noise         []string
	tables        []table
	charts        map[string]*chart // by the name of the file
}

// table is a Markdown table. All columns but the first hold figures.
type table struct {
	title string
	rows  [][]string // the first is the head
}

// add adds a table. Short rows are filled.
func (r *report) add(title string, head []string, rows [][]string) {
	r.tables = append(r.tables, table{title, append([][]string{head}, rows...)})
}

// write writes the tables.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\nData: %s.\n", r.machine, r.data)
	for _, t := range r.tables {
		b.WriteString("\n" + t.title + "\n\n")
		t.write(&b)
	}
	if len(r.noise) > 0 {
		fmt.Fprintf(
			&b, "\nThe machine was too noisy for these figures to count:\n- %s\n",
			strings.Join(r.noise, "\n- "),
		)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *table) write(b *strings.Builder) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range t.rows {
		for i, width := range widths {
			cell := ""
			if i < len(row) {
				cell = row[i]
			}
			pad := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + pad)
			} else {
				b.WriteString(" | " + pad + cell)
			}
		}
		b.WriteString(" |\n")
		if n == 0 {
			b.WriteString("|" + strings.Repeat("-", widths[0]+2))
			for _, width := range widths[1:] {
				b.WriteString("|" + strings.Repeat("-", width+1) + ":")
			}
			b.WriteString("|\n")
		}
	}
}

func percent(share float64) string { return number(100*share) + " %" }

// number formats x with three significant digits, or all digits before the point.
func number(x float64) string {
	if x == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	text := strconv.FormatFloat(x, 'f', min(digits, 6), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole, fraction, hasFraction := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if hasFraction {
		return whole + "." + fraction
	}
	return whole
}
