package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

const (
	metricsFlag = "--metrics-addr"
	// maxScrapers is the largest number of connections of a process that has metrics and probes
	// only.
	maxScrapers = 100
)

// monitorFlags say where a process that is not the service has its metrics and probes. The address
// is another flag than that of the service, because both may share a file or an environment.
type monitorFlags struct {
	MetricsAddr string `help:"${metrics_addr}" placeholder:"ADDRESSES"`
	authFlags
}

// Check implements [settings.Checker].
func (f *monitorFlags) Check(ctx context.Context) error {
	if f.MetricsAddr == "" {
		return nil
	}
	return f.check(ctx, metricsFlag, f.MetricsAddr)
}

// open prepares the access control of --metrics-addr, nil without that flag, and makes metrics for
// the data.
func (f *monitorFlags) open(
	ctx context.Context, data *dataFlags, log *slog.Logger,
) (*accessControl, error) {
	if f.MetricsAddr == "" {
		return nil, nil //nolint:nilnil // nobody asks for metrics
	}
	control, err := f.authFlags.open(ctx, metricsFlag, f.MetricsAddr, access.Rate{}, log)
	if err != nil {
		return nil, err
	}
	data.meters = data.newMeters(control)
	return control, nil
}

// serve answers with metrics and probes until halt is called.
func (f *monitorFlags) serve(
	ctx context.Context, control *accessControl, data *dataFlags, d *data,
	sources func() []follow.Status, log *slog.Logger,
) (halt func() error, err error) {
	listeners, err := listenAll(ctx, metricsFlag, f.MetricsAddr, 0o660)
	if err != nil {
		return nil, err
	}
	//nolint:contextcheck // handlers use their requests' contexts
	handler := httpapi.NewMonitor(httpapi.Config{
		Activities: d.activities,
		Logger:     log,
		Access:     control.access,
		Metrics:    data.meters,
		Sources:    sources,
	})
	server := newServer(handler, log, defaultTimeouts())
	ctx, end := context.WithCancel(ctx)
	control.start(ctx, log)
	limit := newConnectionLimit(connectionsWithin(maxScrapers, maxOpenFiles()), handler.Unread)
	for _, l := range listeners {
		log.InfoContext(ctx, "metrics", "addr", l.Addr().String())
		go func() {
			err := server.Serve(control.listener(limit.listener(l)))
			if !errors.Is(err, http.ErrServerClosed) {
				err = fmt.Errorf("serve on %s: %w", l.Addr(), err)
				log.ErrorContext(ctx, "no metrics any more", "error", err)
			}
		}()
	}
	return func() error {
		end()
		return errors.Join(server.Close(), control.close())
	}, nil
}
