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
	"slices"

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
	a := &api{
		operations: o,
		limits:     o.Limits,
		kinds:      o.Activities.Kinds(),
		recorder:   o.Recorder,
		strict:     strict(),
	}
	all := slices.Concat(a.feedRoutes(), a.userRoutes(), a.bulkRoutes())
	for _, k := range a.kinds.All() {
		if k.InLedger() {
			all = append(all, a.kindRoutes(k)...)
		} else {
			all = append(all, wire.Route{
				Method: http.MethodPost, Path: "/v1/users/:user/" + k.Plural,
				Handle: a.recordPosts(k), Scopes: writers(),
			})
		}
	}
	return all
}

func readers() []access.Scope { return []access.Scope{access.FeedRead} }

func writers() []access.Scope { return []access.Scope{access.ActivityWrite} }

// feedRoutes returns the routes of what reads pages, and of the kinds.
func (a *api) feedRoutes() []wire.Route {
	return []wire.Route{
		{
			Method: http.MethodPost, Path: FilterPath,
			Handle: fast(a, readFeed, feedRequest, a.filter), Scopes: readers(),
		},
		{
			Method: http.MethodPost, Path: "/v1/feed/explain",
			Handle: limits.Requested(a.limits, a.strict, a.explain),
			Scopes: []access.Scope{access.FeedRead, access.OpsRead}, Audit: wire.AuditAlways,
		},
		{
			Method: http.MethodPost, Path: "/v1/fanout/filter",
			Handle: fast(a, readFanout, fanoutRequest.request, a.fanout),
			Scopes: readers(), Audit: wire.AuditReads,
		},
		{
			Method: http.MethodGet, Path: "/v1/kinds",
			Handle: wire.Answer(a.listKinds), Scopes: access.Scopes(), Free: true,
		},
	}
}

// userRoutes returns the routes of all activities of a user.
func (a *api) userRoutes() []wire.Route {
	with := a.operations.WithLedger
	return []wire.Route{
		{
			Method: http.MethodGet, Path: "/v1/users/:user",
			Handle: with("a count", wire.BareUser(a.user)), Scopes: readers(),
		},
		{
			Method: http.MethodDelete, Path: "/v1/users/:user",
			Handle: with("the deletion of a user", wire.BareUser(a.deleteUser)), Scopes: writers(),
		},
		{
			Method: http.MethodGet, Path: "/v1/users/:user/export",
			Handle: with("an export", a.export), Scopes: readers(),
		},
		{
			Method: http.MethodPost, Path: "/v1/users/:user/preview",
			Handle: with("a preview", limits.Requested(a.limits, a.strict, a.preview)),
			Scopes: readers(),
		},
	}
}

// bulkRoutes returns the routes of many activities, and of events.
func (a *api) bulkRoutes() []wire.Route {
	mayBeUnknown := json.WithUnmarshalers(wire.Element[follow.Event](maxEvents)) // fields of an event
	events := limits.RequestedUpTo(a.limits, a.limits.MaxEvents(), mayBeUnknown, a.receive)
	return []wire.Route{
		{
			Method: http.MethodPost, Path: "/v1/activities", Handle: a.batch, Scopes: writers(),
		},
		{
			Method: http.MethodPost, Path: "/v1/sources/:name/events",
			Handle: a.operations.WithLedger("events of a source", explainLength(events)),
			Scopes: []access.Scope{access.SourceWrite},
		},
	}
}

// kindRoutes returns the routes of a kind that is in the ledger.
func (a *api) kindRoutes(k activity.Kind) []wire.Route {
	o, list := a.operations, "/v1/users/:user/"+k.Plural
	one := list + "/:target"
	all := []wire.Route{
		{
			Method: http.MethodGet, Path: list,
			Handle: o.WithLedger("a list", a.list(k, o.List)), Scopes: readers(),
		},
		{
			Method: http.MethodGet, Path: one,
			Handle: o.WithLedger("an exact answer", a.get(k)), Scopes: readers(),
		},
		{Method: http.MethodPut, Path: one, Handle: a.record(k, false), Scopes: writers()},
		{Method: http.MethodDelete, Path: one, Handle: a.record(k, true), Scopes: writers()},
	}
	if k.Target == activity.User {
		all = append(all, wire.Route{
			Method: http.MethodGet, Path: "/v1/targets/:user/" + k.Plural,
			Handle: o.WithLedger("a list", a.list(k, o.Incoming)), Scopes: readers(),
		})
	}
	return all
}

// strict returns the options for reading JSON.
func strict() json.Options { //nolint:ireturn // what the library has for options
	return wire.Strict(
		wire.NotNull[postsRequest](), wire.NotNull[fanoutRequest](),
		wire.NotNull[explainRequest](), wire.NotNull[*feedPost](), wire.NotNull[previewRequest](),
		wire.NotNull[filterRequest](), wire.NotNull[[]feedPost](),
		wire.NotNull[map[activity.Facet][]string](),
		wire.Element[feedPost](feed.MaxPosts), wire.NotNull[[]feedActor](),
		wire.Element[feedActor](wire.MaxTexts),
		wire.NotNull[batchRequest](), wire.NotNull[[]batchLine](),
		wire.Element[batchLine](operations.MaxBatch),
	)
}
