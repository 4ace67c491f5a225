package client

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is a kind of activities.
type Kind struct {
	Name          string `json:"name"`
	Plural        string `json:"plural"` // in calls about one kind
	Target        string `json:"target"` // "user" or "post"
	Effect        string `json:"effect"` // "drop" or "annotate"
	TwoWay        bool   `json:"two_way"`
	Ledger        bool   `json:"ledger"`         // whether the ledger keeps it; else it has a window
	WindowSeconds int64  `json:"window_seconds"` // how long it is kept at least
	Parts         int    `json:"parts"`          // of the window
	Limit         uint32 `json:"limit"`          // of how many a user has; 0: none
}

// Kinds returns the kinds that the service has.
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

// Pages is how many pages there are, and how far a reshape is.
type Pages struct {
	Pages       uint32  `json:"pages"`    // what was asked for last
	Homes       int     `json:"homes"`    // groups of users
	Reshaped    int     `json:"reshaped"` // those of them that are on pages as asked for
	SharedPages int     `json:"shared_pages"`
	OwnPages    int     `json:"own_pages"`
	KeysPerPage float64 `json:"keys_per_page"`
	Due         uint32  `json:"due"`       // how many there should be; 0: it is well
	Reshaping   bool    `json:"reshaping"` // in the process that was asked
	Trouble     string  `json:"trouble"`   // why that does not get on
}

func (p *Pages) sound() bool { return p.Homes > 0 }

// Pages says how many pages there are. It needs the ledger.
func (c *Client) Pages(ctx context.Context) (Pages, error) {
	var p Pages
	err := c.do(ctx, &call{method: http.MethodGet, path: []string{"v1", "pages"}, into: &p, sound: p.sound})
	return p, err
}

// Reshape has the service change the number of pages, a power of two from 1 to 2^24, in the background. [Client.Pages] says how far it is.
// It needs a token with the scope ops:write. The number that was asked for last counts: Reshape to the number that there was before
// stops a reshape and takes it back. More than 16 times the pages that are due for the keys there are is an [*Error] with the
// code "too_many_pages": see [Client.ForceReshape].
func (c *Client) Reshape(ctx context.Context, pages uint32) (Pages, error) {
	return c.reshape(ctx, pages, false)
}

// ForceReshape is Reshape to any number of pages, however many are due.
func (c *Client) ForceReshape(ctx context.Context, pages uint32) (Pages, error) {
	return c.reshape(ctx, pages, true)
}

func (c *Client) reshape(ctx context.Context, pages uint32, force bool) (Pages, error) {
	body := struct {
		Pages uint32 `json:"pages"`
		Force bool   `json:"force,omitzero"`
	}{pages, force}
	var p Pages
	err := c.do(ctx, &call{method: http.MethodPut, path: []string{"v1", "pages"}, body: body, into: &p, sound: p.sound})
	return p, err
}

// Readiness is whether feeds can be answered.
type Readiness struct {
	Status string `json:"status"` // "ready", "degraded" or "unavailable"
	Down   []Down `json:"down"`
}

// Answers reports whether feeds can be answered.
func (r Readiness) Answers() bool { return r.Status == "ready" || r.Status == "degraded" }

// Down is something that the service cannot reach.
type Down struct {
	Dependency string `json:"dependency"` // "ledger", "pages" or "service"
	Reason     string `json:"reason"`
}

// Ready asks once whether feeds can be answered. That they cannot is no error.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var r Readiness
	err := c.attempt(ctx, &call{
		method: http.MethodGet, path: []string{"readyz"}, into: &r, also: http.StatusServiceUnavailable,
		sound: func() bool { return r.Status != "" },
	}, nil)
	return r, err
}

// Stats is what a process has counted since it started.
type Stats struct {
	UptimeSeconds int64  `json:"uptime_seconds"`
	Goroutines    uint64 `json:"goroutines"`
	HeapBytes     uint64 `json:"heap_bytes"`

	Requests struct {
		InProgress int64  `json:"in_progress"`
		Shed       uint64 `json:"shed"` // refused for overload
		Total      uint64 `json:"total"`
	} `json:"requests"`

	Access struct {
		Refused       map[string]uint64 `json:"refused"`        // requests that were not let in, by the code of their error
		AuditFailures uint64            `json:"audit_failures"` // lines that could not be written
	} `json:"access"`

	Feeds struct {
		Answered uint64            `json:"answered"`
		Kept     uint64            `json:"kept"`     // posts
		Dropped  map[string]uint64 `json:"dropped"`  // posts, by the kind that did
		Degraded map[string]uint64 `json:"degraded"` // feeds, by the kind that could not be checked
	} `json:"feeds"`

	Recorder jsontext.Value `json:"recorder"` // an object whose fields may change from version to version
}

// Stats returns what the process that answers has counted.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := c.do(ctx, &call{method: http.MethodGet, path: []string{"v1", "stats"}, into: &s, sound: func() bool { return s.Recorder != nil }})
	return s, err
}
