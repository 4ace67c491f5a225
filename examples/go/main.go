// Command go is an example of package client: user 1 blocks user 2, asks for a feed, and undoes it.
//
//	go run ./examples/go [URL]
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

const (
	viewer  = "go-1"
	blocked = "go-2"
)

func main() {
	service := "http://127.0.0.1:8080"
	if len(os.Args) > 1 {
		service = os.Args[1]
	}
	if err := run(context.Background(), service); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, service string) error {
	token := client.StaticToken(os.Getenv("FEEDFILTER_TOKEN"))
	c, err := client.New(service, client.Options{Token: token})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Delete(ctx, viewer, client.Block, blocked); err != nil { // of a run before
		return err
	}
	changed, err := c.Put(ctx, viewer, client.Block, blocked, time.Time{})
	if err := cmp.Or(err, expect("block", changed, true)); err != nil {
		return err
	}
	if err := checkFeed(ctx, c, "p9"); err != nil {
		return err
	}
	why, err := c.Explain(ctx, client.ExplainRequest{
		Viewer: blocked,
		Post:   client.Post{ID: "p1", Author: viewer},
	})
	if err != nil {
		return err
	}
	if err := expect("why", why.Reasons[0].Direction, "by_actor"); err != nil {
		return err
	}
	changed, err = c.Delete(ctx, viewer, client.Block, blocked)
	if err := cmp.Or(err, expect("unblock", changed, true)); err != nil {
		return err
	}
	if err := checkFeed(ctx, c, "p8", "p9"); err != nil {
		return err
	}
	results, err := c.Batch(ctx, []client.Activity{
		{User: viewer, Kind: "hide", Target: "p9", Op: client.Add},
		{User: viewer, Kind: "hide", Target: "p9", Op: client.Remove},
	})
	if err != nil {
		return err
	}
	if err := expect("batch", results[0].Changed && results[1].Changed, true); err != nil {
		return err
	}
	_, err = c.Put(ctx, viewer, client.Block, viewer, time.Time{})
	return expect("wrong", errors.Is(err, client.ErrInvalid), true)
}

// checkFeed asks for a feed as a renderer does, which waits for so long and no longer.
func checkFeed(ctx context.Context, c *client.Client, want ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	feed, err := c.Filter(ctx, client.FilterRequest{
		Viewer: viewer,
		Posts:  []client.Post{{ID: "p8", Author: blocked}, {ID: "p9", Author: "go-3"}},
	})
	if errors.Is(err, client.ErrUnavailable) {
		return fmt.Errorf("show nothing, as nobody can say what is blocked: %w", err)
	}
	if err != nil {
		return err
	}
	var shown []string
	for _, p := range feed.Posts {
		shown = append(shown, p.ID)
	}
	return expect("feed", slices.Equal(shown, want), true)
}

// expect reports what there is, and fails if that is not what is wanted.
func expect[T comparable](what string, got, want T) error {
	if _, err := fmt.Fprintf(os.Stdout, "%s: %v\n", what, got); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}
