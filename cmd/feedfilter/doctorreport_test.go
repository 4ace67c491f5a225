package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/doctor"
)

// The text report and the error show the same result.
func TestDoctorReport(t *testing.T) {
	one, warned := doctor.Result{Name: "one", Found: "a"}, doctor.Result{Name: "two", Status: doctor.Warn, Found: "b", Todo: "Do."}
	failed := doctor.Result{Name: "two", Status: doctor.Fail, Found: "b", Todo: "Do."}
	for _, c := range []struct {
		strict    bool
		last      doctor.Result
		want, err string
	}{
		{
			last: doctor.Result{Name: "two", Status: doctor.Skip, Found: "b"},
			want: "ok    one            a\nskip  two            b\n\n2 checks: 1 ok, 1 skipped, 0 warned, 0 failed\n",
		},
		{last: warned, want: "ok    one            a\nwarn  two            b\n                     -> Do.\n\n2 checks: 1 ok, 0 skipped, 1 warned, 0 failed\n"},
		{
			strict: true, last: warned, err: "1 of 2 checks warned (--strict)",
			want: "ok    one            a\nwarn  two            b\n                     -> Do.\n\n2 checks: 1 ok, 0 skipped, 1 warned, 0 failed\n",
		},
		{
			last: failed, err: "1 of 2 checks failed",
			want: "ok    one            a\nfail  two            b\n                     -> Do.\n\n2 checks: 1 ok, 0 skipped, 0 warned, 1 failed\n",
		},
	} {
		b := &strings.Builder{}
		p := &doctorPrinter{out: b}
		must(t, errors.Join(p.add(one), p.add(c.last)))
		err := p.end(c.strict)
		if b.String() != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%v, printed\n%q, want %q and\n%q", err, b, c.err, c.want)
		}
	}
}

// The JSON report is a single object.
func TestDoctorReportJSON(t *testing.T) {
	b := &strings.Builder{}
	p := &doctorPrinter{out: b, json: true}
	r := doctor.Result{Name: "one", Status: doctor.Warn, Found: `a"b`, Todo: "Do.", DurationMS: 1.5}
	must(t, errors.Join(p.add(r), p.end(false)))
	var got bytes.Buffer
	must(t, json.Compact(&got, []byte(b.String())))
	if want := `{"ok":true,"checks":[{"name":"one","status":"warn","found":"a\"b","todo":"Do.","duration_ms":1.5}]}`; got.String() != want {
		t.Errorf("%s, want %s", got.String(), want)
	}
}

// A signal ends doctor without a report.
func TestDoctorInterrupted(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer out.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := interruption{os.Interrupt}
	c := &doctorCmd{Data: dataFlags{DataDir: t.TempDir(), Filter: "feed"}, Timeout: time.Minute, Result: resultFlags{Output: asJSON}}
	cancel(cause)
	err = c.Run(ctx, stdio{out: out})
	if !errors.Is(err, cause) || exitCode(err) != 130 {
		t.Errorf("error %v, exit code %d", err, exitCode(err))
	}
	if text, err := os.ReadFile(out.Name()); err != nil || len(text) != 0 {
		t.Errorf("printed %q, %v", text, err)
	}
}
