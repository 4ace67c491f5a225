package limits

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// MayAudit refuses a request if the audit log cannot take its line. Call it before the request has
// any effect.
func (a *Access) MayAudit() error {
	if err := a.Audit.Check(); err != nil {
		return &wire.RefusedError{
			Problem: wire.Problem{Code: wire.CodeAuditUnavailable, Message: err.Error() + ": request not processed, retry"},
			After:   time.Second,
		}
	}
	return nil
}

// WriteAudit appends a line to the audit log if the request is audited, or if it was refused and is
// loud. suppressed is the number of earlier refused requests that got no line.
func (a *Access) WriteAudit(k *wire.Call, status int, suppressed uint64, loud bool, err error) {
	refused, _ := errors.AsType[*wire.RefusedError](err)
	if a.Audit == nil || !k.Audited() && refused == nil || refused != nil && !loud {
		return
	}
	r := k.Request()
	remote, _, _ := net.SplitHostPort(r.RemoteAddr)
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("request_id", k.RequestID()), slog.String("remote", remote),
		slog.String("method", k.Method()), slog.String("route", k.Path()), slog.Int("status", status),
	)
	if k.Token != nil {
		attrs = append(attrs, slog.String("token", k.Token.Name))
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", wire.Describe(err).Code))
	}
	attrs = append(attrs, k.AuditAttrs(a.IDs.Hash)...)
	if refused != nil {
		attrs = append(attrs, slog.String("reason", refused.Message), slog.Uint64("suppressed", suppressed))
	}
	if refused != nil {
		a.Audit.LogRefused(r.Context(), attrs...)
		return
	}
	a.Audit.Log(r.Context(), attrs...)
}
