package client

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is a kind of activity.
type Kind struct {
	Name          string   `json:"name"`
	Plural        string   `json:"plural"` // its second name in requests
	Target        string   `json:"target"` // "user", "post" or a facet of posts
	Effect        string   `json:"effect"` // "drop", "annotate" or "keep"
	Text          bool     `json:"text"`   // targets are phrases, which are found in texts of posts
	Fold          string   `json:"fold"`   // how ids are made alike, such as "case"; "": they are not
	Rollup        string   `json:"rollup"` // ids that it also covers, such as "domain"; "": none
	Over          []string `json:"over"`   // the kinds that it overrules if it keeps
	Roles         []string `json:"roles"`  // of users on a post, in which it looks at them; nil: all
	Fanout        bool     `json:"fanout"` // checked at fan-out, although it is one-way
	TwoWay        bool     `json:"two_way"`
	Ledger        bool     `json:"ledger"`         // in the ledger; if not, it has a window
	WindowSeconds int64    `json:"window_seconds"` // minimum time that an activity is kept
	Parts         int      `json:"parts"`          // number of parts of the window
	Most          int      `json:"most"`           // keys in the window of one user; 0: 10,000
	Limit         uint32   `json:"limit"`          // of activities per user; 0: no limit
}

// Kinds returns the kinds of activities that the service knows.
func (c *Client) Kinds(ctx context.Context) ([]Kind, error) {
	var answer struct {
		Kinds []Kind `json:"kinds"`
	}
	err := c.do(ctx, &call{
		method: http.MethodGet, path: []string{"v1", "kinds"}, into: &answer,
		sound: func() bool { return answer.Kinds != nil },
	})
	return answer.Kinds, err
}

// Pages has the number of pages, and the progress of a reshape.
type Pages struct {
	Pages          uint32  `json:"pages"`           // last requested number
	Homes          int     `json:"homes"`           // groups of users: the initial number of pages
	Reshaped       int     `json:"reshaped"`        // groups whose requested pages are built
	SharedPages    int     `json:"shared_pages"`    // in use
	DedicatedPages int     `json:"dedicated_pages"` // dedicated to one user each
	KeysPerPage    float64 `json:"keys_per_page"`
	Due            uint32  `json:"due"`       // number of pages needed; 0: no change
	Reshaping      bool    `json:"reshaping"` // by the process that answers
	Trouble        string  `json:"trouble"`   // why the reshape stalled
}

func (p *Pages) sound() bool { return p.Homes > 0 }

// Pages returns the number of pages. It needs a service with a ledger.
func (c *Client) Pages(ctx context.Context) (Pages, error) {
	var p Pages
	get := &call{method: http.MethodGet, path: []string{"v1", "pages"}, into: &p, sound: p.sound}
	err := c.do(ctx, get)
	return p, err
}

// Reshape raises the number of pages to pages, a power of two up to 2^24. The service does so in
// the background; [Client.Pages] returns its progress. Reshape needs a token with the scope
// ops:write.
//
// The number only grows. A request for fewer pages than there are fails with an [*Error] with the
// code "out_of_range". A reshape that has begun cannot be undone.
//
// A request for more than 16 times the pages that are due for the existing keys fails with an
// [*Error] with the code "too_many_pages": see [Client.ForceReshape].
func (c *Client) Reshape(ctx context.Context, pages uint32) (Pages, error) {
	return c.reshape(ctx, pages, false)
}

// ForceReshape is Reshape without that limit: it accepts any valid number of pages.
func (c *Client) ForceReshape(ctx context.Context, pages uint32) (Pages, error) {
	return c.reshape(ctx, pages, true)
}

func (c *Client) reshape(ctx context.Context, pages uint32, force bool) (Pages, error) {
	body := struct {
		Pages uint32 `json:"pages"`
		Force bool   `json:"force,omitzero"`
	}{pages, force}
	var p Pages
	err := c.do(ctx, &call{
		method: http.MethodPut,
		path:   []string{"v1", "pages"},
		body:   body,
		into:   &p,
		sound:  p.sound,
	})
	return p, err
}

// Readiness reports whether the service can answer feeds.
type Readiness struct {
	Status string `json:"status"` // "ready", "degraded" or "unavailable"
	Down   []Down `json:"down"`
}

// Answers reports whether the service can answer feeds.
func (r Readiness) Answers() bool { return r.Status == "ready" || r.Status == "degraded" }

// Down is a dependency of the service that is down.
type Down struct {
	Dependency string `json:"dependency"` // "ledger", "pages" or "service"
	Reason     string `json:"reason"`
}

// Ready asks the service once, without retries, whether it can answer feeds. If it cannot, that is
// an answer, not an error.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var r Readiness
	_, err := c.attempt(ctx, &call{
		method: http.MethodGet, path: []string{"readyz"}, into: &r, also: http.StatusServiceUnavailable,
		sound: func() bool { return r.Status != "" },
	}, new(prepared), false)
	return r, err
}

// Stats holds the counts of a process since its start.
type Stats struct {
	UptimeSeconds int64  `json:"uptime_seconds"`
	Goroutines    uint64 `json:"goroutines"`
	HeapBytes     uint64 `json:"heap_bytes"`

	Requests struct {
		InProgress int64  `json:"in_progress"`
		Shed       uint64 `json:"shed"` // refused because of overload
		Total      uint64 `json:"total"`
	} `json:"requests"`

	Access struct {
		// Refused counts requests that were denied access, by the code of their error.
		Refused       map[string]uint64 `json:"refused"`
		AuditFailures uint64            `json:"audit_failures"` // lost lines
	} `json:"access"`

	Feeds struct {
		Answered uint64            `json:"answered"`
		Kept     uint64            `json:"kept"`     // posts
		Dropped  map[string]uint64 `json:"dropped"`  // posts, by the kind that dropped them
		Degraded map[string]uint64 `json:"degraded"` // feeds, by the kind that could not be checked
	} `json:"feeds"`

	// Recorder is an object whose fields may change from version to version.
	Recorder jsontext.Value `json:"recorder"`
}

// Stats returns the counts of the process that answers.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := c.do(ctx, &call{
		method: http.MethodGet, path: []string{"v1", "stats"}, into: &s,
		sound: func() bool { return s.Recorder != nil },
	})
	return s, err
}
