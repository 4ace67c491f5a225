// Package chart draws lines on scales of powers of ten, as SVG images that read on light and on dark ground.
package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Measures of a chart, in pixels: panels side by side.
const (
	height, minWidth      = 480, 760
	panelTop, panelHeight = 84, 300
	panelWidth            = 390
	labelRoom             = 90 // left of a panel, more if the labels of its scale are long
	rightMargin           = 50
	textMargin            = 20
	sampleWidth           = 44 // of a line in the legend
	ringRadius            = 7
	legendGap             = 24
	letterWidth           = 8   // about, in the font of the style
	titleWidth            = 1.2 // times what the same text takes elsewhere
	// MaxLines is the most lines of a chart that can be told apart.
	MaxLines = 9
)

// style tells lines apart by dashes, too.
const style = `
    .ground { fill: #ffffff; }
    text { fill: #1f2328; }
    .grid { stroke: #d0d7de; }
    .mark { stroke: #1f2328; }
    .w0 { stroke: #0969da; }
    .w1 { stroke: #bc4c00; }
    .w2 { stroke: #9a6700; }
    .w3 { stroke: #1a7f37; }
    .w4 { stroke: #8250df; }
    .w5 { stroke: #cf222e; }
    .w6 { stroke: #57606a; }
    .w7 { stroke: #bf3989; }
    .w8 { stroke: #0550ae; }
    text { font: 13px "DejaVu Sans", Verdana, sans-serif; }
    .title { font-size: 15px; font-weight: 600; }
    .end { text-anchor: end; }
    .mid { text-anchor: middle; }
    .grid, .line, .mark { fill: none; }
    .mark { stroke-dasharray: 2 3; }
    .line { stroke-width: 2.5; }
    .w1 { stroke-dasharray: 9 4; }
    .w2 { stroke-dasharray: 3 3; }
    .w3 { stroke-dasharray: 12 4 3 4; }
    .w4 { stroke-dasharray: 6 2; }
    .w5 { stroke-dasharray: 1 4; }
    .w6 { stroke-dasharray: 16 6; }
    .w7 { stroke-dasharray: 2 2 8 2; }
    .w8 { stroke-dasharray: 20 3 2 3; }
    .ring { stroke-dasharray: none; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; }
      text { fill: #e6edf3; }
      .grid { stroke: #30363d; }
      .mark { stroke: #e6edf3; }
      .w0 { stroke: #58a6ff; }
      .w1 { stroke: #ff8f5c; }
      .w2 { stroke: #e3b341; }
      .w3 { stroke: #56d364; }
      .w4 { stroke: #d2a8ff; }
      .w5 { stroke: #ff7b72; }
      .w6 { stroke: #8b949e; }
      .w7 { stroke: #f778ba; }
      .w8 { stroke: #a5d6ff; }
    }
`

// Point is a place on a line. It is drawn if both are positive.
type Point struct {
	X, Y float64
	Ring bool // draw a ring around it: the chart says what that means
}

func (p Point) drawn() bool { return p.X > 0 && p.Y > 0 }

// Panel is one pair of axes.
type Panel struct {
	Title string
	X     string    // what the horizontal axis counts; panels of a chart that count the same have the same scale
	Unit  string    // of the vertical axis, "us"; "$" stands before the number; may be ""
	Lines [][]Point // of the chart's lines, in their order, each by X; one that is not in this panel is empty
}

// Mark is a place on the horizontal axis of every panel. There is none unless X is positive.
type Mark struct {
	Name string
	X    float64
}

// Chart is an image of one panel or some side by side, as wide as they and its texts are.
type Chart struct {
	Title  string
	Lines  []string // names, up to MaxLines
	Panels []Panel  // each with a point that is drawn
	Mark   Mark
	Ring   string   // what rings around points mean; "": there are none
	Notes  []string // lines below, one or two
}

// WriteSVG writes the chart. An error is w's, or says that there is nothing to draw, or too much.
func (c *Chart) WriteSVG(w io.Writer) error {
	if len(c.Panels) == 0 || len(c.Lines) > MaxLines {
		return fmt.Errorf("draw chart %q: %d panels of %d lines: want a panel and up to %d lines",
			c.Title, len(c.Panels), len(c.Lines), MaxLines)
	}
	frames, err := c.frames()
	if err != nil {
		return fmt.Errorf("draw chart %q: %w", c.Title, err)
	}
	var d drawing
	left := frames[0].x.from
	d.text(left, 28, "title", c.Title)
	d.widen(left + titleWidth*textWidth(c.Title) + textMargin)
	d.legend(left, c)
	for i, f := range frames {
		d.panel(f, c.Panels[i], c.Mark)
	}
	for i, note := range c.Notes {
		d.text(left, float64(height-14-18*(len(c.Notes)-1-i)), "", note)
		d.widen(left + textWidth(note) + textMargin)
	}
	_, err = fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>%s</style>
<rect class="ground" width="%d" height="%d"/>
%s</svg>
`, d.width(), height, d.width(), height, escape(c.Title), style, d.width(), height, d.svg.String())
	return err
}

// frame is where a panel is drawn.
type frame struct{ x, y axis }

// frames are those of the panels, from left to right.
func (c *Chart) frames() ([]frame, error) {
	frames := make([]frame, 0, len(c.Panels))
	left := 0.0
	for _, p := range c.Panels {
		y := verticalAxis(p)
		if y.empty() {
			return nil, errors.New("panel " + strconv.Quote(p.Title) + ": there is no point to draw")
		}
		room := float64(labelRoom)
		for _, power := range y.ticks(maxRows) {
			room = max(room, textWidth(label(power, p.Unit))+2*labelGap)
		}
		left += room
		frames = append(frames, frame{c.horizontalAxis(p.X, left), y})
		left += panelWidth
	}
	return frames, nil
}

// verticalAxis is one that all points of the panel fit on, between whole powers of ten.
func verticalAxis(p Panel) axis {
	y := newAxis(panelTop+panelHeight, -panelHeight)
	y.include(p, func(at Point) float64 { return at.Y })
	y.low, y.high = math.Floor(y.low+rounding), math.Ceil(y.high-rounding)
	y.high = max(y.high, y.low+1)
	return y
}

// horizontalAxis is one that the mark and all points of the panels that count the same fit on, and a number.
func (c *Chart) horizontalAxis(counted string, left float64) axis {
	x := newAxis(left, panelWidth)
	for _, p := range c.Panels {
		if p.X == counted {
			x.include(p, func(at Point) float64 { return at.X })
		}
	}
	if c.Mark.X > 0 {
		x.add(math.Log10(c.Mark.X))
	}
	if len(x.ticks(maxColumns)) == 0 {
		x.low, x.high = math.Floor(x.low), math.Ceil(x.high)
	}
	return x
}
