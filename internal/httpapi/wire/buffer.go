package wire

import (
	"io"
	"slices"
	"sync"

	"github.com/feedfilter/feedfilter/feed"
)

// Buffer holds the memory of one request about a feed or a fan-out: the parsed lists, and for JSON
// the body and later the answer of a feed.
type Buffer struct {
	Text   []byte
	Posts  []feed.Post
	Actors []string // of all posts; each post has a part of the list

	ActorRoles []string // of all actors of a Protobuf message

	Viewers []string // of a fan-out

	DroppedOnly bool // the JSON body asks for an answer without the kept posts
}

// Read reads a body of that many bytes into the text. It takes no more memory than twice what has
// arrived, or a first part.
func (b *Buffer) Read(body io.Reader, length int) error {
	const first = 64 << 10
	for len(b.Text) < length {
		n := len(b.Text)
		b.Text = slices.Grow(b.Text, min(length-n, max(n, first)))
		got, err := io.ReadAtLeast(body, b.Text[n:min(cap(b.Text), length)], 1)
		if b.Text = b.Text[:n+got]; err != nil {
			return err
		}
	}
	return nil
}

// Buffers is a pool of buffers. Most memory of a feed request is free again after its answer.
type Buffers struct{ pool sync.Pool }

// Get returns an empty buffer.
func (p *Buffers) Get() *Buffer {
	if b, ok := p.pool.Get().(*Buffer); ok {
		return b
	}
	return NewBuffer()
}

// NewBuffer returns a buffer with empty lists. They are not nil, because nil means that the field
// is missing.
func NewBuffer() *Buffer {
	return &Buffer{Posts: []feed.Post{}, Actors: []string{}, Viewers: []string{}}
}

// Put returns a buffer to the pool. No request may use it any more.
func (p *Buffers) Put(b *Buffer) {
	if cap(b.Actors) > feed.MaxPosts { // drop an unusually large list
		b.Actors, b.ActorRoles = []string{}, nil
	}
	// A string that stays in a list would keep its whole body from the garbage collector.
	clear(b.Posts)
	b.Text, b.Posts = b.Text[:0], b.Posts[:0]
	for _, list := range []*[]string{&b.Actors, &b.Viewers, &b.ActorRoles} {
		clear(*list)
		*list = (*list)[:0]
	}
	b.DroppedOnly = false
	p.pool.Put(b)
}
