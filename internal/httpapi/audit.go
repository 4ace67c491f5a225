package httpapi

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
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

// note sets the op, the kind, and the ids of user and target in the audit line.
func (k *call) note(op, kind, user, target string) {
	if k.audit != nil {
		k.audit.op, k.audit.kind, k.audit.user, k.audit.target = op, kind, user, target
	}
}

// noteMany adds the activities to the counts of the audit line.
func (k *call) noteMany(activities []activity.Activity) {
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

// noteChanged adds the number of activities that changed something.
func (k *call) noteChanged(outcomes []activity.Outcome) {
	if k.audit == nil {
		return
	}
	for _, o := range outcomes {
		if o == activity.Changed {
			k.audit.changed++
		}
	}
}

// noteDeleted sets the number of activities that the request deleted.
func (k *call) noteDeleted(n int) {
	if k.audit != nil {
		k.audit.changed = n
	}
}

// noteReshape records a request that raises the number of pages.
func (k *call) noteReshape(pages int, force bool) {
	if k.audit != nil {
		k.audit.op, k.audit.pages, k.audit.force = "reshape", pages, force
	}
}

// audited reports whether requests of the route are audited: those that write, explain or inspect a
// key, and with reads also those that tell what users have done.
func (r route) audited(reads bool) bool {
	writes := r.method != http.MethodGet &&
		(slices.Contains(r.scopes, access.ActivityWrite) || slices.Contains(r.scopes, access.OpsWrite))
	return writes || r.path == explainPath || r.path == explainProcedure || r.path == opsKeyPath ||
		reads && (strings.Contains(r.path, ":user") || slices.Contains(readProcedures(), r.path))
}

// readProcedures returns the paths that tell what users have done, and name the users in the body.
func readProcedures() []string {
	return []string{
		fanoutPath, feedfilterv1connect.FeedServiceFanoutProcedure,
		feedfilterv1connect.ActivityServiceListProcedure, feedfilterv1connect.ActivityServiceCountProcedure,
	}
}

// toAudit returns an empty audit line for a request of the route; nil if the route is not audited.
func (g *gate) toAudit(r route) *audited {
	if g.access.Audit == nil || !r.audited(g.access.AuditReads) {
		return nil
	}
	return new(audited)
}

// mayAudit refuses a request if the audit log cannot take its line. Call it before the request has
// any effect.
func (g *gate) mayAudit() error {
	if err := g.access.Audit.Check(); err != nil {
		return &refusal{
			problem: problem{Code: codeAuditUnavailable, Message: err.Error() + ": request not processed, retry"}, after: time.Second,
		}
	}
	return nil
}

// noteSeen prepares an audit line for a feed that records the posts it keeps as seen.
func (g *gate) noteSeen(k *call, viewer string, a feed.Answer) {
	if g.access.Audit == nil {
		return
	}
	k.audit = &audited{op: opAdd, user: viewer, counts: map[string]*opCounts{activity.Seen: {add: len(a.Kept)}}}
	if !slices.ContainsFunc(a.Degraded, func(d activity.Degraded) bool { return d.Kind == activity.Seen }) {
		k.audit.changed = len(a.Kept)
	}
}

// writeAudit appends a line to the audit log if the request is audited, or if it was refused and is
// loud. suppressed is the number of earlier refused requests that got no line.
func (g *gate) writeAudit(k *call, id string, status int, suppressed uint64, loud bool, err error) {
	refused, _ := errors.AsType[*refusal](err)
	if g.access.Audit == nil || k.audit == nil && refused == nil || refused != nil && !loud {
		return
	}
	r := k.Request()
	remote, _, _ := net.SplitHostPort(r.RemoteAddr)
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("request_id", id), slog.String("remote", remote),
		slog.String("method", methodOf(r)), slog.String("route", k.Path()), slog.Int("status", status),
	)
	if k.token != nil {
		attrs = append(attrs, slog.String("token", k.token.Name))
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", describe(err).Code))
	}
	if k.audit != nil {
		attrs = append(attrs, k.audit.attrs(g.access.IDs)...)
	}
	if refused != nil {
		attrs = append(attrs, slog.String("reason", refused.Message), slog.Uint64("suppressed", suppressed))
	}
	if refused != nil {
		g.access.Audit.LogRefused(r.Context(), attrs...)
		return
	}
	g.access.Audit.Log(r.Context(), attrs...)
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
