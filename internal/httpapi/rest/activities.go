package rest

import (
	"context"
	"fmt"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// record answers PUT and DELETE of one activity of kind k.
func (a *api) record(k activity.Kind, remove bool) wire.Handler {
	known := []string{operations.FieldUntil}
	if remove {
		known = nil
	}
	return func(c *wire.Call) error {
		params, user, err := wire.UserOf(c, known...)
		if err != nil {
			return err
		}
		target, err := wire.PathID(c, "target")
		if err != nil {
			return err
		}
		one := activity.Activity{User: user, Kind: k.Name, Target: target, Remove: remove}
		if params.Has(operations.FieldUntil) {
			if one.Until, err = parseUntil(params.Get(operations.FieldUntil)); err != nil {
				return err
			}
		}
		changed, err := a.operations.Record(c.Request().Context(), c, k, one)
		if err != nil {
			return err
		}
		return wire.Respond(c, operations.Changed{Changed: changed})
	}
}

// listAnswer is one part of a list, newest first. Times are in UTC, to the microsecond.
type listAnswer struct {
	Items []activity.Item `json:"items"`
	Next  string          `json:"next,omitzero"`
}

// get answers a GET of one activity of kind k.
func (a *api) get(k activity.Kind) wire.Handler {
	return wire.BareUser(func(ctx context.Context, c *wire.Call, user string) (any, error) {
		target, err := wire.PathID(c, "target")
		if err != nil {
			return nil, err
		}
		item, err := a.operations.Get(ctx, c, user, k, target)
		if err == nil && item == nil {
			err = &wire.Problem{Code: wire.CodeNoActivity, Message: "the user has no such activity"}
		}
		return item, err
	})
}

// lister is [operations.Operations.List] or [operations.Operations.Incoming].
type lister = func(ctx context.Context, c *wire.Call, user string, k activity.Kind, cursor string, limit int) (activity.Listing, error)

// list answers a GET of a list of activities of kind k.
func (a *api) list(k activity.Kind, list lister) wire.Handler {
	return func(c *wire.Call) error {
		params, user, err := wire.UserOf(c, "limit", "cursor")
		if err != nil {
			return err
		}
		limit := operations.DefaultListed
		if params.Has("limit") {
			if limit, err = parseLimit(params.Get("limit")); err != nil {
				return err
			}
		}
		listing, err := list(c.Request().Context(), c, user, k, params.Get("cursor"), limit)
		if err != nil {
			return err
		}
		return wire.Respond(c, listAnswer{listing.Items, listing.Next})
	}
}

// parseLimit parses a plain decimal number. The Recorder checks its range.
func parseLimit(text string) (int, error) {
	limit, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(limit) != text {
		return 0, wire.Refuse(activity.CodeOutOfRange, "limit",
			fmt.Sprintf("%q is not a number from 1 to %d", wire.Clip(text), activity.MaxListed))
	}
	return limit, nil
}

type postsRequest struct {
	Posts []string `json:"posts"`
}

type postsAnswer struct {
	// Recorded is the number of distinct posts of the request, new or not.
	Recorded int `json:"recorded"`
}

// recordPosts answers a POST of activities of kind k, which has a window.
func (a *api) recordPosts(k activity.Kind) wire.Handler {
	return limits.Requested(a.limits, a.strict, func(ctx context.Context, c *wire.Call, user string, req postsRequest) (any, error) {
		recorded, err := a.operations.RecordWindow(ctx, c, user, k, req.Posts)
		return postsAnswer{recorded}, err
	})
}

// batchLine is one activity of a batch, in JSON and in NDJSON.
type batchLine struct {
	User   string `json:"user"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Op     string `json:"op"`

	Since *string `json:"since"` // nil: not given
	Until *string `json:"until"` // nil: not given
}

// activity returns the activity of the line, or an error if the line is not of the right form.
func (l batchLine) activity() (activity.Activity, error) {
	a := activity.Activity{User: l.User, Kind: l.Kind, Target: l.Target, Remove: l.Op == operations.OpRemove}
	err := operations.CheckLine(l.Kind, l.Op, l.Since != nil, l.Until != nil)
	if err == nil && l.Since != nil {
		a.Since, err = parseTime(operations.FieldSince, *l.Since)
	}
	if err == nil && l.Until != nil {
		a.Until, err = parseUntil(*l.Until)
	}
	return a, err
}
