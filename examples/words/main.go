// Command words is an example of muted phrases: ann mutes one, but not in posts by fay, whom she
// follows; bob mutes none. The service has the kinds of kinds.json.
//
//	go run ./examples/words [URL]
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

const (
	ann, bob = "go-ann", "go-bob"
	eve, fay = "go-eve", "go-fay"

	mutes = "word-mutes"
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
	if _, err := c.DeleteUser(ctx, ann); err != nil { // of a run before
		return err
	}
	if err := record(ctx, c); err != nil {
		return err
	}
	posts := []client.Post{
		{ID: "p1", Author: eve, Text: "CLIMATE—change is real"},
		{ID: "p2", Author: fay, Text: "My talk on climate change"},
		{ID: "p3", Author: eve, Text: "The climate will change"},
	}
	if err := checkFeed(ctx, c, "ann", ann, posts, "p2 p3"); err != nil {
		return err
	}
	if err := checkFeed(ctx, c, "bob", bob, posts, "p1 p2 p3"); err != nil {
		return err
	}
	why, err := c.Explain(ctx, client.ExplainRequest{Viewer: ann, Post: posts[0]})
	if err != nil {
		return err
	}
	r := why.Reasons[0]
	found := posts[0].Text[r.InText.Start:r.InText.End]
	if err := expect("why", r.Target+" in "+found, "climate change in CLIMATE—change"); err != nil {
		return err
	}
	fanout, err := c.Fanout(ctx, client.FanoutRequest{Post: posts[0], Viewers: []string{ann, bob}})
	if err != nil {
		return err
	}
	if err := expect("p1 is not for", fanout.Dropped[0].Viewer, ann); err != nil {
		return err
	}
	if _, err := c.Delete(ctx, ann, mutes, "climate change"); err != nil {
		return err
	}
	return checkFeed(ctx, c, "ann", ann, posts, "p1 p2 p3")
}

// record records what ann mutes: one phrase forever, another until a time, and whom she follows.
func record(ctx context.Context, c *client.Client) error {
	newYear := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	_, err := c.Put(ctx, ann, "follows", fay, time.Time{})
	if err == nil {
		_, err = c.Put(ctx, ann, mutes, "Climate Change", time.Time{})
	}
	if err == nil {
		_, err = c.Put(ctx, ann, mutes, "Spoilers!", newYear(2127))
	}
	if err != nil {
		return err
	}
	_, err = c.Put(ctx, ann, mutes, "eclipse", newYear(2001))
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return cmp.Or(err, errors.New("until 2001: it is recorded"))
	}
	if err := expect("until 2001", refused.Code, "out_of_range"); err != nil {
		return err
	}
	var all []string
	for item, err := range c.List(ctx, ann, mutes) {
		if err != nil {
			return err
		}
		phrase := item.Target
		if !item.Until.IsZero() {
			phrase += " until " + item.Until.Format(time.DateOnly)
		}
		all = append(all, phrase)
	}
	slices.Sort(all)
	return expect("muted", strings.Join(all, ", "), "climate change, spoilers until 2127-01-01")
}

func checkFeed(
	ctx context.Context, c *client.Client, name, viewer string, posts []client.Post, want string,
) error {
	feed, err := c.Filter(ctx, client.FilterRequest{Viewer: viewer, Posts: posts})
	if err != nil {
		return err
	}
	var shown []string
	for _, p := range feed.Posts {
		shown = append(shown, p.ID)
	}
	return expect(name+" sees", strings.Join(shown, " "), want)
}

// expect prints what there is, and fails if that is not what is wanted.
func expect(what, got, want string) error {
	_, err := fmt.Fprintf(os.Stdout, "%s: %s\n", what, got)
	if err == nil && got != want {
		err = fmt.Errorf("%s: %s, want %s", what, got, want)
	}
	return err
}
