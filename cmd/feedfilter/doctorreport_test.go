package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A check that hangs is ended by its own limit, and the next one has time.
func TestDoctorLimit(t *testing.T) {
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
			{0, 6 * time.Second, "not looked at"},
		} {
			f := doctorCheck{name: "hangs", limit: c.limit, look: hang}.make(ctx)
			if at := time.Since(began); f.verdict != verdictFail || !strings.HasPrefix(f.found, c.says) || at != c.until {
				t.Errorf("after %v: %+v, want %s after %v", at, f, c.says, c.until)
			}
		}
	})
}

// What is printed for people, and what comes of it.
func TestDoctorReport(t *testing.T) {
	for _, c := range []struct {
		colours, strict bool
		findings        []finding
		want, err       string
	}{
		{findings: []finding{okf("a"), skipf("b")}, want: "ok    one  a\nskip  two  b\n\n2 checks: 1 ok, 1 skipped, 0 warned, 0 failed\n"},
		{
			findings: []finding{okf("a"), warn("b", "Do.")},
			want:     "ok    one  a\nwarn  two  b\n           -> Do.\n\n2 checks: 1 ok, 0 skipped, 1 warned, 0 failed\n",
		},
		{
			strict: true, findings: []finding{okf("a"), warn("b", "Do.")}, err: "doctor: 1 of 2 checks warned (--strict)",
			want: "ok    one  a\nwarn  two  b\n           -> Do.\n\n2 checks: 1 ok, 0 skipped, 1 warned, 0 failed\n",
		},
		{
			colours: true, findings: []finding{okf("a"), fail("b", "Do.")}, err: "doctor: 1 of 2 checks failed",
			want: "\x1b[32mok  \x1b[0m  one  a\n\x1b[31mfail\x1b[0m  two  b\n           -> Do.\n\n2 checks: 1 ok, 0 skipped, 0 warned, 1 failed\n",
		},
	} {
		b := &strings.Builder{}
		r := &doctorReport{out: b, colours: c.colours, width: 3}
		for i, f := range c.findings {
			if err := r.add([]string{"one", "two"}[i], f, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		err := r.end(c.strict)
		if b.String() != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%v, printed\n%q, want %q and\n%q", err, b, c.err, c.want)
		}
	}
}

// A signal ends it, with no verdict.
func TestDoctorInterrupted(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := interruption{os.Interrupt}
	c := &doctorCmd{Data: dataFlags{DataDir: t.TempDir(), Filter: "feed"}, Timeout: time.Minute, JSON: true}
	d := newDoctor(&c.Data, slog.New(slog.DiscardHandler))
	cancel(cause)
	err = c.run(ctx, d, stdio{out: out})
	if !errors.Is(err, cause) || exitCode(err) != 130 {
		t.Errorf("error %v, exit code %d", err, exitCode(err))
	}
	if text, err := os.ReadFile(out.Name()); err != nil || len(text) != 0 {
		t.Errorf("printed %q, %v", text, err)
	}
}
