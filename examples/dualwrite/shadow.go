package dualwrite

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Reads says where a feed is read from: an app's setting, to be changed while it runs.
type Reads string

// Where feeds are read from, in the order in which an app moves on, and back.
const (
	FromSets   Reads = "sets"
	Shadow     Reads = "shadow" // from the sets; feedfilter is asked too, and differences are logged
	FeedFilter Reads = "feedfilter"
)

// Hidden returns those of authors whom viewer must not see, in their order: either has blocked the
// other.
func (b *Blocks) Hidden(
	ctx context.Context, reads Reads, viewer string, authors []string, log *slog.Logger,
) ([]string, error) {
	switch reads {
	case FeedFilter:
		return b.filtered(ctx, viewer, authors)
	case Shadow:
		hidden, err := b.inSets(ctx, viewer, authors)
		if err != nil {
			return nil, err
		}
		// A feed is never the worse for what is on trial.
		other, err := b.filtered(ctx, viewer, authors)
		if err != nil {
			log.WarnContext(ctx, "shadow read failed", "error", err)
		} else if !slices.Equal(hidden, other) {
			log.WarnContext(
				ctx, "shadow read differs",
				"candidates", len(authors), "sets", len(hidden), "feedfilter", len(other),
			)
		}
		return hidden, nil
	default:
		return b.inSets(ctx, viewer, authors)
	}
}

// inSets asks the sets of both sides.
func (b *Blocks) inSets(ctx context.Context, viewer string, authors []string) ([]string, error) {
	pipe := b.Sets.Pipeline()
	by, of := make([]*redis.BoolCmd, len(authors)), make([]*redis.BoolCmd, len(authors))
	for i, author := range authors {
		by[i] = pipe.SIsMember(ctx, b.Keys+viewer, author)
		of[i] = pipe.SIsMember(ctx, b.Keys+author, viewer)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var hidden []string
	for i, author := range authors {
		if by[i].Val() || of[i].Val() {
			hidden = append(hidden, author)
		}
	}
	return hidden, nil
}

// filtered asks feedfilter, with a post of each author.
func (b *Blocks) filtered(ctx context.Context, viewer string, authors []string) ([]string, error) {
	type post struct {
		ID     string `json:"id"`
		Author string `json:"author"`
	}
	posts := make([]post, len(authors))
	for i, author := range authors {
		posts[i] = post{author, author}
	}
	body, err := json.Marshal(map[string]any{
		"viewer": viewer, "posts": posts, "kinds": []string{"block"},
	})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Dropped []struct {
			Actor string `json:"actor"`
		} `json:"dropped"`
	}
	if err := b.call(ctx, http.MethodPost, "/v1/feed/filter", string(body), &answer); err != nil {
		return nil, err
	}
	var hidden []string
	for _, d := range answer.Dropped {
		hidden = append(hidden, d.Actor)
	}
	return hidden, nil
}
