package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A hanging check ends at its own limit and leaves time for the next one.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) finding {
			<-ctx.Done()
			return fail(words(ctx.Err()), "Do something.")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		began := time.Now()
		for _, c := range []struct {
			limit, until time.Duration // since the beginning
			says         string
		}{
			{0, 3 * time.Second, "no answer in time"},
			{time.Second, 4 * time.Second, "no answer in time"},
			{0, 6 * time.Second, "no answer in time"},
			{0, 6 * time.Second, "not checked"},
		} {
			f := check{name: "hangs", limit: c.limit, look: hang}.make(ctx)
			if at := time.Since(began); f.status != Fail || !strings.HasPrefix(f.found, c.says) || at != c.until {
				t.Errorf("after %v: %+v, want %s after %v", at, f, c.says, c.until)
			}
		}
	})
}

// PostgreSQL's driver puts each address that it tried on a line of its own, after a tab.
func TestWordsAreOneLine(t *testing.T) {
	t.Parallel()
	err := errors.New("failed to connect:\n\ta: refused\n\tb: refused\nc: " + context.DeadlineExceeded.Error())
	if got, want := words(err), "failed to connect: a: refused; b: refused; c: no answer in time"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Control characters from servers are replaced, and an error of tell ends the run.
func TestFindingsArePrintable(t *testing.T) {
	d := &Doctor{checks: []check{
		{name: "one", look: func(context.Context) finding { return warn("a\xffb\x1b[31mc\nd", "e\x00\u202ef") }},
		{name: "two", look: func(context.Context) finding { return okf("fine") }},
	}}
	report, err := d.Run(t.Context(), func(Result) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Results[0]; r.Found != "a?b?[31mc?d" || r.Todo != "e??f" || r.Status != Warn {
		t.Errorf("%+v", r)
	}
	if report.Count(OK) != 1 || report.Count(Warn) != 1 || report.Count(Fail) != 0 {
		t.Errorf("%+v", report)
	}
	full := errors.New("full")
	told := 0
	_, err = d.Run(t.Context(), func(Result) error { told++; return full })
	if !errors.Is(err, full) || told != 1 {
		t.Errorf("%v, after %d", err, told)
	}
}
