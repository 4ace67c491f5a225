package chart

import (
	"math"
	"strconv"
)

const (
	maxRows, maxColumns = 8, 4 // steps of an axis that there is room for
	labelGap            = 8    // pixels between a panel and the labels of its scale
	rounding            = 1e-9 // of powers, so that 999.9999999 counts as 1,000
)

// axis places powers of ten, in pixels.
type axis struct{ from, length, low, high float64 }

// newAxis is an axis without a scale.
func newAxis(from, length float64) axis { return axis{from, length, math.Inf(1), math.Inf(-1)} }

// include makes the scale take a value of all of the panel's points.
func (a *axis) include(p Panel, value func(Point) float64) {
	for _, points := range p.Lines {
		for _, at := range points {
			if at.drawn() {
				a.add(math.Log10(value(at)))
			}
		}
	}
}

func (a *axis) add(power float64) { a.low, a.high = min(a.low, power), max(a.high, power) }

func (a *axis) empty() bool { return math.IsInf(a.low, 1) }

func (a *axis) at(power float64) float64 {
	if a.high <= a.low {
		return a.from
	}
	return a.from + a.length*(power-a.low)/(a.high-a.low)
}

// ticks are the whole powers on the axis, all or, to have no more than that many steps, each second, third and so on.
func (a *axis) ticks(steps float64) []float64 {
	var powers []float64
	low, high := math.Ceil(a.low-rounding), math.Floor(a.high+rounding)
	step := max(1, math.Ceil((high-low)/steps))
	for power := low; power <= high; power += step {
		powers = append(powers, power)
	}
	return powers
}

// label is 10 to that power, in words from a million on, with its unit.
func label(power float64, unit string) string {
	number := powerOfTen(power)
	switch unit {
	case "":
		return number
	case "$":
		return unit + number
	}
	return number + " " + unit
}

func powerOfTen(power float64) string {
	switch {
	case power >= 9:
		return powerOfTen(power-9) + " billion"
	case power >= 6:
		return powerOfTen(power-6) + " million"
	case power >= 3:
		return powerOfTen(power-3) + ",000"
	}
	return strconv.FormatFloat(math.Pow(10, power), 'f', int(max(0, -power)), 64)
}
