// Package dualwrite shows how an app keeps blocks both in exact sets, as it always has, and in
// feedfilter, while it moves from the one to the other. docs/MIGRATION.md says why it is right as
// it stands here.
//
// Writes of the same pair have to come one after another, as those of one user's requests do behind
// a lock on the user.
package dualwrite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// due is a stream of the pairs that feedfilter may not have heard of.
	due = "feedfilter:due"
	// grace is how far away the end is of a block that is found undone.
	grace = time.Minute
)

// ErrDue means that the sets have a change and feedfilter may have it or not. Drain sees to it;
// there is nothing to be tried again.
var ErrDue = errors.New("recorded in the sets, and due in feedfilter")

// Blocks keeps blocks in both places.
type Blocks struct {
	Sets   *redis.Client
	Keys   string // of the sets, without the user: "blocks:"
	URL    string // of feedfilter
	Client *http.Client
}

// Block records that user blocks target.
func (b *Blocks) Block(ctx context.Context, user, target string) error {
	return b.write(ctx, user, target, http.MethodPut)
}

// Unblock takes it back.
func (b *Blocks) Unblock(ctx context.Context, user, target string) error {
	return b.write(ctx, user, target, http.MethodDelete)
}

// write changes the set and notes the pair as due, both or neither, and then has feedfilter follow.
// It tries that once: a request without an answer may still be carried out, and one that is
// repeated could overtake it.
func (b *Blocks) write(ctx context.Context, user, target, method string) error {
	var note *redis.StringCmd
	_, err := b.Sets.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		if method == http.MethodPut {
			tx.SAdd(ctx, b.Keys+user, target)
		} else {
			tx.SRem(ctx, b.Keys+user, target)
		}
		pair := []string{"user", user, "target", target}
		note = tx.XAdd(ctx, &redis.XAddArgs{Stream: due, Values: pair})
		return nil
	})
	if err != nil {
		return fmt.Errorf("write a block: %w", err)
	}
	if err := b.call(ctx, method, blockPath(user, target), "", nil); err != nil {
		return fmt.Errorf("%w: %w", ErrDue, err)
	}
	_ = b.Sets.XDel(ctx, due, note.Val()) // if not, Drain looks at it once more
	return nil
}

// Drain settles what was noted as due longer ago than age, which is a minute or more: by then no
// request of those days is on its way. Call it every minute, in one process or in all.
func (b *Blocks) Drain(ctx context.Context, age time.Duration) error {
	now, err := b.Sets.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	until := strconv.FormatInt(now.Add(-age).UnixMilli(), 10)
	notes, err := b.Sets.XRange(ctx, due, "-", until).Result()
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	for _, note := range notes {
		user, _ := note.Values["user"].(string)
		target, _ := note.Values["target"].(string)
		err := b.settle(ctx, user, target)
		if err == nil {
			err = b.Sets.XDel(ctx, due, note.ID).Err()
		}
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
	}
	return nil
}

// settle makes feedfilter follow the set, while others may be writing to both. It never deletes,
// because a user who blocks at this moment would lose the block. A block that was undone gets an
// end, which a new block removes.
func (b *Blocks) settle(ctx context.Context, user, target string) error {
	for {
		blocked, err := b.Sets.SIsMember(ctx, b.Keys+user, target).Result()
		if err != nil {
			return err
		}
		until := ""
		if !blocked {
			there, err := b.recorded(ctx, user, target)
			if err != nil || !there {
				return err
			}
			until = "?until=" + time.Now().Add(grace).UTC().Format(time.RFC3339)
		}
		if err := b.call(ctx, http.MethodPut, blockPath(user, target)+until, "", nil); err != nil {
			return err
		}
		again, err := b.Sets.SIsMember(ctx, b.Keys+user, target).Result()
		if err != nil || again == blocked {
			return err
		}
	}
}

// recorded tells whether feedfilter has a block.
func (b *Blocks) recorded(ctx context.Context, user, target string) (bool, error) {
	body, err := json.Marshal(map[string]any{"kind": "block", "targets": []string{target}})
	if err != nil {
		return false, err
	}
	var answer struct {
		Present int `json:"present"`
	}
	path := "/v1/users/" + url.PathEscape(user) + "/preview"
	err = b.call(ctx, http.MethodPost, path, string(body), &answer)
	return answer.Present == 1, err
}

func (b *Blocks) call(ctx context.Context, method, path, body string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := b.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("feedfilter: %s", resp.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

func blockPath(user, target string) string {
	return "/v1/users/" + url.PathEscape(user) + "/blocks/" + url.PathEscape(target)
}
