package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows on a terminal how much of a file is done, or how many activities if its size is
// unknown. Without a terminal, it shows nothing.
type progress struct {
	std        stdio
	bar        *progressbar.ProgressBar // nil: no terminal
	begun      time.Time
	sized      bool
	offset     int64 // in the file, up to which it is imported
	activities int
}

// newProgress shows progress on std.err for a file of size bytes, from offset on. A size of -1 is
// unknown.
func newProgress(std stdio, size, offset int64) *progress {
	p := &progress{std: std, begun: time.Now(), sized: size >= 0, offset: offset}
	if !term.IsTerminal(int(std.err.Fd())) || size == offset {
		return p
	}
	remaining := int64(-1)
	if size > offset {
		remaining = size - offset
	}
	p.bar = progressbar.NewOptions64(remaining, append(barOptions(std),
		progressbar.OptionShowBytes(p.sized),
		progressbar.OptionSetPredictTime(remaining > 0))...)
	return p
}

// barOptions returns the options of every bar.
func barOptions(std stdio) []progressbar.Option {
	theme := progressbar.ThemeDefault
	if !speaksUTF8(os.Getenv) {
		theme = progressbar.ThemeASCII
	}
	return []progressbar.Option{
		progressbar.OptionSetWriter(std.err),
		progressbar.OptionSetTheme(theme),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(20),
		progressbar.OptionClearOnFinish(),
	}
}

// advance adds a number of activities, and moves the bar to offset.
func (p *progress) advance(offset int64, activities int) {
	done := offset - p.offset
	if !p.sized {
		done = int64(activities)
	}
	p.offset = offset
	p.activities += activities
	if p.bar == nil {
		return
	}
	rate := float64(p.activities) / time.Since(p.begun).Seconds()
	p.bar.Describe(fmt.Sprintf("%.0f activities/s", rate))
	_ = p.bar.Add64(done) // fails past the end, if the file has grown
}

// note writes a line above the bar.
func (p *progress) note(line string) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.std.note(line)
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Exit()
		_ = p.bar.Clear()
	}
}

// speaksUTF8 reports whether the locale uses UTF-8, by the first variable that is set.
func speaksUTF8(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToUpper(env(name)); locale != "" {
			return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
		}
	}
	return false
}
