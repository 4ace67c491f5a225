package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// Names of the built-in kinds, for all calls. [Client.Kinds] returns those of other kinds. Requests
// may have a plural in place of a name; answers have names.
const (
	Block = "block"
	Hide  = "hide"
	Like  = "like"
	Seen  = "seen" // it has a window
)

// Plurals of built-in kinds. A service of version 0.1.0 needs them in calls about one kind.
//
// Deprecated: Use Block, Hide and Like.
const (
	Blocks = "blocks"
	Hides  = "hides"
	Likes  = "likes"
)

// activity makes a call that records or undoes one activity.
func (c *Client) activity(
	ctx context.Context, call *call, request *feedfilterv1.RecordRequest,
) (bool, error) {
	var answer struct {
		Changed *bool `json:"changed"`
	}
	call.procedure = procedureOf(activityService, "Record", request, new(feedfilterv1.RecordResponse),
		func(m *feedfilterv1.RecordResponse) { answer.Changed = new(m.GetChanged()) })
	call.into, call.sound = &answer, func() bool { return answer.Changed != nil }
	if err := c.do(ctx, call); err != nil {
		return false, err
	}
	return *answer.Changed, nil
}

// Put records an activity: Put(ctx, "1", client.Block, "2", time.Time{}) lets user 1 block user 2.
// The activity ends by itself at until, to the microsecond; zero: it has no end. Put returns
// whether it changed anything; see the package documentation on retries. After Put returns without
// an error, every later feed has the activity.
func (c *Client) Put(
	ctx context.Context, userID, kind, target string, until time.Time,
) (bool, error) {
	var query url.Values
	if !until.IsZero() {
		query = url.Values{"until": {until.UTC().Format(time.RFC3339Nano)}}
	}
	put := &call{method: http.MethodPut, path: user(userID, kind, target), query: query}
	return c.activity(ctx, put, &feedfilterv1.RecordRequest{
		User:   userID,
		Plural: kind,
		Target: target,
		Op:     feedfilterv1.Op_OP_ADD,
		Until:  stamp(until),
	})
}

// Delete undoes an activity. It returns whether there was one; see the package documentation on
// retries.
func (c *Client) Delete(ctx context.Context, userID, kind, target string) (bool, error) {
	undo := &call{method: http.MethodDelete, path: user(userID, kind, target)}
	return c.activity(ctx, undo, &feedfilterv1.RecordRequest{
		User:   userID,
		Plural: kind,
		Target: target,
		Op:     feedfilterv1.Op_OP_REMOVE,
	})
}

// Record records 1 to 1,000 posts of a kind with a window, such as Record(ctx, "1", client.Seen,
// posts). It returns the number of distinct posts, which are all recorded now.
func (c *Client) Record(ctx context.Context, userID, kind string, posts []string) (int, error) {
	body := struct {
		Posts []string `json:"posts"`
	}{posts}
	var answer struct {
		Recorded int `json:"recorded"`
	}
	request := &feedfilterv1.RecordPostsRequest{User: userID, Plural: kind, Posts: posts}
	fill := func(m *feedfilterv1.RecordPostsResponse) { answer.Recorded = int(m.GetRecorded()) }
	err := c.do(ctx, &call{
		method: http.MethodPost, path: user(userID, kind), body: body, into: &answer,
		sound: func() bool { return answer.Recorded > 0 },
		procedure: procedureOf(
			activityService, "RecordPosts", request, new(feedfilterv1.RecordPostsResponse), fill,
		),
	})
	return answer.Recorded, err
}

// Item is one activity of a list.
type Item struct {
	User   string    `json:"user"`   // who has it, in Incoming; elsewhere ""
	Target string    `json:"target"` // in Incoming ""
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // zero: it has no end
}

const (
	firstItems = 100  // in the first part of a list, for callers that read only its beginning
	moreItems  = 1000 // in every further part
)

func itemOf(m *feedfilterv1.Item) Item {
	return Item{
		User:   m.GetUser(),
		Target: m.GetTarget(),
		Since:  timeOf(m.GetSince()),
		Until:  timeOf(m.GetUntil()),
	}
}

// Get returns the user's activity of a kind with the target, from the ledger; nil: there is none.
func (c *Client) Get(ctx context.Context, userID, kind, target string) (*Item, error) {
	item, none := new(Item), false
	request := &feedfilterv1.ListRequest{User: userID, Plural: kind, Target: &target}
	fill := func(m *feedfilterv1.ListResponse) {
		if none = len(m.GetItems()) == 0; len(m.GetItems()) == 1 {
			*item = itemOf(m.GetItems()[0])
		}
	}
	err := c.do(ctx, &call{
		method: http.MethodGet, path: user(userID, kind, target), into: item, hedged: true,
		sound: func() bool { return none || item.Target != "" },
		procedure: procedureOf(
			activityService, "List", request, new(feedfilterv1.ListResponse), fill,
		),
	})
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "no_activity" {
		none, err = true, nil
	}
	if none || err != nil {
		return nil, err
	}
	return item, nil
}

