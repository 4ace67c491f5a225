package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Plurals of the built-in kinds that the ledger keeps, as calls about one kind take them; [Client.Kinds] has those of others.
const (
	Blocks = "blocks"
	Hides  = "hides"
	Likes  = "likes"
)

// Seen is the plural of the built-in kind with a window.
const Seen = "seen"

// changed is the answer to an activity.
type changed struct {
	Changed *bool `json:"changed"`
}

// activity makes a call that is answered with it.
func (c *Client) activity(ctx context.Context, call *call) (bool, error) {
	var answer changed
	call.into, call.sound = &answer, func() bool { return answer.Changed != nil }
	if err := c.do(ctx, call); err != nil {
		return false, err
	}
	return *answer.Changed, nil
}

// Put records an activity, such as Put(ctx, "1", client.Blocks, "2", time.Time{}): user 1 blocks user 2. It ends by itself at until,
// kept to the microsecond, unless that is zero. It returns whether that made a difference: see the package's comment on retries.
// Once it has returned
// without an error, every feed has it.
func (c *Client) Put(ctx context.Context, userID, plural, target string, until time.Time) (bool, error) {
	var query url.Values
	if !until.IsZero() {
		query = url.Values{"until": {until.UTC().Format(time.RFC3339Nano)}}
	}
	return c.activity(ctx, &call{method: http.MethodPut, path: user(userID, plural, target), query: query})
}

// Delete undoes an activity. It returns whether there was one.
func (c *Client) Delete(ctx context.Context, userID, plural, target string) (bool, error) {
	return c.activity(ctx, &call{method: http.MethodDelete, path: user(userID, plural, target)})
}

// Record records posts, 1 to 1,000, of a kind with a window, such as Record(ctx, "1", client.Seen, posts). It returns how many distinct
// ones are recorded now.
func (c *Client) Record(ctx context.Context, userID, plural string, posts []string) (int, error) {
	body := struct {
		Posts []string `json:"posts"`
	}{posts}
	var answer struct {
		Recorded int `json:"recorded"`
	}
	err := c.do(ctx, &call{
		method: http.MethodPost, path: user(userID, plural), body: body, into: &answer,
		sound: func() bool { return answer.Recorded > 0 },
	})
	return answer.Recorded, err
}

// Item is one of a list.
type Item struct {
	Target string    `json:"target"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // zero: it has no end
}

const (
	firstItems = 100  // of a list, for who looks at its beginning
	moreItems  = 1000 // of a list that is read on
)

// List returns what the user has done of a kind, newest first, asking for more as it is read on. Where that fails, it yields the
// error and ends.
func (c *Client) List(ctx context.Context, userID, plural string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		query := url.Values{"limit": {strconv.Itoa(firstItems)}}
		for {
			var answer struct {
				Items []Item `json:"items"`
				Next  string `json:"next"`
			}
			err := c.do(ctx, &call{
				method: http.MethodGet, path: user(userID, plural), query: query, into: &answer,
				sound: func() bool { return answer.Items != nil },
			})
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range answer.Items {
				if !yield(item, nil) {
					return
				}
			}
			if answer.Next == "" || answer.Next == query.Get("cursor") {
				return
			}
			query = url.Values{"limit": {strconv.Itoa(moreItems)}, "cursor": {answer.Next}}
		}
	}
}

// Counts returns how many activities the user has, by the name of the kind.
func (c *Client) Counts(ctx context.Context, userID string) (map[string]int, error) {
	var answer struct {
		Counts map[string]int `json:"counts"`
	}
	err := c.do(ctx, &call{
		method: http.MethodGet, path: user(userID), into: &answer,
		sound: func() bool { return answer.Counts != nil },
	})
	return answer.Counts, err
}

// Preview is what recording some activities would come to.
type Preview struct {
	New     int    `json:"new"`     // distinct targets that are not there yet
	Present int    `json:"present"` // distinct targets that are
	Total   int    `json:"total"`   // what the user would have then
	Limit   uint32 `json:"limit"`   // 0: none
	Over    bool   `json:"over"`    // some of the new ones would be refused for the limit
}

// Preview says what recording activities of a kind, by its name, with 1 to 10,000 targets would come to. It changes nothing.
func (c *Client) Preview(ctx context.Context, userID, kind string, targets []string) (Preview, error) {
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

// deleteTimeout is more than the service takes for a deletion.
const deleteTimeout = 6 * time.Minute

// DeleteUser removes every trace of a user, which takes up to 5 minutes. It returns how many activities it removed, the user's and those
// with the user, in its last attempt. After an error, call it again: it goes on.
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
