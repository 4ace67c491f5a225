package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name Redis gives a script, no secret
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

//go:embed apply.lua
var applySource string

//go:embed replace.lua
var replaceSource string

// script is a Lua script and the name by which the server knows it.
type script struct {
	name   string
	access access
	source string
	sha    string
}

func newScript(name string, a access, source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return script{name, a, source, hex.EncodeToString(sum[:])}
}

// invocation is one call of a script with the two strings of a page.
type invocation struct {
	id   favfilter.PageID
	args []any
}

// run calls a script once for each page, all in one pipeline, and reports errors in the commands. A
// server forgets its scripts when it restarts or fails over, and each node of a cluster has its
// own. A call answered NOSCRIPT had no effect; run resends it with the source.
func (s *Store) run(ctx context.Context, sc script, invocations []invocation) []*redis.Cmd {
	pages := make([]uint32, len(invocations))
	for i := range invocations {
		pages[i] = invocations[i].id.Number
	}
	return pipelined(ctx, s, calls{sc.name, sc.access, pages}, func(pipe redis.Pipeliner, i int, last error) *redis.Cmd {
		bits, regions := s.keys(invocations[i].id)
		if redis.HasErrorPrefix(last, "NOSCRIPT") {
			return pipe.Eval(ctx, sc.source, []string{bits, regions}, invocations[i].args...)
		}
		return pipe.EvalSha(ctx, sc.sha, []string{bits, regions}, invocations[i].args...)
	})
}
