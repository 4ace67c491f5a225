package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name Redis gives a script, no secret
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

var (
	//go:embed apply.lua
	applySource string
	//go:embed replace.lua
	replaceSource string
	//go:embed peek.lua
	peekSource string
)

// script is a Lua script and the name by which the server knows it.
type script struct{ name, source, sha string }

func newScript(name, source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return script{name, source, hex.EncodeToString(sum[:])}
}

// invocation is one call of a script with the two strings of a page.
type invocation struct {
	id   favfilter.PageID
	args []any
}

// run calls a script once for each page, all in one pipeline, and reports errors in the commands.
func (s *Store) run(ctx context.Context, sc script, invocations []invocation) []*redis.Cmd {
	all := make([]command, len(invocations))
	for i, in := range invocations {
		bits, regions := s.keys(in.id)
		args := append(make([]any, 0, 5+len(in.args)), "evalsha", sc.sha, 2, bits, regions)
		all[i] = command{page: in.id.Number, args: append(args, in.args...), source: sc.source}
	}
	return s.send(ctx, sc.name, all)
}
