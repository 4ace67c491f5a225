package chart_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/chart"
)

func draw(t *testing.T, c chart.Chart) string {
	t.Helper()
	var b strings.Builder
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("not XML: %v\n%s", err, b.String())
		}
	}
}

func TestChart(t *testing.T) {
	image := draw(t, chart.Chart{
		Title: "Time & <size>", Lines: []string{"ours", "PING"}, Notes: []string{"above", "note"}, Mark: chart.Mark{Name: "here", X: 100},
		Panels: []chart.Panel{
			{Title: "Time", X: "candidates", Unit: "us", Lines: [][]chart.Point{
				{{X: 10, Y: 100}, {X: 1000, Y: 10_000}}, {{X: 10, Y: 1000}, {X: 100}, {X: 1000, Y: 1000}},
			}},
			{Title: "Rate", X: "candidates", Lines: [][]chart.Point{{{X: 10, Y: 0.01}, {X: 100, Y: 0.1}}, nil}},
			{Title: "Rate", X: "goroutines", Lines: [][]chart.Point{{{X: 100, Y: 1}, {X: 10_000, Y: 10}}}},
		},
	})
	for _, want := range []string{
		"<title>Time &amp; &lt;size&gt;</title>", ">ours</text>", ">PING</text>", `y="448.0" class="">above</text>`, `y="466.0" class="">note</text>`, ">candidates</text>",
		// The scales: 100 to 10,000 us upwards, 10 to 1,000 to the right.
		`d="M90.0 384.0L480.0 84.0"`, ">100 us</text>", ">10,000 us</text>", ">1,000</text>",
		// A point that is not positive interrupts its line.
		`d="M90.0 234.0M480.0 234.0"`,
		`<circle class="line w1" cx="90.0" cy="234.0" r="3"/>`, `<circle class="line w1" cx="480.0" cy="234.0" r="3"/>`,
		// What counts the same has the same scale.
		`d="M570.0 384.0L765.0 84.0"`, ">0.01</text>", ">0.1</text>",
		`d="M1050.0 384.0L1440.0 84.0"`,
		`class="mark" d="M285.0 84v300"`, `class="mark" d="M765.0 84v300"`, ">here</text>",
	} {
		if !strings.Contains(image, want) {
			t.Errorf("no %s in\n%s", want, image)
		}
	}
	if n := strings.Count(image, `<path class="line w1"`); n != 2 { // the legend's and one panel's
		t.Errorf("%d lines of the second way, want 2", n)
	}
}

// A point alone can be seen, between numbers that say where it is.
func TestOnePoint(t *testing.T) {
	image := draw(t, chart.Chart{Lines: []string{"a"}, Panels: []chart.Panel{{Lines: [][]chart.Point{{{X: 50, Y: 70}}}}}})
	if strings.Contains(image, "NaN") || strings.Contains(image, "Inf") || strings.Contains(image, `class="mark"`) {
		t.Error(image)
	}
	for _, want := range []string{`<circle class="line w0" cx="362.6" cy="130.5"`, `y="402.0" class="mid">10<`, `y="402.0" class="mid">100<`} {
		if !strings.Contains(image, want) {
			t.Errorf("no %s in\n%s", want, image)
		}
	}
}

// Points that are said to differ have a ring, in the colour of their line, and the legend says what it means.
func TestRings(t *testing.T) {
	image := draw(t, chart.Chart{
		Lines: []string{"a", "b"}, Ring: "simulated",
		Panels: []chart.Panel{{Lines: [][]chart.Point{{{X: 1, Y: 1}, {X: 10, Y: 10, Ring: true}}, {{X: 10, Ring: true}, {X: 10, Y: 1}}}}},
	})
	if n := strings.Count(image, `<circle class="line ring`); n != 1 {
		t.Errorf("%d rings, want 1: a point that is not drawn has none", n)
	}
	for _, want := range []string{`<circle class="line ring w0" cx="480.0" cy="84.0" r="7"/>`, `<circle class="mark ring"`, ">simulated</text>"} {
		if !strings.Contains(image, want) {
			t.Errorf("no %s in\n%s", want, image)
		}
	}
}

// Numbers of any size are on the image: long scales have fewer, each has the room that it takes.
func TestScales(t *testing.T) {
	image := draw(t, chart.Chart{
		Lines: []string{"a"}, Mark: chart.Mark{Name: "far", X: 1e10},
		Panels: []chart.Panel{
			{Unit: "GiB", Lines: [][]chart.Point{{{X: 1, Y: 1e-7}, {X: 1e5, Y: 1e7}}}},
			{Unit: "$", Lines: [][]chart.Point{{{X: 1, Y: 1e5}, {X: 1e5, Y: 1e12}}}},
		},
	})
	want := []string{
		"0.0000001 GiB", "0.00001 GiB", "0.001 GiB", "0.1 GiB", "10 GiB", "1,000 GiB", "100,000 GiB", "10 million GiB",
		"$100,000", "$1 million", "$10 million", "$100 million", "$1 billion", "$10 billion", "$100 billion", "$1,000 billion",
	}
	columns := []string{"1", "1,000", "1 million", "1 billion"}
	if got := texts(t, image, "end"); !slices.Equal(got, want) {
		t.Errorf("vertical scales: %q, want %q", got, want)
	}
	if got := texts(t, image, "mid"); !slices.Equal(got, slices.Concat(columns, []string{""}, columns, []string{""})) {
		t.Errorf("horizontal scales: %q, want %q twice", got, columns)
	}
	for _, m := range regexp.MustCompile(`<text x="([0-9.-]+)" y="[0-9.]+" class="end">([^<]*)<`).FindAllStringSubmatch(image, -1) {
		if right, err := strconv.ParseFloat(m[1], 64); err != nil || right < 8*float64(len(m[2])) {
			t.Errorf("%s ends at %s, %v: it begins left of the image", m[2], m[1], err)
		}
	}
}

// The image is as wide as its longest text.
func TestWidth(t *testing.T) {
	long := strings.Repeat("n", 200)
	panel := []chart.Panel{{Lines: [][]chart.Point{{{X: 1, Y: 1}, {X: 10, Y: 10}}}}}
	for name, c := range map[string]chart.Chart{
		"title": {Title: long, Panels: panel}, "note": {Notes: []string{"", long}, Panels: panel}, "name": {Lines: []string{long}, Panels: panel},
		"mark": {Mark: chart.Mark{Name: long, X: 1}, Panels: panel},
	} {
		var width int
		_, err := fmt.Sscanf(draw(t, c), `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d 480"`, &width)
		if err != nil || width < 90+200*8 {
			t.Errorf("%s: %d pixels wide, %v", name, width, err)
		}
	}
}

// texts are those of a class, in the order of the image.
func texts(t *testing.T, image, class string) []string {
	t.Helper()
	var found []string
	for _, m := range regexp.MustCompile(`class="`+class+`">([^<]*)<`).FindAllStringSubmatch(image, -1) {
		found = append(found, m[1])
	}
	return found
}

func TestNothingToDraw(t *testing.T) {
	for name, c := range map[string]chart.Chart{
		"no panel":  {},
		"no points": {Panels: []chart.Panel{{Lines: [][]chart.Point{{{X: 0, Y: 1}, {X: 1, Y: 0}}}}}},
		"too many lines": {
			Lines: make([]string, chart.MaxLines+1), Panels: []chart.Panel{{Lines: [][]chart.Point{{{X: 1, Y: 1}}}}},
		},
	} {
		if err := c.WriteSVG(io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
