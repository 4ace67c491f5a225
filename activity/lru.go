package activity

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// lru holds values up to a number of bytes; the least recently used go first. Not safe for concurrent
// use.
type lru[K comparable, V any] struct {
	most  int // bytes
	bytes int
	items *simplelru.LRU[K, sized[V]]
}

type sized[V any] struct {
	value V
	bytes int
}

func newLRU[K comparable, V any](most int) *lru[K, V] {
	items, _ := simplelru.NewLRU[K, sized[V]](math.MaxInt, nil) // fails for a size below 1 alone
	return &lru[K, V]{most: most, items: items}
}

// get returns what is held under the key.
func (l *lru[K, V]) get(key K) (value V, ok bool) { //nolint:ireturn // V is a struct or a pointer
	item, ok := l.items.Get(key)
	return item.value, ok
}

// put holds a value of so many bytes. The last one put stays, however large it is.
func (l *lru[K, V]) put(key K, value V, bytes int) {
	l.drop(key)
	l.items.Add(key, sized[V]{value, bytes})
	l.bytes += bytes
	for l.bytes > l.most && l.items.Len() > 1 {
		_, oldest, _ := l.items.RemoveOldest()
		l.bytes -= oldest.bytes
	}
}

// drop forgets what is held under the key.
func (l *lru[K, V]) drop(key K) {
	if item, ok := l.items.Peek(key); ok {
		l.items.Remove(key)
		l.bytes -= item.bytes
	}
}

func (l *lru[K, V]) clear() {
	l.items.Purge()
	l.bytes = 0
}
