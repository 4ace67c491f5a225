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
	width   int // of the longest name
}

func newDoctorPrinter(out io.Writer, asJSON, colours bool, checks []string) *doctorPrinter {
	p := &doctorPrinter{out: out, json: asJSON, colours: colours}
	for _, name := range checks {
		p.width = max(p.width, len(name))
	}
	return p
}

// colourOf returns the terminal colour of a status.
func colourOf(s doctor.Status) string {
	switch s {
	case doctor.OK:
		return "32" // green
	case doctor.Skip:
		return "2" // faint
	case doctor.Warn:
		return "33" // yellow
	default:
		return "31" // red
	}
}

func (p *doctorPrinter) add(r doctor.Result) error {
	if p.json {
		return nil
	}
	status := fmt.Sprintf("%-4s", r.Status)
	if p.colours {
		status = "\x1b[" + colourOf(r.Status) + "m" + status + "\x1b[0m"
	}
	line := fmt.Sprintf("%s  %-*s  %s\n", status, p.width, r.Name, r.Found)
	if r.Todo != "" {
		line += fmt.Sprintf("%*s-> %s\n", len("warn  ")+p.width+len("  "), "", r.Todo)
	}
	_, err := io.WriteString(p.out, line)
	return err
}

// end prints the summary or the JSON report. It returns an error if a check failed, or, with
// strict, if a check warned.
func (p *doctorPrinter) end(report *doctor.Report, strict bool) error {
	failed, warned := report.Count(doctor.Fail), report.Count(doctor.Warn)
	healthy := failed == 0 && (!strict || warned == 0)
	var err error
	if p.json {
		err = p.writeJSON(report, healthy)
	} else {
		_, err = fmt.Fprintf(p.out, "\n%d checks: %d ok, %d skipped, %d warned, %d failed\n",
			len(report.Results), report.Count(doctor.OK), report.Count(doctor.Skip), warned, failed)
	}
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d checks failed", failed, len(report.Results))
	case !healthy:
		return fmt.Errorf("%d of %d checks warned (--strict)", warned, len(report.Results))
	}
	return nil
}

// doctorResult is a result in --output json.
type doctorResult struct {
	Name       string  `json:"name"`
	Status     string  `json:"status"`
	Found      string  `json:"found"`
	Todo       string  `json:"todo,omitzero"`
	DurationMS float64 `json:"duration_ms"`
}

func (p *doctorPrinter) writeJSON(report *doctor.Report, healthy bool) error {
	checks := make([]doctorResult, len(report.Results))
	for i, r := range report.Results {
		checks[i] = doctorResult{r.Name, r.Status.String(), r.Found, r.Todo, float64(r.Took.Microseconds()) / 1000}
	}
	return writeJSON(p.out, struct {
		OK     bool           `json:"ok"`
		Checks []doctorResult `json:"checks"`
	}{healthy, checks})
}
