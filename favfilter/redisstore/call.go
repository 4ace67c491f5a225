package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// access is the way in which a command accesses pages.
type access uint8

const (
	reads access = iota
	writes
)

// call is one pipeline of a [Store]. The hooks of the nodes find it in the context.
type call struct {
	access access
	putOff sync.Map // first command of a node's share -> the *guard of the node that put it off
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
	by, _ := c.putOff.Load(cmds[0])
	return by == g
}

// note records that g put cmds off.
func (c *call) note(g *guard, cmds []redis.Cmder) {
	err := cmds[0].Err()
	if c != nil && (begins(err, "TRYAGAIN ") || isUnserved(err) || isRefusal(err)) {
		c.putOff.Store(cmds[0], g)
	}
}
