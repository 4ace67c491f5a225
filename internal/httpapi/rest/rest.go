// Package rest answers the routes of JSON and NDJSON.
//
// Activities arrive one by one, as a JSON batch that is recorded or refused as a whole, or as an
// NDJSON stream. On a stream, each line has an answer, empty lines too. A client reads the answers
// while it writes. If the stream breaks, the client repeats the lines without an answer: nothing is
// recorded twice.
//
// Two decoders read a feed and a fan-out. The fast one (feedread.go) takes about an eighth of the
// time, and only reads usual bodies. The strict one reads all others, and says what is wrong with
// them. Fuzz tests compare them.
package rest

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// FilterPath is the path of feeds.
const FilterPath = "/v1/feed/filter"

// api answers the routes of JSON and NDJSON.
type api struct {
	operations *operations.Operations
	limits     *limits.Limits
	kinds      *activity.Kinds
	recorder   *activity.Recorder // nil without a ledger
	buffers    wire.Buffers
	strict     json.Options
}

// Routes returns the routes of JSON and NDJSON.
func Routes(o *operations.Operations) []wire.Route {
	a := &api{operations: o, limits: o.Limits, kinds: o.Activities.Kinds(), recorder: o.Recorder, strict: strict()}
	events := json.WithUnmarshalers(wire.Element[follow.Event](maxEvents)) // it may have unknown members
	read, write := []access.Scope{access.FeedRead}, []access.Scope{access.ActivityWrite}
	all := []wire.Route{
		{Method: http.MethodPost, Path: FilterPath, Handle: fast(a, readFeed, feedRequest, a.filter), Scopes: read},
		{
			Method: http.MethodPost, Path: "/v1/feed/explain", Handle: limits.Requested(a.limits, a.strict, a.explain),
			Scopes: []access.Scope{access.FeedRead, access.OpsRead}, Audit: wire.AuditAlways,
		},
		{
			Method: http.MethodPost, Path: "/v1/fanout/filter", Handle: fast(a, readFanout, fanoutRequest.request, a.fanout),
			Scopes: read, Audit: wire.AuditReads,
		},
		{Method: http.MethodGet, Path: "/v1/kinds", Handle: wire.Answer(a.listKinds), Scopes: access.Scopes(), Free: true},
		{Method: http.MethodGet, Path: "/v1/users/:user", Handle: o.WithLedger("a count", wire.BareUser(a.user)), Scopes: read},
		{
			Method: http.MethodDelete, Path: "/v1/users/:user", Scopes: write,
			Handle: o.WithLedger("the deletion of a user", wire.BareUser(a.deleteUser)),
		},
		{Method: http.MethodGet, Path: "/v1/users/:user/export", Handle: o.WithLedger("an export", a.export), Scopes: read},
		{
			Method: http.MethodPost, Path: "/v1/users/:user/preview", Scopes: read,
			Handle: o.WithLedger("a preview", limits.Requested(a.limits, a.strict, a.preview)),
		},
		{Method: http.MethodPost, Path: "/v1/activities", Handle: a.batch, Scopes: write},
		{
			Method: http.MethodPost, Path: "/v1/sources/:name/events", Scopes: []access.Scope{access.SourceWrite},
			Handle: o.WithLedger("events of a source", explainLength(limits.RequestedUpTo(a.limits, a.limits.MaxEvents(), events, a.receive))),
		},
	}
	for _, k := range a.kinds.All() {
		list := "/v1/users/:user/" + k.Plural
		if !k.InLedger() {
			all = append(all, wire.Route{Method: http.MethodPost, Path: list, Handle: a.recordPosts(k), Scopes: write})
			continue
		}
		one := list + "/:target"
		all = append(all,
			wire.Route{Method: http.MethodGet, Path: list, Handle: o.WithLedger("a list", a.list(k, o.List)), Scopes: read},
			wire.Route{Method: http.MethodGet, Path: one, Handle: o.WithLedger("an exact answer", a.get(k)), Scopes: read},
			wire.Route{Method: http.MethodPut, Path: one, Handle: a.record(k, false), Scopes: write},
			wire.Route{Method: http.MethodDelete, Path: one, Handle: a.record(k, true), Scopes: write})
		if k.Target == activity.User {
			incoming := o.WithLedger("a list", a.list(k, o.Incoming))
			all = append(all, wire.Route{Method: http.MethodGet, Path: "/v1/targets/:user/" + k.Plural, Handle: incoming, Scopes: read})
		}
	}
	return all
}

// strict returns the options for reading JSON.
func strict() json.Options { //nolint:ireturn // what the library has for options
	return wire.Strict(
		wire.NotNull[postsRequest](), wire.NotNull[fanoutRequest](),
		wire.NotNull[explainRequest](), wire.NotNull[*feedPost](), wire.NotNull[previewRequest](),
		wire.NotNull[filterRequest](), wire.NotNull[[]feedPost](), wire.NotNull[map[activity.Facet][]string](),
		wire.Element[feedPost](feed.MaxPosts), wire.NotNull[[]feedActor](), wire.Element[feedActor](wire.MaxTexts),
		wire.NotNull[batchRequest](), wire.NotNull[[]batchLine](), wire.Element[batchLine](operations.MaxBatch),
	)
}
