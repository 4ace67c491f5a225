package main

import (
	"context"
	"log/slog"

	"github.com/feedfilter/feedfilter/internal/tracing"
)

// watchFlags set how the service observes itself: it compares feeds with the ledger, and sends
// traces.
type watchFlags struct {
	SampleRate    float64 `default:"0.001"          help:"${sample_rate}"  placeholder:"RATE"`
	TraceEndpoint string  `help:"${trace_endpoint}" placeholder:"URL"`
	TraceSample   float64 `default:"0.01"           help:"${trace_sample}" placeholder:"RATIO"`
}

// Check implements [settings.Checker].
func (f *watchFlags) Check(context.Context) error {
	var all checks
	all.wantf(
		f.SampleRate >= 0 && f.SampleRate <= 1,
		"--sample-rate: %g is not in 0 to 1", f.SampleRate,
	)
	all.wantf(
		f.TraceSample >= 0 && f.TraceSample <= 1,
		"--trace-sample: %g is not in 0 to 1", f.TraceSample,
	)
	if f.TraceEndpoint != "" {
		err := (&tracing.Config{Endpoint: f.TraceEndpoint}).Check()
		all.wantf(err == nil, "--trace-endpoint: %w", err)
	}
	return all.err()
}

// trace starts to trace requests, and adds trace ids to log lines, if --trace-endpoint is set.
func (r *running) trace(ctx context.Context) (err error) {
	if r.Watch.TraceEndpoint == "" {
		return nil // a nil Tracer traces nothing
	}
	r.log = slog.New(tracing.LogHandler(r.log.Handler()))
	r.Data.tracer, err = tracing.Open(ctx, tracing.Config{
		Endpoint: r.Watch.TraceEndpoint,
		Ratio:    r.Watch.TraceSample,
		Version:  thisVersion().Version,
		Logger:   r.log,
	})
	if err != nil {
		return err
	}
	r.onEnd(func() { // sends the remaining traces; a failure is only logged
		if err := r.Data.tracer.Close(context.WithoutCancel(ctx)); err != nil {
			r.log.WarnContext(ctx, "last traces not sent", "error", err)
		}
	})
	return nil
}
