package core

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/access"
)

// audited holds the fields of an audit line that only some requests have.
type audited struct {
	op, kind     string
	user, target string               // ids
	counts       map[string]*opCounts // of the activities in the request, by kind; nil: no batch
	pages        int
	force        bool
	changed      int
}

// opCounts holds the numbers of activities that a request adds and removes.
type opCounts struct{ add, remove int }

// Note sets the op, the kind, and the ids of user and target in the audit line.
func (k *Call) Note(op, kind, user, target string) {
	if k.audit != nil {
		k.audit.op, k.audit.kind, k.audit.user, k.audit.target = op, kind, user, target
	}
}

// noteMany adds the activities to the counts of the audit line.
func (k *Call) noteMany(activities []activity.Activity) {
	if k.audit == nil {
		return
	}
	if k.audit.counts == nil {
		k.audit.counts = make(map[string]*opCounts)
	}
	for _, a := range activities {
		n := k.audit.counts[a.Kind]
		if n == nil {
			n = new(opCounts)
			k.audit.counts[a.Kind] = n
		}
		if a.Remove {
			n.remove++
		} else {
			n.add++
		}
	}
}

// noteOutcomes adds the number of activities that changed something.
func (k *Call) noteOutcomes(outcomes []activity.Outcome) {
	if k.audit == nil {
		return
	}
	for _, o := range outcomes {
		if o == activity.Changed {
			k.audit.changed++
		}
	}
}

// NoteChanged sets the number of activities that the request changed.
func (k *Call) NoteChanged(n int) {
	if k.audit != nil {
		k.audit.changed = n
	}
}

// NoteReshape records a request that raises the number of pages.
func (k *Call) NoteReshape(pages int, force bool) {
	if k.audit != nil {
		k.audit.op, k.audit.pages, k.audit.force = "reshape", pages, force
	}
}

// mayAudit refuses a request if the audit log cannot take its line. Call it before the request has
// any effect.
func (a *Access) mayAudit() error {
	if err := a.Audit.Check(); err != nil {
		return &refusal{
			Problem: Problem{Code: CodeAuditUnavailable, Message: err.Error() + ": request not processed, retry"}, after: time.Second,
		}
	}
	return nil
}

// noteSeen prepares an audit line for a feed that records the posts it keeps as seen.
func (a *Access) noteSeen(k *Call, viewer string, answer feed.Answer) {
	if a.Audit == nil {
		return
	}
	k.audit = &audited{op: OpAdd, user: viewer, counts: map[string]*opCounts{activity.Seen: {add: len(answer.Kept)}}}
	if !slices.ContainsFunc(answer.Degraded, func(d activity.Degraded) bool { return d.Kind == activity.Seen }) {
		k.audit.changed = len(answer.Kept)
	}
}

// WriteAudit appends a line to the audit log if the request is audited, or if it was refused and is
// loud. suppressed is the number of earlier refused requests that got no line.
func (a *Access) WriteAudit(k *Call, status int, suppressed uint64, loud bool, err error) {
	refused, _ := errors.AsType[*refusal](err)
	if a.Audit == nil || k.audit == nil && refused == nil || refused != nil && !loud {
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
		attrs = append(attrs, slog.String("code", Describe(err).Code))
	}
	if k.audit != nil {
		attrs = append(attrs, k.audit.attrs(a.IDs)...)
	}
	if refused != nil {
		attrs = append(attrs, slog.String("reason", refused.Message), slog.Uint64("suppressed", suppressed))
	}
	if refused != nil {
		a.Audit.LogRefused(r.Context(), attrs...)
		return
	}
	a.Audit.Log(r.Context(), attrs...)
}

func (a *audited) attrs(ids *access.IDs) []slog.Attr {
	attrs := make([]slog.Attr, 0, 8)
	for _, field := range []struct{ name, value string }{
		{"op", a.op}, {"kind", a.kind}, {"user", ids.Hash(a.user)}, {"target", ids.Hash(a.target)},
	} {
		if field.value != "" {
			attrs = append(attrs, slog.String(field.name, field.value))
		}
	}
	if a.pages > 0 {
		attrs = append(attrs, slog.Int("pages", a.pages))
	}
	if a.force {
		attrs = append(attrs, slog.Bool("force", true))
	}
	if a.counts != nil {
		counts := make([]any, 0, len(a.counts))
		for _, kind := range slices.Sorted(maps.Keys(a.counts)) {
			counts = append(counts, slog.Group(kind, slog.Int("add", a.counts[kind].add), slog.Int("remove", a.counts[kind].remove)))
		}
		attrs = append(attrs, slog.Group("counts", counts...))
	}
	return append(attrs, slog.Int("changed", a.changed))
}
