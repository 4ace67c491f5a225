package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// counter shows on a terminal how many activities are done, when the total is unknown. Without a
// terminal, it shows nothing.
type counter struct {
	std stdio
	bar *progressbar.ProgressBar // nil: no terminal
}

func newCounter(std stdio) *counter {
	c := &counter{std: std}
	if term.IsTerminal(int(std.err.Fd())) {
		c.bar = progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(std.err),
			progressbar.OptionSetDescription("activities"),
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionClearOnFinish())
	}
	return c
}

// advance adds a number of activities.
func (c *counter) advance(activities int) {
	if c.bar != nil {
		_ = c.bar.Add(activities)
	}
}

// note writes a line above the count.
func (c *counter) note(line string) {
	if c.bar != nil {
		_ = c.bar.Clear()
	}
	c.std.note(line)
}

// end removes the count.
func (c *counter) end() {
	if c.bar != nil {
		_ = c.bar.Exit()
		_ = c.bar.Clear()
	}
}
