// Package lru holds values up to a number of bytes; the least recently used go first.
package lru

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache holds values by key. Its methods may be called concurrently.
type Cache[K comparable, V any] struct {
	most    int // bytes of all values
	largest int // bytes of one

	mu    sync.Mutex
	bytes int
	items *simplelru.LRU[K, sized[V]]
}

type sized[V any] struct {
	value V
	bytes int
}

// New returns a Cache of values of most bytes in all, none of them of more than largest bytes.
// Where largest is more than most, the value that was put last stays, however large it is.
func New[K comparable, V any](most, largest int) *Cache[K, V] {
	items, _ := simplelru.NewLRU[K, sized[V]](math.MaxInt, nil) // fails for a size below 1 alone
	return &Cache[K, V]{most: most, largest: largest, items: items}
}

// Get returns what is held under the key.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) { //nolint:ireturn // V is a struct or a pointer
	c.mu.Lock()
	defer c.mu.Unlock()
	item, ok := c.items.Get(key)
	return item.value, ok
}

// Put holds a value of so many bytes, in place of the one before it.
func (c *Cache[K, V]) Put(key K, value V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
	if bytes > c.largest {
		return
	}
	c.items.Add(key, sized[V]{value, bytes})
	c.bytes += bytes
	for c.bytes > c.most && c.items.Len() > 1 {
		_, oldest, _ := c.items.RemoveOldest()
		c.bytes -= oldest.bytes
	}
}

// Drop forgets what is held under the key.
func (c *Cache[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

func (c *Cache[K, V]) drop(key K) {
	if item, ok := c.items.Peek(key); ok {
		c.items.Remove(key)
		c.bytes -= item.bytes
	}
}

// Clear forgets all values.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items.Purge()
	c.bytes = 0
}

// Size returns how many values are held, and how many bytes they take.
func (c *Cache[K, V]) Size() (values, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.items.Len(), c.bytes
}
