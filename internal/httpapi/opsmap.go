package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/inspect"
)

const (
	defaultCells = 1024
	minMapCells  = 2 // shared and dedicated pages are never in one
	// lookedAtOnce is how many pages are looked at for one map where no scrub does.
	lookedAtOnce = 4096
)

// opsMapAnswer is the map of all pages, or of some that follow on each other.
type opsMapAnswer struct {
	Pages   int       `json:"pages"`
	OwnFrom int       `json:"own_from"` // position of the first dedicated page
	From    int       `json:"from"`
	To      int       `json:"to"`
	Cells   []mapCell `json:"cells"`
}

// mapCell is pages that follow on each other.
type mapCell struct {
	From     int     `json:"from"` // positions
	To       int     `json:"to"`
	First    uint32  `json:"first"` // numbers
	Last     uint32  `json:"last"`
	Own      bool    `json:"own"`
	Pages    int     `json:"pages"`
	LookedAt int     `json:"looked_at"`
	Keys     uint64  `json:"keys"`
	Bytes    uint64  `json:"bytes"`
	Fill     spread  `json:"fill"`
	Collided spread  `json:"collided"`
	RateMax  float64 `json:"rate_max"`

	// Pages by state; of sound ones there are as many as are left.
	Behind   int `json:"behind,omitzero"`
	Missing  int `json:"missing,omitzero"`
	Damaged  int `json:"damaged,omitzero"`
	Foreign  int `json:"foreign,omitzero"`
	Ahead    int `json:"ahead,omitzero"`
	Overfull int `json:"overfull,omitzero"`
	Unused   int `json:"unused,omitzero"`
	Unknown  int `json:"unknown,omitzero"`

	BehindMax uint64 `json:"behind_max,omitzero"` // changes that a page lacks
	OldestAge int64  `json:"oldest_age_seconds"`

	stand int // pages that spreads are of
}

// spread is of shares from 0 to 1.
type spread struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// opsPages answers the map of all pages, as they were last looked at.
func (s *service) opsPages(c echo.Context) error {
	values, err := query(c, "cells", "from", "to")
	if err != nil {
		return err
	}
	if err := noBody(c); err != nil {
		return err
	}
	totals := s.activities.Inside().SurveyTotals()
	cells, err := numberIn(values, "cells", minMapCells, inspect.MaxCells, defaultCells)
	if err != nil {
		return err
	}
	from, err := numberIn(values, "from", 0, max(0, totals.Pages-1), 0)
	if err != nil {
		return err
	}
	to, err := numberIn(values, "to", 1, math.MaxInt32, totals.Pages)
	if err != nil {
		return err
	}
	if to = min(to, totals.Pages); to <= from {
		return refuse(activity.CodeOutOfRange, "to", fmt.Sprintf("%d is not after %d", to, from))
	}
	ctx, cancel := s.bounded(c.Request().Context())
	defer cancel()
	if p, ok := s.activities.(*activity.Plain); ok { // which no scrub goes through
		if err := p.Look(ctx, lookedAtOnce); err != nil {
			s.logError(c, "look at pages", err) // the map says how old what it shows is
		}
	}
	answer := opsMapAnswer{Pages: totals.Pages, OwnFrom: totals.Pages - totals.Dedicated, From: from, To: to, Cells: []mapCell{}}
	size := cellSize(max(0, min(to, answer.OwnFrom)-from), to-max(from, answer.OwnFrom), cells)
	position := -1
	for p := range s.activities.Inside().Survey() {
		position++
		if position < from {
			continue
		}
		if position >= to {
			break
		}
		if n := len(answer.Cells); n == 0 || answer.Cells[n-1].Pages == size || answer.Cells[n-1].Own != p.Dedicated {
			answer.Cells = append(answer.Cells, mapCell{From: position, First: p.Number, Own: p.Dedicated})
		}
		answer.Cells[len(answer.Cells)-1].add(p)
	}
	for i := range answer.Cells {
		answer.Cells[i].end()
	}
	return respond(c, http.StatusOK, answer)
}

// cellSize is how many pages go in a cell, so that there are no more cells than that.
func cellSize(shared, own, cells int) int {
	own = max(0, own)
	size := max(1, (shared+own+cells-1)/cells)
	for (shared+size-1)/size+(own+size-1)/size > cells {
		size += max(1, size/64)
	}
	return size
}

func (c *mapCell) add(p pages.SurveyedPage) {
	c.Pages++
	c.To, c.Last = c.From+c.Pages, p.Number
	if p.State != pages.PageUnknown {
		c.LookedAt++
		c.OldestAge = max(c.OldestAge, int64(p.Age/time.Second))
	}
	switch p.State {
	case pages.PageSound:
	case pages.PageUnknown:
		c.Unknown++
	case pages.PageUnused:
		c.Unused++
	case pages.PageMissing:
		c.Missing++
	case pages.PageDamaged:
		c.Damaged++
	case pages.PageBehind:
		c.Behind++
		c.BehindMax = max(c.BehindMax, p.Behind)
	case pages.PageForeign:
		c.Foreign++
	case pages.PageAhead:
		c.Ahead++
	case pages.PageOverfull:
		c.Overfull++
	}
	if p.Bytes == 0 {
		return // nothing is known of it
	}
	c.stand++
	c.Keys += uint64(p.Keys)
	c.Bytes += uint64(p.Bytes)
	c.Fill.add(p.Fill)
	c.Collided.add(p.Collided)
	c.RateMax = max(c.RateMax, p.Rate)
}

// add sums up what end makes a mean of.
func (s *spread) add(share float64) {
	s.Mean += share
	s.Max = max(s.Max, share)
}

func (c *mapCell) end() {
	if c.stand > 0 {
		c.Fill.Mean /= float64(c.stand)
		c.Collided.Mean /= float64(c.stand)
	}
	c.Fill.round()
	c.Collided.round()
}

// round leaves ten-thousandths.
func (s *spread) round() {
	const steps = 1e4
	s.Mean, s.Max = math.Round(s.Mean*steps)/steps, math.Round(s.Max*steps)/steps
}
