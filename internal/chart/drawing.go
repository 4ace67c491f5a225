package chart

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// drawing is an image in the making, without what stands around it.
type drawing struct {
	svg   strings.Builder
	right float64 // of what was drawn, with its margin
}

// widen makes the image reach to there.
func (d *drawing) widen(right float64) { d.right = max(d.right, right) }

func (d *drawing) width() int { return max(minWidth, int(math.Ceil(d.right))) }

// legend draws the names of the lines, and the mark's.
func (d *drawing) legend(left float64, c *Chart) {
	for i, name := range c.Lines {
		fmt.Fprintf(&d.svg, `<path class="line w%d" d="M%.1f 50h%d"/>`+"\n", i, left, sampleWidth)
		left = d.name(left+sampleWidth, name)
	}
	if c.Mark.X > 0 {
		fmt.Fprintf(&d.svg, `<path class="mark" d="M%.1f 40v20"/>`+"\n", left)
		left = d.name(left, c.Mark.Name)
	}
	if c.Ring != "" {
		fmt.Fprintf(&d.svg, `<circle class="mark ring" cx="%.1f" cy="50" r="%d"/>`+"\n", left+ringRadius, ringRadius)
		d.name(left+2*ringRadius, c.Ring)
	}
}

// name draws a name of the legend, and returns where there is room for the next.
func (d *drawing) name(left float64, name string) float64 {
	d.text(left+labelGap, 54, "", name)
	right := left + labelGap + textWidth(name)
	d.widen(right + textMargin)
	return right + legendGap
}

// panel draws the scales, the mark and the lines of p.
func (d *drawing) panel(f frame, p Panel, mark Mark) {
	left := f.x.from
	d.text(left, panelTop-8, "", p.Title)
	for _, power := range f.y.ticks(maxRows) {
		at := f.y.at(power)
		fmt.Fprintf(&d.svg, `<path class="grid" d="M%.1f %.1fh%d"/>`+"\n", left, at, panelWidth)
		d.text(left-labelGap, at+4, "end", label(power, p.Unit))
	}
	for _, power := range f.x.ticks(maxColumns) {
		at := f.x.at(power)
		fmt.Fprintf(&d.svg, `<path class="grid" d="M%.1f %dv%d"/>`+"\n", at, panelTop, panelHeight)
		d.text(at, panelTop+panelHeight+18, "mid", label(power, ""))
	}
	d.text(left+panelWidth/2, panelTop+panelHeight+40, "mid", p.X)
	if mark.X > 0 {
		fmt.Fprintf(&d.svg, `<path class="mark" d="M%.1f %dv%d"/>`+"\n", f.x.at(math.Log10(mark.X)), panelTop, panelHeight)
	}
	for i, points := range p.Lines {
		d.line(i, points, f)
	}
	d.widen(left + panelWidth + rightMargin)
}

// line draws the i-th line of the chart, a point between two that are not drawn as a ring.
func (d *drawing) line(i int, points []Point, f frame) {
	var path strings.Builder
	next := byte('M')
	for j, p := range points {
		if !p.drawn() {
			next = 'M'
			continue
		}
		x, y := f.x.at(math.Log10(p.X)), f.y.at(math.Log10(p.Y))
		fmt.Fprintf(&path, "%c%.1f %.1f", next, x, y)
		if next == 'M' && (j+1 == len(points) || !points[j+1].drawn()) {
			fmt.Fprintf(&d.svg, `<circle class="line w%d" cx="%.1f" cy="%.1f" r="3"/>`+"\n", i, x, y)
		}
		next = 'L'
		if p.Ring {
			fmt.Fprintf(&d.svg, `<circle class="line ring w%d" cx="%.1f" cy="%.1f" r="%d"/>`+"\n", i, x, y, ringRadius)
		}
	}
	if path.Len() > 0 {
		fmt.Fprintf(&d.svg, `<path class="line w%d" d="%s"/>`+"\n", i, path.String())
	}
}

func (d *drawing) text(x, y float64, class, text string) {
	fmt.Fprintf(&d.svg, `<text x="%.1f" y="%.1f" class="%s">%s</text>`+"\n", x, y, class, escape(text))
}

// textWidth is about what text takes, in pixels.
func textWidth(text string) float64 { return float64(letterWidth * utf8.RuneCountInString(text)) }

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // into b, which takes everything
	return b.String()
}
