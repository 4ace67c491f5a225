package httpapi

import (
	"sync"

	"github.com/feedfilter/feedfilter/feed"
)

// room holds the memory of one feed request: the parsed lists, and for JSON the body and then the
// answer.
type room struct {
	text   []byte
	posts  []feed.Post
	actors []string // of all posts; each post has a part of it

	actorPosts []uint32   // of a message: the index of the post of each actor
	form       answerForm // that the JSON body asks for
}

// rooms is a pool of rooms. Most memory of a feed request is needed only until its answer is sent.
type rooms struct{ pool sync.Pool }

func (r *rooms) get() *room {
	if of, ok := r.pool.Get().(*room); ok {
		return of
	}
	return newRoom()
}

// newRoom returns a room with empty lists. They are not nil, because nil means that the request has
// no such field.
func newRoom() *room { return &room{posts: []feed.Post{}, actors: []string{}} }

// put returns a room to the pool. No request may refer to it any more.
func (r *rooms) put(of *room) {
	if cap(of.actors) > feed.MaxPosts { // an unusually large list is not kept
		of.actors = []string{}
	}
	// A string that is left in a list would keep its whole body from the garbage collector.
	clear(of.posts)
	clear(of.actors)
	of.text, of.posts, of.actors, of.actorPosts = of.text[:0], of.posts[:0], of.actors[:0], of.actorPosts[:0]
	of.form = formKept
	r.pool.Put(of)
}
