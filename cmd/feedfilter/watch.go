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

// watchHelp is the help of watchFlags.
func watchHelp() map[string]string {
	return map[string]string{
		"sample_rate": "Share of answered feeds to compare with the ledger, 0 to 1; posts that they missed are counted and repaired " +
			"(docs/RELIABILITY.md).",
		"trace_endpoint": "OTLP/HTTP collector of traces, such as http://127.0.0.1:4318 (docs/DEPLOY.md). Default: no traces",
		"trace_sample": "Share of requests to trace, 0 to 1, among those without a traceparent. A traceparent decides for its " +
			"own request, if the caller has the token that --auth-file requires.",
	}
}

// Check implements [settings.Checker].
func (f *watchFlags) Check(context.Context) error {
	var all checks
	all.wantf(f.SampleRate >= 0 && f.SampleRate <= 1, "--sample-rate: %g is not in 0 to 1", f.SampleRate)
	all.wantf(f.TraceSample >= 0 && f.TraceSample <= 1, "--trace-sample: %g is not in 0 to 1", f.TraceSample)
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
		Endpoint: r.Watch.TraceEndpoint, Ratio: r.Watch.TraceSample, Version: thisVersion().Version, Logger: r.log,
	})
	if err != nil {
		return err
	}
	r.onClose(func() error { // sends the remaining traces; a failure is only logged
		if err := r.Data.tracer.Close(context.WithoutCancel(ctx)); err != nil {
			r.log.WarnContext(ctx, "last traces not sent", "error", err)
		}
		return nil
	})
	return nil
}
