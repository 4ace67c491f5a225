package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"golang.org/x/term"
)

// verdict is what a check comes to. A greater one is worse.
type verdict int

const (
	verdictOK verdict = iota
	verdictSkip
	verdictWarn
	verdictFail
)

func (v verdict) String() string { return [...]string{"ok", "skip", "warn", "fail"}[v] }

// colour is that of a verdict on a terminal.
func (v verdict) colour() string { return [...]string{"32", "2", "33", "31"}[v] }

// finding is the outcome of a check.
type finding struct {
	verdict verdict
	found   string
	todo    string // a sentence or two; "" if there is nothing to do
}

func okf(format string, args ...any) finding {
	return finding{verdict: verdictOK, found: fmt.Sprintf(format, args...)}
}

func skipf(format string, args ...any) finding {
	return finding{verdict: verdictSkip, found: fmt.Sprintf(format, args...)}
}

func warn(found, todo string) finding { return finding{verdictWarn, found, todo} }

func fail(found, todo string) finding { return finding{verdictFail, found, todo} }

// words is an error on one line, with what people have to know of a deadline.
func words(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, end := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		text = strings.ReplaceAll(text, end.Error(), "no answer in time")
	}
	return text
}

// doctorResult is a finding as --json has it.
type doctorResult struct {
	Name       string  `json:"name"`
	Status     string  `json:"status"`
	Found      string  `json:"found"`
	Todo       string  `json:"todo,omitzero"`
	DurationMS float64 `json:"duration_ms"`
}

// doctorReport prints findings: each when it is known, or all at the end in JSON.
type doctorReport struct {
	out     io.Writer
	json    bool
	colours bool
	width   int // of the longest name
	results []doctorResult
	count   [verdictFail + 1]int
}

func newDoctorReport(out *os.File, asJSON bool, checks []doctorCheck) *doctorReport {
	r := &doctorReport{out: out, json: asJSON, results: make([]doctorResult, 0, len(checks))}
	r.colours = term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	for _, c := range checks {
		r.width = max(r.width, len(c.name))
	}
	return r
}

// printable is text that may be of a server's making, fit for a terminal and for JSON.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

func (r *doctorReport) add(name string, f finding, took time.Duration) error {
	f.found, f.todo = printable(f.found), printable(f.todo)
	r.count[f.verdict]++
	r.results = append(r.results, doctorResult{
		Name: name, Status: f.verdict.String(), Found: f.found, Todo: f.todo,
		DurationMS: float64(took.Microseconds()) / 1000,
	})
	if r.json {
		return nil
	}
	status := fmt.Sprintf("%-4s", f.verdict)
	if r.colours {
		status = "\x1b[" + f.verdict.colour() + "m" + status + "\x1b[0m"
	}
	line := fmt.Sprintf("%s  %-*s  %s\n", status, r.width, name, f.found)
	if f.todo != "" {
		line += fmt.Sprintf("%*s-> %s\n", len("warn  ")+r.width+len("  "), "", f.todo)
	}
	_, err := io.WriteString(r.out, line)
	return err
}

// end prints what is left to print, and returns an error if a check failed, or, if that is to be an error too, warned.
func (r *doctorReport) end(strict bool) error {
	failed, warned := r.count[verdictFail], r.count[verdictWarn]
	healthy := failed == 0 && (!strict || warned == 0)
	var err error
	if r.json {
		err = json.MarshalWrite(r.out, struct {
			OK     bool           `json:"ok"`
			Checks []doctorResult `json:"checks"`
		}{healthy, r.results})
		if err == nil {
			_, err = io.WriteString(r.out, "\n")
		}
	} else {
		_, err = fmt.Fprintf(r.out, "\n%d checks: %d ok, %d skipped, %d warned, %d failed\n",
			len(r.results), r.count[verdictOK], r.count[verdictSkip], warned, failed)
	}
	switch {
	case err != nil:
		return fmt.Errorf("doctor: %w", err)
	case failed > 0:
		return fmt.Errorf("doctor: %d of %d checks failed", failed, len(r.results))
	case !healthy:
		return fmt.Errorf("doctor: %d of %d checks warned (--strict)", warned, len(r.results))
	}
	return nil
}

// someNodes is how many nodes one finding names.
const someNodes = 3

// across makes a check of each node one check of all: the worst finding, with those that have it, or what there is
// if nothing is wrong. Nodes that did not answer are the business of the check "server".
func (d *doctor) across(judge func(*redisNode) finding) func(context.Context) finding {
	return func(context.Context) finding { return summarize(d.nodes, judge) }
}

func summarize(nodes []*redisNode, judge func(*redisNode) finding) finding {
	var worst []finding // those that are as bad as it gets
	var names []string
	same, n := true, 0
	for _, node := range nodes {
		if node.err != nil {
			continue
		}
		n++
		f := judge(node)
		if len(worst) > 0 && f.verdict < worst[0].verdict {
			continue
		}
		if len(worst) > 0 && f.verdict > worst[0].verdict {
			worst, names, same = nil, nil, true
		}
		worst, names = append(worst, f), append(names, node.addr)
		same = same && f == worst[0]
	}
	switch {
	case n == 0:
		return skipf("no server can be asked")
	case len(nodes) == 1:
		return worst[0]
	case same && len(worst) == len(nodes):
		f := worst[0]
		f.found += fmt.Sprintf(" (each of %d nodes)", n)
		return f
	}
	f := worst[0]
	var parts []string
	for i, name := range names[:min(len(names), someNodes)] {
		parts = append(parts, name+": "+worst[i].found)
	}
	f.found = andMore(parts, len(worst)-len(parts))
	if f.verdict != verdictOK {
		f.found += fmt.Sprintf(" (%d of %d nodes)", len(worst), n)
	}
	return f
}

// andMore joins what is shown of a list.
func andMore(parts []string, more int) string {
	if more > 0 {
		parts = append(slices.Clip(parts), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
