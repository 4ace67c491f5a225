package httpapi

import (
	"io"
	"slices"
	"sync"

	"github.com/feedfilter/feedfilter/feed"
)

// room holds the memory of one request about a feed or a fan-out: the parsed lists, and for JSON
// the body and later the answer of a feed.
type room struct {
	text   []byte
	posts  []feed.Post
	actors []string // of all posts; each post has a part of the list

	// Of a Protobuf message: the index of each actor's post, and each actor's role.
	actorPosts []uint32
	actorRoles []string

	viewers []string // of a fan-out

	form answerForm // the form that the JSON body asks for
}

// read reads a body of that many bytes into the text. It takes no more memory than twice what has
// arrived, or a first part.
func (r *room) read(body io.Reader, length int) error {
	const first = 64 << 10
	for len(r.text) < length {
		n := len(r.text)
		r.text = slices.Grow(r.text, min(length-n, max(n, first)))
		got, err := io.ReadAtLeast(body, r.text[n:min(cap(r.text), length)], 1)
		if r.text = r.text[:n+got]; err != nil {
			return err
		}
	}
	return nil
}

// rooms is a pool of rooms. Most memory of a feed request is free again after its answer.
type rooms struct{ pool sync.Pool }

func (r *rooms) get() *room {
	if of, ok := r.pool.Get().(*room); ok {
		return of
	}
	return newRoom()
}

// newRoom returns a room with empty lists. They are not nil, because nil means that the field is
// missing.
func newRoom() *room { return &room{posts: []feed.Post{}, actors: []string{}, viewers: []string{}} }

// put returns a room to the pool. No request may use it any more.
func (r *rooms) put(of *room) {
	if cap(of.actors) > feed.MaxPosts { // drop an unusually large list
		of.actors, of.actorRoles = []string{}, nil
	}
	// A string that stays in a list would keep its whole body from the garbage collector.
	clear(of.posts)
	clear(of.actors)
	clear(of.actorRoles)
	clear(of.viewers)
	of.text, of.posts, of.actors, of.viewers = of.text[:0], of.posts[:0], of.actors[:0], of.viewers[:0]
	of.actorPosts, of.actorRoles = of.actorPosts[:0], of.actorRoles[:0]
	of.form = formKept
	r.pool.Put(of)
}
