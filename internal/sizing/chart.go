package sizing

import (
	"fmt"
	"io"
	"math"

	"github.com/feedfilter/feedfilter/internal/chart"
)

// Points of the chart: from a hundredth of the users planned for to ten times as many. The one planned for is at 0.
const (
	chartFrom, chartTo = -20, 10
	chartTenfold       = 10 // points to ten times as many
)

// WriteChart writes, as an SVG image, what in takes in memory and costs a month in a cluster for a hundredth of the
// users to ten times as many, with as many feeds for each. An error is New's, or w's.
func WriteChart(w io.Writer, in Input, prices Prices) error {
	plans, err := around(in, prices)
	if err != nil {
		return err
	}
	return drawing(in, plans).WriteSVG(w)
}

// around are the plans for fewer and more users, those that can be made, and for in itself.
func around(in Input, prices Prices) ([]*Plan, error) {
	if _, err := New(in, prices); err != nil {
		return nil, err
	}
	var plans []*Plan
	for i := chartFrom; i <= chartTo; i++ {
		at := in
		times := math.Pow(10, float64(i)/chartTenfold)
		at.Users, at.FeedsPerSecond = in.Users*times, in.FeedsPerSecond*times
		if p, err := New(at, prices); err == nil { // otherwise too few, or too many for the pages named
			plans = append(plans, p)
		}
	}
	return plans, nil
}

// drawing is a chart of plans, in's among them.
func drawing(in Input, plans []*Plan) *chart.Chart {
	const users = "users"
	c := &chart.Chart{
		Title: "Memory and cost a month against the number of users",
		Mark:  chart.Mark{Name: "planned", X: in.Users},
		Notes: []string{fmt.Sprintf("%s activities a user, %s feeds a second for every million users, false positives %s %%",
			count(in.ActivitiesPerUser), short(in.FeedsPerSecond/in.Users*1e6), short(100*in.FalsePositiveRate))},
	}
	memory := chart.Panel{Title: "Memory", X: users, Unit: "GiB"}
	cost := chart.Panel{Title: fmt.Sprintf("Cost a month, shards of %d", 1+in.Replicas), X: users, Unit: "$"}
	priced := false
	for i, way := range plans[0].Ways {
		c.Lines = append(c.Lines, way.Name)
		sizes, costs := make([]chart.Point, len(plans)), make([]chart.Point, len(plans))
		for j, p := range plans {
			w := p.Ways[i]
			sizes[j] = chart.Point{X: p.Input.Users, Y: w.Memory / (1 << 30)}
			costs[j].X = p.Input.Users
			if w.Cluster != nil {
				costs[j].Y, priced = w.Cluster.USDMonth, true
			}
		}
		memory.Lines, cost.Lines = append(memory.Lines, sizes), append(cost.Lines, costs)
	}
	c.Panels = []chart.Panel{memory}
	if priced {
		origin := plans[0].Prices
		c.Panels = append(c.Panels, cost)
		c.Notes = append(c.Notes, fmt.Sprintf("Prices: %s, %s, %s.", origin.Region, origin.Date, origin.Source))
	} else {
		c.Title = "Memory against the number of users"
		c.Notes = append(c.Notes, "No cost is drawn: no cluster of these nodes does.")
	}
	return c
}
