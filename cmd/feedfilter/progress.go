package main

import (
	"fmt"
	"time"
)

// tellEvery is how often a command says how far it is.
const tellEvery = 5 * time.Second

// progress is how far a command is. It says so on standard error every few seconds.
type progress struct {
	std       stdio
	unit      string // such as "pages"
	done, all int    // all: 0 while it is unknown

	begun, told time.Time
}

func newProgress(std stdio, unit string) *progress {
	now := time.Now()
	return &progress{std: std, unit: unit, begun: now, told: now}
}

// show notes that so many units are done, of all.
func (p *progress) show(done, all int) {
	p.done, p.all = done, all
	if time.Since(p.told) < tellEvery {
		return
	}
	p.told = time.Now()
	took := time.Since(p.begun).Round(time.Second)
	if all > 0 {
		p.std.note(fmt.Sprintf("%d of %d %s done after %v", done, all, p.unit, took))
	} else {
		p.std.note(fmt.Sprintf("%d %s done after %v", done, p.unit, took))
	}
}
