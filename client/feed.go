package client

import (
	"context"
	"net/http"
	"time"
)

// Post is a candidate for a feed.
type Post struct {
	ID     string `json:"id"`
	Author string `json:"author,omitzero"` // needed where a kind that is checked targets users

	// Actors are up to 100 others on it: who reposted it, is quoted or mentioned.
	Actors []string `json:"actors,omitzero"`
}

// FilterRequest asks what a viewer gets to see.
type FilterRequest struct {
	Viewer string `json:"viewer"`

	// Posts are up to 5,000, in the order of the feed, with up to 20,000 ids of posts, authors and
	// actors, repeated ones included.
	Posts []Post `json:"posts"`

	Kinds    []string `json:"kinds,omitzero"`    // to check, in this order; nil: every one that drops; empty: none
	Annotate []string `json:"annotate,omitzero"` // to mark on what is kept

	Limit      int  `json:"limit,omitzero"`       // the answer ends once so many posts are kept, 1 to 5,000; 0: none
	RecordSeen bool `json:"record_seen,omitzero"` // what is kept is recorded as seen
	Exact      bool `json:"exact,omitzero"`       // the ledger confirms what the filter reports
}

// Feed is what a viewer gets to see, and what not.
type Feed struct {
	Posts   []Kept    `json:"posts"` // in the order of the request
	Dropped []Dropped `json:"dropped"`

	// Next is, with a limit, the index of the first candidate that was not looked at: ask again with Posts[Next:]. 0: all were.
	Next int `json:"next"`

	// Degraded are kinds that could not be checked: see the package's comment.
	Degraded []Degraded `json:"degraded"`
}

// Kept is a post that the viewer gets to see.
type Kept struct {
	ID    string          `json:"id"`
	Marks map[string]bool `json:",embed"` // of each kind in FilterRequest.Annotate
}

// Dropped is a post that is left out, with the first reason found.
type Dropped struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	Actor       string `json:"actor"`       // for kinds that target users: who
	Unconfirmed bool   `json:"unconfirmed"` // of an exact feed: the kind has a window, so nobody can tell
}

// Degraded is a kind that could not be checked, and why.
type Degraded struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// Filter says which of the posts a viewer gets to see.
func (c *Client) Filter(ctx context.Context, req FilterRequest) (Feed, error) {
	var feed Feed
	err := c.do(ctx, &call{
		method: http.MethodPost, path: []string{"v1", "feed", "filter"}, body: req, into: &feed, once: req.RecordSeen,
		sound: func() bool { return feed.answers(req) },
	})
	return feed, err
}

// answers reports whether every candidate that was looked at is kept or dropped.
func (f Feed) answers(req FilterRequest) bool {
	looked := len(req.Posts)
	switch {
	case f.Next < 0, f.Next > 0 && f.Next >= looked:
		return false
	case f.Next > 0:
		looked = f.Next
	}
	return f.Posts != nil && f.Degraded != nil && len(f.Posts)+len(f.Dropped) == looked
}

// Explanation says why a post is dropped from a feed, or kept.
type Explanation struct {
	Dropped  bool       `json:"dropped"`
	Reasons  []Reason   `json:"reasons"` // all that the filter reports, kinds that drop first
	Page     Page       `json:"page"`
	Degraded []Degraded `json:"degraded"`
}

// Reason is something that the filter reports on a post.
type Reason struct {
	Kind      string    `json:"kind"`
	Effect    string    `json:"effect"`    // "drop" or "annotate"
	Actor     string    `json:"actor"`     // for kinds that target users: who
	Direction string    `json:"direction"` // "by_viewer" or "by_actor": whose activity it is
	Certainty string    `json:"certainty"` // "certain", "false" (a false positive) or "unconfirmed"
	Since     time.Time `json:"since"`     // zero where nobody knows
	Until     time.Time `json:"until"`     // zero: without an end
	Parts     []string  `json:"parts"`     // of a window: those that report it
}

// Page is what was read of the kinds in the ledger.
type Page struct {
	Number            uint32  `json:"number"`
	Sequence          uint64  `json:"sequence"`
	Keys              int     `json:"keys"`
	Bytes             int     `json:"bytes"`
	FalsePositiveRate float64 `json:"false_positive_rate"` // per key
}

// Explain says what a feed of the viewer makes of the post, and why. It needs the ledger.
func (c *Client) Explain(ctx context.Context, viewer string, post Post) (Explanation, error) {
	body := struct {
		Viewer string `json:"viewer"`
		Post   Post   `json:"post"`
	}{viewer, post}
	var e Explanation
	err := c.do(ctx, &call{
		method: http.MethodPost, path: []string{"v1", "feed", "explain"}, body: body, into: &e,
		sound: func() bool { return e.Reasons != nil && e.Degraded != nil },
	})
	return e, err
}
