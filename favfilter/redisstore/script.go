package redisstore

import (
	_ "embed"
	"fmt"

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
	return script{name, source, redis.NewScript(source).Hash()}
}

// run returns a command that runs the script with the two strings of a page, and room for more
// arguments.
func (s *Store) run(sc script, id favfilter.PageID, more int) command {
	args := append(make([]any, 0, 5+more), "evalsha", sc.sha, 2, s.key(id, "bits"), s.key(id, "regions"))
	return command{page: id.Number, args: args, source: sc.source}
}

// answer returns the three strings that a script answers.
func answer(cmd *redis.Cmd) (reply []string, err error) {
	if reply, err = cmd.StringSlice(); err == nil && len(reply) != 3 {
		err = fmt.Errorf("the script answered %q, not three strings", reply)
	}
	return reply, err
}
