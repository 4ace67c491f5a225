package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// access is what a command does with pages.
type access uint8

const (
	neither access = iota // its outcome tells nothing about commands that do
	reads
	writes
)

// call is one pipeline of a [Store]. The hooks of nodes find it in the context.
type call struct {
	access access

	mu     sync.Mutex
	putOff map[redis.Cmder]*guard // the node that put the command off; it is the first of its share
}

type callKey struct{}

// callOf returns the call that ctx is of, nil if a [Store] did not make it.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// repeats reports whether the client sends cmds, which g put off, to g again by itself. A cluster
// client goes on with that for half a second, beside what a [Store] does.
func (c *call) repeats(g *guard, cmds []redis.Cmder) bool {
	if c == nil || cmds[0].Err() == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.putOff[cmds[0]] == g
}

// note notes that g put cmds off.
func (c *call) note(g *guard, cmds []redis.Cmder) {
	err := cmds[0].Err()
	ofSlot := redis.HasErrorPrefix(err, "TRYAGAIN ") || redis.HasErrorPrefix(err, unserved)
	if c == nil || !ofSlot && !isRefusal(err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.putOff == nil {
		c.putOff = make(map[redis.Cmder]*guard)
	}
	c.putOff[cmds[0]] = g
}
