// Package lru caches values up to a number of bytes, and evicts the least recently used first.
package lru

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache maps keys to values. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	most    int // maximum of all values together, in bytes
	largest int // maximum of one value, in bytes

	mu    sync.Mutex
	bytes int
	items *simplelru.LRU[K, sized[V]]
}

type sized[V any] struct {
	value V
	bytes int
}

// New returns a Cache of up to most bytes in all. It ignores values of more than largest bytes.
// If largest exceeds most, the Cache keeps the value stored last, even if it is larger than most.
func New[K comparable, V any](most, largest int) *Cache[K, V] {
	c := &Cache[K, V]{most: most, largest: largest}
	evicted := func(_ K, item sized[V]) { c.bytes -= item.bytes }
	c.items, _ = simplelru.NewLRU(math.MaxInt, evicted) // fails only for a size below 1
	return c
}

// Get returns the value of the key.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) { //nolint:ireturn // V is a struct or a pointer
	c.mu.Lock()
	defer c.mu.Unlock()
	item, ok := c.items.Get(key)
	return item.value, ok
}

// Put stores a value of that many bytes, and replaces an earlier one. If the value is too large,
// Put only removes the earlier one.
func (c *Cache[K, V]) Put(key K, value V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items.Remove(key)
	if bytes > c.largest {
		return
	}
	c.items.Add(key, sized[V]{value, bytes})
	c.bytes += bytes
	for c.bytes > c.most && c.items.Len() > 1 {
		c.items.RemoveOldest()
	}
}

// Drop removes the value of the key.
func (c *Cache[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items.Remove(key)
}

// Size returns the number of values, and their total size in bytes.
func (c *Cache[K, V]) Size() (values, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.items.Len(), c.bytes
}
