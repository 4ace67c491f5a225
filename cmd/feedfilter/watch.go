package main

import (
	"context"
	"log/slog"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/sampler"
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

// logger adds trace ids to log lines, if there are traces.
func (f *watchFlags) logger(log *slog.Logger) *slog.Logger {
	if f.TraceEndpoint == "" {
		return log
	}
	return slog.New(tracing.LogHandler(log.Handler()))
}

// tracer returns the tracer, nil without --trace-endpoint.
func (f *watchFlags) tracer(ctx context.Context, log *slog.Logger) (*tracing.Tracer, error) {
	if f.TraceEndpoint == "" {
		return nil, nil //nolint:nilnil // a nil Tracer traces nothing
	}
	return tracing.Open(ctx, tracing.Config{
		Endpoint: f.TraceEndpoint, Ratio: f.TraceSample, Version: thisVersion().Version, Logger: log,
	})
}

// closeTracer sends the remaining traces. A failure is only logged.
func closeTracer(ctx context.Context, t *tracing.Tracer, log *slog.Logger) {
	if err := t.Close(ctx); err != nil {
		log.WarnContext(ctx, "last traces not sent", "error", err)
	}
}

// sampler returns a sampler that compares feeds of r with the ledger, and logs hashed ids.
func (f *watchFlags) sampler(r *activity.Recorder, log *slog.Logger, hash func(string) string) (*sampler.Sampler, error) {
	return sampler.New(r, sampler.Config{Rate: f.SampleRate, Logger: log, HashID: hash})
}
