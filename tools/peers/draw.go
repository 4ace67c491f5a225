package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart has panels side by side, on scales of powers of ten.
type chart struct {
	notes  []string // lines of text below the panels
	panels []panel
}

type panel struct {
	title, x, y string
	lines       []line
}

// line is one curve of a chart. Points must have positive coordinates.
type line struct {
	name   string
	points plotter.XYs
	rings  plotter.XYs // simulated points
}

const (
	panelWidth  = 14 * vg.Centimeter
	panelHeight = 11 * vg.Centimeter
	noteHeight  = 14 * vg.Length(1)
)

// drawCharts writes charts to files in a directory. The keys are the names of the files.
func drawCharts(dir string, charts map[string]*chart) error {
	for name, c := range charts {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("-plot: %w", err)
		}
		if err := errors.Join(c.writeSVG(file), file.Close()); err != nil {
			return fmt.Errorf("-plot: %s: %w", name, err)
		}
	}
	return nil
}

func (c *chart) writeSVG(w io.Writer) error {
	notes := vg.Length(len(c.notes)+1) * noteHeight
	canvas := vgsvg.New(panelWidth*vg.Length(len(c.panels)), panelHeight+notes)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	for i, p := range c.panels {
		drawn, err := p.plot()
		if err != nil {
			return err
		}
		left := panelWidth * vg.Length(i)
		drawn.Draw(draw.Crop(whole, left, left+panelWidth-whole.Max.X-vg.Centimeter, notes, 0))
	}
	style := plot.New().X.Label.TextStyle
	style.Font.Size, style.XAlign = font.Points(9), draw.XLeft
	for i, note := range c.notes {
		at := vg.Point{X: vg.Centimeter / 2, Y: notes - vg.Length(i+1)*noteHeight}
		whole.FillText(style, at, note)
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (p *panel) plot() (*plot.Plot, error) {
	drawn := plot.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.title, p.x, p.y
	drawn.X.Scale, drawn.Y.Scale = plot.LogScale{}, plot.LogScale{}
	drawn.X.Tick.Marker, drawn.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(ticks)
	drawn.Legend.Top, drawn.Legend.Left = true, true
	drawn.Add(plotter.NewGrid())
	for i, l := range p.lines {
		if len(l.points) == 0 {
			continue
		}
		if err := l.add(drawn, i); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
	}
	// An axis needs two powers of ten, and the legend needs room above the lines.
	drawn.X.Min, drawn.X.Max = power(drawn.X.Min, 0), power(drawn.X.Max, 1)
	drawn.Y.Min, drawn.Y.Max = power(drawn.Y.Min, 0), 10*power(drawn.Y.Max, 1)
	return drawn, nil
}

// power returns the nearest power of ten that is at most x, or, if up is positive, at least x.
func power(x float64, up int) float64 {
	exponent := math.Log10(x)
	if up > 0 {
		return math.Pow10(int(math.Ceil(exponent)))
	}
	return math.Pow10(int(math.Floor(exponent)))
}

// ticks returns labels at the powers of ten, and marks between them.
func ticks(low, high float64) []plot.Tick {
	marks := plot.LogTicks{}.Ticks(low, high)
	for i := range marks {
		marks[i].Label = ""
		if exponent := math.Log10(marks[i].Value); math.Abs(exponent-math.Round(exponent)) < 1e-9 {
			marks[i].Label = number(marks[i].Value)
		}
	}
	return marks
}

// add draws the i-th line. Dashes distinguish lines without colours.
func (l *line) add(drawn *plot.Plot, i int) error {
	path, points, err := plotter.NewLinePoints(l.points)
	if err != nil {
		return err
	}
	path.Color, path.Dashes, path.Width = plotutil.Color(i), plotutil.Dashes(i), vg.Points(2)
	points.Color, points.Shape = plotutil.Color(i), draw.CircleGlyph{}
	drawn.Add(path, points)
	drawn.Legend.Add(l.name, path, points)
	if len(l.rings) == 0 {
		return nil
	}
	rings, err := plotter.NewScatter(l.rings)
	if err != nil {
		return err
	}
	rings.GlyphStyle = draw.GlyphStyle{
		Color:  plotutil.Color(i),
		Radius: vg.Points(6),
		Shape:  draw.RingGlyph{},
	}
	drawn.Add(rings)
	if i == 0 { // one entry of the legend stands for all lines
		drawn.Legend.Add(l.name+", simulated", rings)
	}
	return nil
}
