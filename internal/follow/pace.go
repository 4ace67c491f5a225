package follow

import (
	"context"
	"time"
)

// paceRows is the number of rows after which a pace may pause.
const paceRows = 500

// pace bounds how many rows are read in a second. It does not catch up after rows that came late.
// It is for one goroutine.
type pace struct {
	rate  int // rows a second; 0: no bound
	rows  int // since began
	began time.Time
}

// row notes that a row was read, and pauses if rows come too fast. The error is that of ctx.
func (p *pace) row(ctx context.Context) error {
	if p.rate == 0 {
		return nil
	}
	if p.rows == 0 {
		p.began = time.Now()
	}
	p.rows++
	if p.rows < paceRows {
		return nil
	}
	due := p.began.Add(time.Duration(p.rows) * time.Second / time.Duration(p.rate))
	p.rows = 0
	return pause(ctx, time.Until(due))
}
