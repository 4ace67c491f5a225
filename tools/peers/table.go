package main

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// writeTable writes a Markdown table. The first row is the head; all columns but the first hold
// figures.
func writeTable(b *strings.Builder, table [][]string) {
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

// writeNoise writes the reasons why the figures do not count, if there are any.
func writeNoise(b *strings.Builder, reasons []string) {
	if len(reasons) == 0 {
		return
	}
	b.WriteString("\nThe machine was too noisy for these figures to count:\n")
	for _, reason := range reasons {
		b.WriteString("- " + reason + "\n")
	}
}

// significant formats x with three significant digits, or all digits before the point.
func significant(x float64) string {
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

// group adds commas between thousands.
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
