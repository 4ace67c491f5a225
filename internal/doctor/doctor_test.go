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
		hang := func(_ *doctor, ctx context.Context) finding {
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
			{3 * time.Second, 3 * time.Second, "no answer in time"},
			{time.Second, 4 * time.Second, "no answer in time"},
			{3 * time.Second, 6 * time.Second, "no answer in time"},
			{3 * time.Second, 6 * time.Second, "not checked"},
		} {
			f := (&doctor{}).make(ctx, check{name: "hangs", limit: c.limit, look: hang})
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
	checks := []check{
		{name: "one", limit: time.Minute, look: func(*doctor, context.Context) finding { return warn("a\xffb\x1b[31mc\nd", "e\x00\u202ef") }},
		{name: "two", limit: time.Minute, look: func(*doctor, context.Context) finding { return okf("fine") }},
		{name: "three", limit: time.Minute, look: func(*doctor, context.Context) finding { return finding{} }}, // not told
	}
	var told []Result
	var full error
	tell := func(r Result) error { told = append(told, r); return full }
	if err := (&doctor{}).run(t.Context(), checks, tell); err != nil || len(told) != 2 {
		t.Fatal(err, told)
	}
	if r := told[0]; r.Found != "a?b?[31mc?d" || r.Todo != "e??f" || r.Status != Warn {
		t.Errorf("%+v", r)
	}
	told, full = nil, errors.New("full")
	if err := (&doctor{}).run(t.Context(), checks, tell); !errors.Is(err, full) || len(told) != 1 {
		t.Errorf("%v, after %v", err, told)
	}
}
