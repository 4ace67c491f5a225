package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	attempts     = 10
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
	callTimeout  = 30 * time.Second // of one attempt
	maxAnswer    = 8 << 20          // bytes; a list of 1,000 items or a feed of 900 takes less
	listLimit    = 1000
)

// Service calls a service. All of its calls may be repeated, so what fails for the moment (no connection, 429, 503) is tried again, 10
// times in all. It may be used by many goroutines.
type Service struct {
	URL    *url.URL
	Token  string // "": none
	Client *http.Client
}

// Kind is a kind of activities as the service has it.
type Kind struct {
	Name   string `json:"name"`
	Plural string `json:"plural"`
	Target string `json:"target"`
	Effect string `json:"effect"`
	TwoWay bool   `json:"two_way"`
	Ledger bool   `json:"ledger"`
}

func (k Kind) ofUsers() bool { return k.Target == "user" }

// Kind looks a kind up that the ledger keeps: of others nobody can say exactly what there is.
func (s *Service) Kind(ctx context.Context, name string) (Kind, error) {
	var answer struct {
		Kinds []Kind `json:"kinds"`
	}
	// The first call, and the one that a wrong address fails at: at once.
	if _, err := s.try(ctx, http.MethodGet, "/v1/kinds", nil, &answer); err != nil {
		return Kind{}, fmt.Errorf("%s: %w", s.URL, err)
	}
	for _, k := range answer.Kinds {
		if k.Name == name && !k.Ledger {
			return k, fmt.Errorf("kind %q is not kept in the ledger", name)
		}
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("the service has no kind %q", name)
}

// Line is an activity to be added.
type Line struct {
	User   string    `json:"user"`
	Kind   string    `json:"kind"`
	Target string    `json:"target"`
	Op     string    `json:"op"` // set by Record
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

// Outcome is what became of a Line.
type Outcome struct {
	Changed bool `json:"changed"`
	Error   struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"` // of an empty Code if there is none
}

// Record adds activities, up to 900.
func (s *Service) Record(ctx context.Context, lines []Line) ([]Outcome, error) {
	for i := range lines {
		lines[i].Op = "add"
		lines[i].Until = lines[i].Until.UTC().Truncate(time.Microsecond)
	}
	body := struct {
		Activities []Line `json:"activities"`
	}{lines}
	var answer struct {
		Results []Outcome `json:"results"`
	}
	err := s.call(ctx, http.MethodPost, "/v1/activities", body, &answer)
	if err == nil && len(answer.Results) != len(lines) {
		err = fmt.Errorf("the service answered %d of %d activities", len(answer.Results), len(lines))
	}
	return answer.Results, err
}

// Present tells whether the ledger has an activity.
func (s *Service) Present(ctx context.Context, k Kind, p Pair) (bool, error) {
	body := struct {
		Kind    string   `json:"kind"`
		Targets []string `json:"targets"`
	}{k.Name, []string{p.Target}}
	var answer struct {
		Present int `json:"present"`
	}
	err := s.call(ctx, http.MethodPost, "/v1/users/"+url.PathEscape(p.User)+"/preview", body, &answer)
	return answer.Present == 1, err
}

// Ends is when an activity ends, zero if it does not or is not there.
func (s *Service) Ends(ctx context.Context, k Kind, p Pair) (time.Time, error) {
	body := struct {
		Viewer string    `json:"viewer"`
		Post   candidate `json:"post"`
	}{p.User, candidate{p.Target, p.User}}
	if k.ofUsers() {
		body.Post = candidate{"0", p.Target}
	}
	var answer struct {
		Reasons []struct {
			Kind      string    `json:"kind"`
			Direction string    `json:"direction"`
			Until     time.Time `json:"until"`
		} `json:"reasons"`
	}
	err := s.call(ctx, http.MethodPost, "/v1/feed/explain", body, &answer)
	for _, r := range answer.Reasons {
		if r.Kind == k.Name && r.Direction == "by_viewer" {
			return r.Until, err
		}
	}
	return time.Time{}, err
}

// List calls each for all that the ledger has of a user, with its end, zero for none.
func (s *Service) List(ctx context.Context, k Kind, user string, each func(target string, until time.Time)) error {
	route := "/v1/users/" + url.PathEscape(user) + "/" + k.Plural + "?limit=" + strconv.Itoa(listLimit)
	for cursor := ""; ; {
		var answer struct {
			Items []struct {
				Target string    `json:"target"`
				Until  time.Time `json:"until"`
			} `json:"items"`
			Next string `json:"next"`
		}
		page := route
		if cursor != "" {
			page += "&cursor=" + url.QueryEscape(cursor)
		}
		if err := s.call(ctx, http.MethodGet, page, nil, &answer); err != nil {
			return err
		}
		for _, item := range answer.Items {
			each(item.Target, item.Until)
		}
		if cursor = answer.Next; cursor == "" {
			return nil
		}
	}
}

type candidate struct {
	ID     string `json:"id"`
	Author string `json:"author,omitzero"`
}

// Reported asks for a feed of viewer with candidates of or by the targets, up to 900, and tells which are dropped, or marked, for the
// kind. With exact, the ledger confirms it.
func (s *Service) Reported(ctx context.Context, k Kind, viewer string, targets []string, exact bool) ([]bool, error) {
	body := struct {
		Viewer   string      `json:"viewer"`
		Posts    []candidate `json:"posts"`
		Kinds    []string    `json:"kinds"`
		Annotate []string    `json:"annotate,omitzero"`
		Exact    bool        `json:"exact,omitzero"`
	}{Viewer: viewer, Kinds: []string{}, Exact: exact}
	if k.Effect == "drop" {
		body.Kinds = []string{k.Name}
	} else {
		body.Annotate = []string{k.Name}
	}
	for i, target := range targets {
		c := candidate{ID: target}
		if k.ofUsers() {
			c = candidate{strconv.Itoa(i), target}
		}
		body.Posts = append(body.Posts, c)
	}
	var answer struct {
		Posts    []map[string]any `json:"posts"`
		Dropped  []candidate      `json:"dropped"`
		Degraded []any            `json:"degraded"`
	}
	err := s.call(ctx, http.MethodPost, "/v1/feed/filter", body, &answer)
	if err != nil {
		return nil, err
	}
	if len(answer.Degraded) > 0 || len(answer.Posts)+len(answer.Dropped) != len(targets) {
		return nil, fmt.Errorf("the service answered a feed in part: %v", answer.Degraded)
	}
	found := make(map[string]bool)
	for _, d := range answer.Dropped {
		found[d.ID] = true
	}
	for _, p := range answer.Posts {
		if id, ok := p["id"].(string); ok && p[k.Name] == true {
			found[id] = true
		}
	}
	reported := make([]bool, len(targets))
	for i := range targets {
		reported[i] = found[body.Posts[i].ID]
	}
	return reported, nil
}

// call has the service answer a request, at last.
func (s *Service) call(ctx context.Context, method, route string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("%s %s: %w", method, route, err)
		}
	}
	backoff := firstBackoff
	for n := 1; ; n++ {
		wait, err := s.try(ctx, method, route, body, out)
		if err == nil {
			return nil
		}
		if wait < 0 || n == attempts || ctx.Err() != nil {
			return fmt.Errorf("%s %s: %w", method, s.URL.JoinPath("/").String(), err)
		}
		wait = max(wait, backoff/2+rand.N(backoff/2)) //nolint:gosec // spreads callers out
		backoff = min(2*backoff, maxBackoff)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// try calls once. After an error it returns how long to wait before the next time, less than 0 if it is of no use.
func (s *Service) try(ctx context.Context, method, route string, body []byte, out any) (wait time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	u, err := s.URL.Parse(route)
	if err != nil {
		return -1, err
	}
	req, err := http.NewRequestWithContext(limited, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return 0, withoutRoute(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, err
	case resp.StatusCode == http.StatusOK && len(text) <= maxAnswer:
		if err := json.Unmarshal(text, out); err != nil {
			return -1, fmt.Errorf("answered not as feedfilter does: %w", err)
		}
		return 0, nil
	case resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 without
		wait = min(time.Duration(max(seconds, 0))*time.Second, maxBackoff)
	default:
		wait = -1
	}
	var answer struct {
		Error struct {
			Message string `json:"message"`
			Field   string `json:"field"`
		} `json:"error"`
	}
	_ = json.Unmarshal(text, &answer) // others than feedfilter have no message
	if answer.Error.Field != "" {
		answer.Error.Field += ": "
	}
	return wait, fmt.Errorf("%s: %s%s", resp.Status, answer.Error.Field, answer.Error.Message)
}

// withoutRoute is the error of a client without the route, which has a user's id.
func withoutRoute(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
