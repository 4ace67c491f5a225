package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// access is the way in which a command accesses pages.
type access uint8

const (
	neither access = iota // the outcome tells nothing about reads or writes
	reads
	writes
)

// call is one pipeline of a [Store]. The hooks of the nodes find it in the context.
type call struct {
	access access

	mu     sync.Mutex
	putOff map[redis.Cmder]*guard // first command of a node's share -> the node that put it off
}

type callKey struct{}

// callOf returns the call in ctx, or nil if ctx is not from a [Store].
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// repeats reports whether the client is resending cmds to g by itself after g put them off. A
// cluster client does so for half a second, beside the retries of a [Store].
func (c *call) repeats(g *guard, cmds []redis.Cmder) bool {
	if c == nil || cmds[0].Err() == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.putOff[cmds[0]] == g
}

// note records that g put cmds off.
func (c *call) note(g *guard, cmds []redis.Cmder) {
	err := cmds[0].Err()
	if c == nil || err == nil {
		return
	}
	ofSlot := redis.HasErrorPrefix(err, "TRYAGAIN ") || redis.HasErrorPrefix(err, unserved)
	if !ofSlot && !isRefusal(err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.putOff == nil {
		c.putOff = make(map[redis.Cmder]*guard)
	}
	c.putOff[cmds[0]] = g
}
