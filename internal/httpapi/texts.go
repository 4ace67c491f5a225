package httpapi

import (
	"slices"
	"sync"
)

// texts are buffers for bodies and answers, which are used again.
type texts struct{ pool sync.Pool }

// get returns an empty buffer with room for n bytes.
func (t *texts) get(n int) *[]byte {
	b, ok := t.pool.Get().(*[]byte)
	if !ok {
		b = new([]byte)
	}
	*b = slices.Grow((*b)[:0], n)
	return b
}

// put takes back a buffer that nobody refers to any more.
func (t *texts) put(b *[]byte) { t.pool.Put(b) }
