package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	defaultListed = 100  // items of a list, if the request sets no limit
	maxPosts      = 1000 // of one POST to a kind with a window
)

// recordAnswer reports whether an activity changed anything.
type recordAnswer struct {
	Changed bool `json:"changed"`
}

// record answers PUT and DELETE of one activity of kind k.
func (s userCalls) record(k activity.Kind, remove bool) echo.HandlerFunc {
	known := []string{paramUntil}
	if remove {
		known = nil
	}
	return func(c echo.Context) error {
		params, err := query(c, known...)
		if err != nil {
			return err
		}
		if err := noBody(c); err != nil {
			return err
		}
		user, err := pathID(c, "user")
		if err != nil {
			return err
		}
		target, err := pathID(c, "target")
		if err != nil {
			return err
		}
		a := activity.Activity{User: user, Kind: k.Name, Target: target, Remove: remove}
		if params.Has(paramUntil) {
			if a.Until, err = parseUntil(params.Get(paramUntil)); err != nil {
				return err
			}
		}
		changed, err := s.recordOne(c.Request().Context(), callOf(c), k, a)
		if err != nil {
			return err
		}
		return respond(c, http.StatusOK, recordAnswer{changed})
	}
}

// recordOne records or undoes one activity of kind k, and returns whether that changed anything.
func (s userCalls) recordOne(ctx context.Context, of *call, k activity.Kind, a activity.Activity) (changed bool, err error) {
	batch := s.activities.NewBatch()
	if err := batch.Add(a); err != nil {
		return false, err
	}
	of.note(opOf(a.Remove), k.Name, a.User, a.Target)
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	outcomes, err := batch.Record(ctx)
	if err != nil {
		return false, err
	}
	if err := refused(k, outcomes[0]); err != nil {
		return false, err
	}
	of.noteChanged(outcomes)
	return outcomes[0] == activity.Changed, nil
}

// opOf returns the name of the op in a batch.
func opOf(remove bool) string {
	if remove {
		return opRemove
	}
	return opAdd
}

// refused returns why an activity of kind k was not recorded or undone; nil if it was.
func refused(k activity.Kind, o activity.Outcome) error {
	switch o {
	case activity.OverLimit:
		return &limitError{k}
	case activity.Stuck:
		return errStuck
	case activity.Ended:
		return refuse(activity.CodeOutOfRange, paramUntil, "not in the future")
	case activity.Early:
		return refuse(activity.CodeOutOfRange, paramSince, "in the future")
	default:
		return nil
	}
}

// listAnswer is one part of a list, newest first.
type listAnswer struct {
	Items []listItem `json:"items"`
	Next  string     `json:"next,omitzero"`
}

// listItem has the fields of an [activity.Item]. Times are in UTC, to the microsecond.
type listItem struct {
	Target string    `json:"target"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
}

// list answers a GET of a user's activities of kind k.
func (s userCalls) list(k activity.Kind) echo.HandlerFunc {
	return func(c echo.Context) error {
		params, err := query(c, "limit", "cursor")
		if err != nil {
			return err
		}
		if err := noBody(c); err != nil {
			return err
		}
		user, err := pathID(c, "user")
		if err != nil {
			return err
		}
		limit := defaultListed
		if params.Has("limit") {
			if limit, err = parseLimit(params.Get("limit")); err != nil {
				return err
			}
		}
		listing, err := s.listPart(c.Request().Context(), callOf(c), user, k, params.Get("cursor"), limit)
		if err != nil {
			return err
		}
		answer := listAnswer{Items: make([]listItem, len(listing.Items)), Next: listing.Next}
		for i, item := range listing.Items {
			answer.Items[i] = listItem(item)
		}
		return respond(c, http.StatusOK, answer)
	}
}

// listPart returns one part of the list of a user's activities of kind k.
func (s userCalls) listPart(
	ctx context.Context, of *call, user string, k activity.Kind, cursor string, limit int,
) (activity.Listing, error) {
	of.note("list", k.Name, user, "")
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.recorder.List(ctx, user, k.Name, cursor, limit)
}

// parseLimit parses a plain decimal number. The Recorder checks its range.
func parseLimit(text string) (int, error) {
	limit, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(limit) != text {
		return 0, refuse(activity.CodeOutOfRange, "limit",
			fmt.Sprintf("%q is not a number from 1 to %d", clip(text, maxField), activity.MaxListed))
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
func (s userCalls) recordPosts(k activity.Kind) echo.HandlerFunc {
	return func(c echo.Context) error {
		if _, err := query(c); err != nil {
			return err
		}
		user, err := pathID(c, "user")
		if err != nil {
			return err
		}
		var req postsRequest
		done, err := s.decode(c, &req)
		if err != nil {
			return err
		}
		defer done()
		recorded, err := s.recordWindow(c.Request().Context(), callOf(c), user, k, req.Posts)
		if err != nil {
			return err
		}
		return respond(c, http.StatusOK, postsAnswer{recorded})
	}
}

// recordWindow records posts of kind k, which has a window. It returns the number of distinct
// posts.
func (s userCalls) recordWindow(ctx context.Context, of *call, user string, k activity.Kind, posts []string) (int, error) {
	batch, err := s.postActivities(user, k, posts)
	if err != nil {
		return 0, err
	}
	of.note(opAdd, k.Name, user, "")
	of.noteMany(batch.Activities())
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	outcomes, err := batch.Record(ctx)
	if err != nil {
		return 0, err
	}
	of.noteChanged(outcomes)
	return len(outcomes), nil
}

// postActivities returns an activity for each distinct post.
func (s userCalls) postActivities(user string, k activity.Kind, posts []string) (*activity.Batch, error) {
	switch {
	case posts == nil:
		return nil, refuse(codeMissingField, "posts", "the field is missing")
	case len(posts) < 1 || len(posts) > maxPosts:
		return nil, refuse(activity.CodeOutOfRange, "posts", fmt.Sprintf("%d posts, not 1 to %d", len(posts), maxPosts))
	}
	batch := s.activities.NewBatch()
	known := make(map[string]bool, len(posts))
	for i, post := range posts {
		if known[post] {
			continue
		}
		known[post] = true
		if err := batch.Add(activity.Activity{User: user, Kind: k.Name, Target: post}); err != nil {
			return nil, at("posts["+strconv.Itoa(i)+"]", err)
		}
	}
	return batch, nil
}

// at returns err with field as its field, if err is an [*activity.InvalidError].
func at(field string, err error) error {
	invalid, ok := errors.AsType[*activity.InvalidError](err)
	if !ok {
		return err
	}
	return refuse(invalid.Code, field, invalid.Message)
}
