package main

import (
	"fmt"
	"io"

	"github.com/feedfilter/feedfilter/internal/doctor"
)

// doctorPrinter prints each result at once as text, or all at the end as JSON.
type doctorPrinter struct {
	out     io.Writer
	json    bool
	colours bool
	results []doctor.Result
	counts  [doctor.Fail + 1]int // by status
}

func (p *doctorPrinter) add(r doctor.Result) error {
	p.results = append(p.results, r)
	p.counts[r.Status]++
	if p.json {
		return nil
	}
	status := fmt.Sprintf("%-4s", r.Status)
	if p.colours { // green, faint, yellow, red
		status = "\x1b[" + [...]string{"32", "2", "33", "31"}[r.Status] + "m" + status + "\x1b[0m"
	}
	const width = len("configuration") // the longest name
	line := fmt.Sprintf("%s  %-*s  %s\n", status, width, r.Name, r.Found)
	if r.Todo != "" {
		line += fmt.Sprintf("%*s-> %s\n", len("warn  ")+width+len("  "), "", r.Todo)
	}
	_, err := io.WriteString(p.out, line)
	return err
}

// end prints the summary or the JSON report. It returns an error if a check failed, or, with
// strict, if a check warned.
func (p *doctorPrinter) end(strict bool) (err error) {
	all, failed, warned := len(p.results), p.counts[doctor.Fail], p.counts[doctor.Warn]
	healthy := failed == 0 && (!strict || warned == 0)
	if p.json {
		err = writeJSON(p.out, struct {
			OK     bool            `json:"ok"`
			Checks []doctor.Result `json:"checks"`
		}{healthy, p.results})
	} else {
		_, err = fmt.Fprintf(p.out, "\n%d checks: %d ok, %d skipped, %d warned, %d failed\n",
			all, p.counts[doctor.OK], p.counts[doctor.Skip], warned, failed)
	}
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d checks failed", failed, all)
	case !healthy:
		return fmt.Errorf("%d of %d checks warned (--strict)", warned, all)
	}
	return nil
}
