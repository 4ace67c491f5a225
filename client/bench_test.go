package client_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

// BenchmarkFilter calls a service in this process over loopback, for feeds of 500 posts, of which
// 25 are dropped. The time includes both sides.
func BenchmarkFilter(b *testing.B) {
	handler, end, err := openService(b.Context(), b.TempDir(), 10)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(handler)
	b.Cleanup(func() { server.Close(); end() })
	req := client.FilterRequest{Viewer: "u1"}
	blocker := newClient(b, server.URL, client.Options{})
	for i := range 500 {
		p := client.Post{ID: fmt.Sprintf("p%d", 70_000_000_000+i), Author: fmt.Sprintf("u%d", 50_000_000+i)}
		if i%4 == 1 {
			p.Actors = []string{fmt.Sprintf("u%d", 60_000_000+i), fmt.Sprintf("u%d", 61_000_000+i)}
		}
		if i%20 == 0 {
			must(blocker.Put(b.Context(), "u1", client.Block, p.Author, time.Time{}))
		}
		req.Posts = append(req.Posts, p)
	}
	for _, form := range []struct {
		name string
		json bool
	}{{"JSON", true}, {"messages", false}} {
		b.Run(form.name, func(b *testing.B) {
			c, err := client.New(server.URL, client.Options{JSON: form.json})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(c.Close)
			b.ReportAllocs()
			for b.Loop() {
				if feed, err := c.Filter(b.Context(), req); err != nil || len(feed.Posts) != 475 || len(feed.Dropped) != 25 {
					b.Fatalf("%d posts, %d dropped, %v", len(feed.Posts), len(feed.Dropped), err)
				}
			}
		})
	}
}
