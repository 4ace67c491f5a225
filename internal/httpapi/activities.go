package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	defaultListed = 100  // items of a list whose limit is not given
	maxPosts      = 1000 // of one POST to a kind with a window
)

// recordAnswer says whether an activity changed anything.
type recordAnswer struct {
	Changed bool `json:"changed"`
}

// record answers PUT and DELETE of one activity of kind k.
func (s *service) record(k activity.Kind, remove bool) echo.HandlerFunc {
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
		if err := s.activities.Kinds().Check(a); err != nil {
			return err
		}
		callOf(c).note(opOf(remove), k.Name, user, target)
		ctx, cancel := s.bounded(c)
		defer cancel()
		outcomes, err := s.activities.Record(ctx, []activity.Activity{a})
		if _, single := ofActivity(err); single != nil {
			return single
		}
		if err != nil {
			return err
		}
		if err := refused(k, outcomes[0]); err != nil {
			return err
		}
		callOf(c).noteChanged(outcomes)
		return respond(c, http.StatusOK, recordAnswer{outcomes[0] == activity.Changed})
	}
}

// opOf is what a batch calls it.
func opOf(remove bool) string {
	if remove {
		return opRemove
	}
	return opAdd
}

// refused is why an activity of kind k was not recorded, or undone, nil if it was.
func refused(k activity.Kind, o activity.Outcome) error {
	switch o {
	case activity.OverLimit:
		return &limitError{k}
	case activity.Stuck:
		return errStuck
	default:
		return nil
	}
}

// listAnswer is a part of a list, newest first.
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

// list answers GET of what a user has done of kind k.
func (s *service) list(k activity.Kind) echo.HandlerFunc {
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
		ctx, cancel := s.bounded(c)
		defer cancel()
		r, err := activity.WithLedger(s.activities, "a list")
		if err != nil {
			return err
		}
		listing, err := r.List(ctx, user, k.Name, params.Get("cursor"), limit)
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

// parseLimit takes a plain decimal number. Its range is the Recorder's to check.
func parseLimit(text string) (int, error) {
	limit, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(limit) != text {
		return 0, refuse(activity.CodeOutOfRange, "limit", fmt.Sprintf("not a number from 1 to %d", activity.MaxListed))
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

// recordPosts answers POST of activities of kind k, which has a window.
func (s *service) recordPosts(k activity.Kind) echo.HandlerFunc {
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
		activities, err := s.postActivities(user, k, req.Posts)
		if err != nil {
			return err
		}
		callOf(c).note(opAdd, k.Name, user, "")
		callOf(c).noteMany(activities)
		ctx, cancel := s.bounded(c)
		defer cancel()
		outcomes, err := s.activities.Record(ctx, activities)
		if err != nil {
			return err
		}
		callOf(c).noteChanged(outcomes)
		return respond(c, http.StatusOK, postsAnswer{len(activities)})
	}
}

// postActivities returns an activity for each distinct post.
func (s *service) postActivities(user string, k activity.Kind, posts []string) ([]activity.Activity, error) {
	switch {
	case posts == nil:
		return nil, refuse(codeMissingField, "posts", "the field is missing")
	case len(posts) < 1 || len(posts) > maxPosts:
		return nil, refuse(activity.CodeOutOfRange, "posts", fmt.Sprintf("%d posts, not 1 to %d", len(posts), maxPosts))
	}
	activities := make([]activity.Activity, 0, len(posts))
	known := make(map[string]bool, len(posts))
	for i, post := range posts {
		a := activity.Activity{User: user, Kind: k.Name, Target: post}
		if err := s.activities.Kinds().Check(a); err != nil {
			return nil, at("posts["+strconv.Itoa(i)+"]", err)
		}
		if !known[post] {
			known[post] = true
			activities = append(activities, a)
		}
	}
	return activities, nil
}

// at makes field the one that an [*activity.InvalidError] is about.
func at(field string, err error) error {
	invalid, ok := errors.AsType[*activity.InvalidError](err)
	if !ok {
		return err
	}
	return refuse(invalid.Code, field, invalid.Message)
}
