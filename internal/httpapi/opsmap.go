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
	minMapCells  = 2 // a cell has either shared or dedicated pages
	// lookedAtOnce is the number of pages that one map surveys if no scrub does.
	lookedAtOnce = 4096
)

// opsMapAnswer is the map of all pages, or of consecutive ones.
type opsMapAnswer struct {
	Pages   int       `json:"pages"`
	OwnFrom int       `json:"own_from"` // position of the first dedicated page
	From    int       `json:"from"`
	To      int       `json:"to"`
	Cells   []mapCell `json:"cells"`
}

// mapCell stands for consecutive pages.
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

	// Pages by state. All others are sound.
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

	stand int // pages that count in fill and collided
}

// spread is the mean and the maximum of shares from 0 to 1.
type spread struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// opsPages answers with the map of all pages, as they were last surveyed.
func (o operations) opsPages(c echo.Context) error {
	values, err := query(c, "cells", "from", "to")
	if err != nil {
		return err
	}
	if err := noBody(c); err != nil {
		return err
	}
	totals := o.activities.Inside().SurveyTotals()
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
		return refuse(activity.CodeOutOfRange, "to", fmt.Sprintf("%d is not greater than from, %d", to, from))
	}
	ctx, cancel := o.bounded(c.Request().Context())
	defer cancel()
	if p, ok := o.activities.(*activity.Plain); ok { // without a ledger there is no scrub
		if err := p.Look(ctx, lookedAtOnce); err != nil {
			o.logError(c, o.faults, "survey pages", err) // the map shows how old its data is
		}
	}
	answer := opsMapAnswer{Pages: totals.Pages, OwnFrom: totals.Pages - totals.Dedicated, From: from, To: to, Cells: []mapCell{}}
	size := cellSize(max(0, min(to, answer.OwnFrom)-from), to-max(from, answer.OwnFrom), cells)
	position := -1
	for p := range o.activities.Inside().Survey() {
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

// cellSize returns how many pages a cell has, so that there are at most so many cells.
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
		return // nothing is known about it
	}
	c.stand++
	c.Keys += uint64(p.Keys)
	c.Bytes += uint64(p.Bytes)
	c.Fill.add(p.Fill)
	c.Collided.add(p.Collided)
	c.RateMax = max(c.RateMax, p.Rate)
}

// add adds a share to the sum, which end turns into a mean.
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

// round rounds to four decimals.
func (s *spread) round() {
	const steps = 1e4
	s.Mean, s.Max = math.Round(s.Mean*steps)/steps, math.Round(s.Max*steps)/steps
}
