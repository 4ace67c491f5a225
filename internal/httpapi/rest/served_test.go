package rest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/feedfilter/feedfilter/feed"
)

const (
	servedPosts  = 500
	servedBodies = 64
	dropEach     = 20 // one of so many candidates is by a blocked author
)

// servedBody returns the n-th feed: ids of the length that large networks have, and actors on every
// fourth post.
func servedBody(n int) string {
	var b strings.Builder
	b.WriteString(`{"viewer":"u1","posts":[`)
	for i := range servedPosts {
		at := n*servedPosts + i
		author := "u" + strconv.Itoa(50_000_000+at)
		if i%dropEach == 0 {
			author = blockedAuthor(at)
		}
		fmt.Fprintf(&b, `{"id":"p%d","author":"%s"`, 70_000_000_000+at, author)
		if i%4 == 1 {
			fmt.Fprintf(&b, `,"actors":["u%d","u%d"]`, 60_000_000+at, 61_000_000+at)
		}
		b.WriteString("},")
	}
	return strings.TrimSuffix(b.String(), ",") + "]}"
}

func blockedAuthor(at int) string { return "b" + strconv.Itoa(at/dropEach%1000) }

// answerOf drops one candidate of dropEach.
func answerOf(req feed.Request) feed.Answer {
	a := feed.Answer{Kept: make([]int, 0, len(req.Posts))}
	for i, p := range req.Posts {
		if i%dropEach == 0 {
			a.Dropped = append(a.Dropped, feed.Dropped{At: i, Kind: "block", Actor: p.Author})
			continue
		}
		a.Kept = append(a.Kept, i)
	}
	return a
}
