package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

// exampleService starts a service like "feedfilter serve". It returns its address, and a function
// that ends it.
func exampleService() (url string, end func()) {
	dir, err := os.MkdirTemp("", "feedfilter")
	if err != nil {
		panic(err)
	}
	handler, endService, err := openService(context.Background(), dir, 1000)
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(handler)
	return server.URL, func() { server.Close(); endService(); _ = os.RemoveAll(dir) }
}

func Example() {
	url, end := exampleService()
	defer end()
	c, err := client.New(url, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()

	// User 1 blocks user 2.
	if _, err := c.Put(ctx, "1", client.Block, "2", time.Time{}); err != nil {
		fmt.Println(err)
		return
	}
	feed, err := c.Filter(ctx, client.FilterRequest{
		Viewer: "1",
		Posts:  []client.Post{{ID: "p8", Author: "2"}, {ID: "p9", Author: "3"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("shown:", feed.Posts[0].ID)
	fmt.Println("dropped:", feed.Dropped[0].ID, "for a", feed.Dropped[0].Kind)
	// Output:
	// shown: p9
	// dropped: p8 for a block
}

// A renderer limits how long it waits, and decides what to show without an answer.
func ExampleClient_Filter() {
	c, err := client.New("http://127.0.0.1:1", client.Options{}) // nobody answers here
	if err != nil {
		fmt.Println(err)
		return
	}
	candidates := []client.Post{{ID: "p1", Author: "1"}, {ID: "p8", Author: "2"}}
	viewer := "1"

	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	feed, err := c.Filter(ctx, client.FilterRequest{Viewer: viewer, Posts: candidates})
	switch {
	case errors.Is(err, client.ErrUnavailable): // fail closed: show what needs no check
		for _, p := range candidates {
			if p.Author == viewer {
				fmt.Println("shown:", p.ID)
			}
		}
	case err != nil:
		fmt.Println("a mistake in the request:", err)
	default:
		for _, p := range feed.Posts {
			fmt.Println("shown:", p.ID)
		}
	}
	// Output: shown: p1
}

func ExampleClient_List() {
	url, end := exampleService()
	defer end()
	c, err := client.New(url, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for _, post := range []string{"p1", "p2", "p3"} {
		if _, err := c.Put(ctx, "1", client.Hide, post, time.Time{}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for item, err := range c.List(ctx, "1", client.Hide) { // newest first
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(item.Target)
	}
	// Output:
	// p3
	// p2
	// p1
}

func ExampleClient_Batch() {
	url, end := exampleService()
	defer end()
	c, err := client.New(url, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := c.Batch(context.Background(), []client.Activity{
		{User: "1", Kind: "block", Target: "2", Op: client.Add},
		{User: "1", Kind: "hide", Target: "p7", Op: client.Remove},
	})
	if err != nil {
		fmt.Println(err) // the whole batch failed, and changed nothing
		return
	}
	for _, r := range results {
		fmt.Println(r.Changed, r.Err == nil)
	}
	// Output:
	// true true
	// false true
}
