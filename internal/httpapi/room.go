package httpapi

import (
	"sync"

	"github.com/feedfilter/feedfilter/feed"
)

// room is memory for one feed at a time, its body and then its answer, and what is between them.
type room struct {
	text   []byte
	posts  []feed.Post
	actors []string // of all posts, each of which has a part

	actorPosts []uint32   // of a message: the posts that they are on
	form       answerForm // of a body
}

// rooms are used again, since most of what a feed takes is for one moment.
type rooms struct{ pool sync.Pool }

func (r *rooms) get() *room {
	if of, ok := r.pool.Get().(*room); ok {
		return of
	}
	return newRoom()
}

// newRoom returns one with lists that are empty, and not nil: nil is what is not given.
func newRoom() *room { return &room{posts: []feed.Post{}, actors: []string{}} }

// put takes back a room that no request refers to any more.
func (r *rooms) put(of *room) {
	if cap(of.actors) > feed.MaxPosts { // an odd feed
		of.actors = []string{}
	}
	// A body lives as long as any string in it.
	clear(of.posts)
	clear(of.actors)
	of.text, of.posts, of.actors, of.actorPosts = of.text[:0], of.posts[:0], of.actors[:0], of.actorPosts[:0]
	of.form = formKept
	r.pool.Put(of)
}