// List returns the user's activities of a kind, newest first. It requests further parts while the
// caller reads. If a request fails, List yields the error and ends.
func (c *Client) List(ctx context.Context, userID, kind string) iter.Seq2[Item, error] {
	return c.list(ctx, userID, kind, false)
}

// Incoming is List of the activities of others with the user, of a kind that targets users. For a
// one-way kind without fan-out, the order is that of a hash.
func (c *Client) Incoming(ctx context.Context, userID, kind string) iter.Seq2[Item, error] {
	return c.list(ctx, userID, kind, true)
}

func (c *Client) list(
	ctx context.Context, userID, kind string, incoming bool,
) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		limit, cursor := firstItems, ""
		for {
			answer, err := c.part(ctx, userID, kind, incoming, limit, cursor)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range answer.Items {
				if !yield(item, nil) {
					return
				}
			}
			if answer.Next == "" || answer.Next == cursor {
				return
			}
			limit, cursor = moreItems, answer.Next
		}
	}
}

// listing is a part of a list.
type listing struct {
	Items []Item `json:"items"`
	Next  string `json:"next"`
}

// part returns a part of a list.
func (c *Client) part(
	ctx context.Context, userID, kind string, incoming bool, limit int, cursor string,
) (listing, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	var answer listing
	request := &feedfilterv1.ListRequest{
		User:     userID,
		Plural:   kind,
		Limit:    uint32(limit),
		Cursor:   cursor,
		Incoming: incoming,
	}
	path := user(userID, kind)
	if incoming {
		path[1] = "targets"
	}
	fill := func(m *feedfilterv1.ListResponse) {
		answer = listing{Items: make([]Item, len(m.GetItems())), Next: m.GetNext()}
		for i, item := range m.GetItems() {
			answer.Items[i] = itemOf(item)
		}
	}
	err := c.do(ctx, &call{
		method: http.MethodGet, path: path, query: query, into: &answer, hedged: true,
		sound: func() bool { return answer.Items != nil },
		procedure: procedureOf(
			activityService, "List", request, new(feedfilterv1.ListResponse), fill,
		),
	})
	return answer, err
}

// Counts returns the number of the user's activities by the name of their kind, up to 100,000: a
// kind with more has that number.
func (c *Client) Counts(ctx context.Context, userID string) (map[string]int, error) {
	var answer struct {
		Counts map[string]int `json:"counts"`
	}
	request := &feedfilterv1.CountRequest{User: userID}
	fill := func(m *feedfilterv1.CountResponse) {
		answer.Counts = make(map[string]int, len(m.GetCounts()))
		for kind, n := range m.GetCounts() {
			answer.Counts[kind] = int(n)
		}
	}
	err := c.do(ctx, &call{
		method: http.MethodGet, path: user(userID), into: &answer, hedged: true,
		sound: func() bool { return answer.Counts != nil },
		procedure: procedureOf(
			activityService, "Count", request, new(feedfilterv1.CountResponse), fill,
		),
	})
	return answer.Counts, err
}

// Preview is what recording some activities would change.
type Preview struct {
	New     int    `json:"new"`     // distinct targets that are not recorded yet
	Present int    `json:"present"` // distinct targets that are already recorded
	Total   int    `json:"total"`   // activities that the user would have afterwards
	Limit   uint32 `json:"limit"`   // 0: no limit
	Over    bool   `json:"over"`    // the limit would refuse some new activities
}

// Preview returns what recording activities with 1 to 10,000 targets would change, without changing
// anything. kind is the name of the kind.
func (c *Client) Preview(
	ctx context.Context, userID, kind string, targets []string,
) (Preview, error) {
	body := struct {
		Kind    string   `json:"kind"`
		Targets []string `json:"targets"`
	}{kind, targets}
	var answer Preview
	err := c.do(ctx, &call{
		method: http.MethodPost, path: user(userID, "preview"), body: body, into: &answer,
		sound: func() bool { return answer.New+answer.Present > 0 },
	})
	return answer, err
}

// deleteTimeout is longer than the service takes for a deletion.
const deleteTimeout = 6 * time.Minute

// DeleteUser removes every trace of a user, which takes up to 5 minutes. It returns the number of
// activities that its last attempt removed: the user's, and those of others with the user. After an
// error, call it again to continue.
func (c *Client) DeleteUser(ctx context.Context, userID string) (int, error) {
	var answer struct {
		Deleted *int `json:"deleted"`
	}
	err := c.do(ctx, &call{
		method: http.MethodDelete, path: user(userID), into: &answer, timeout: deleteTimeout,
		sound: func() bool { return answer.Deleted != nil },
	})
	if err != nil {
		return 0, err
	}
	return *answer.Deleted, nil
}
