package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pause"
)

const (
	// callTimeout is the deadline of a call whose context has none.
	callTimeout = 3 * time.Second

	// Commands that a server put off are retried for this long, with pauses that double. A
	// reader can fall back to the ledger; a writer of a window cannot.
	resendReadsFor   = 250 * time.Millisecond
	resendWritesFor  = time.Second
	resendPause      = 8 * time.Millisecond
	resendPauseLimit = 256 * time.Millisecond
	resendLimit      = 32 // maximum number of retries, for servers that answer at once
)

// withDeadline returns ctx if it has a deadline, otherwise a copy that ends after callTimeout.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// command is a command whose keys are strings of one page number, and so in one slot.
type command struct {
	page   uint32
	args   []any
	source string // of a script that args call by its name
	probe  bool   // it is tried once, whether the page's slot serves again
}

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
	args := make([]any, 0, 5+more)
	args = append(args, "evalsha", sc.sha, 2, s.key(id, "bits"), s.key(id, "regions"))
	return command{page: id.Number, args: args, source: sc.source}
}

// answer returns the three strings that a script answers.
func answer(cmd *redis.Cmd) (reply []string, err error) {
	if reply, err = cmd.StringSlice(); err == nil && len(reply) != 3 {
		err = fmt.Errorf("the script answered %q, not three strings", reply)
	}
	return reply, err
}

// send sends the commands in one pipeline and reports errors in the commands. kind names what they
// do: the backoff counts each kind for itself.
//
// Commands that were answered "not now" had no effect. send resends them, all in one pipeline, for
// a limited time or until ctx ends. The client's own retries are not enough:
//
//   - It resends commands that were answered "not now" only if the first command of a pipeline (in
//     a cluster, of a node's share) was. It then resends the whole pipeline, MaxRetries or
//     MaxRedirects times at most.
//   - It follows MOVED and ASK for each command, MaxRedirects times, and gives up on a slot whose
//     keys are partly on another node.
//
// A server forgets its scripts when it restarts or fails over, and each node of a cluster has its
// own. A call answered NOSCRIPT had no effect; send resends it with the source.
//
// If the connection fails, the client also resends commands that may have taken effect. Repeating
// them changes nothing.
//
// If the slot of a page puts commands off for longer, commands for the page fail at once with
// [ErrUnavailable] for a second. Then one command is sent, and callers do not wait for the slot.
func (s *Store) send(ctx context.Context, kind string, all []command) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(all))
	if len(cmds) == 0 {
		return cmds
	}
	pipe := s.client.Pipeline()
	for i, c := range all {
		works, err := s.backoff.ask(kind, c.page)
		if err != nil {
			cmds[i] = redis.NewCmd(ctx, c.args...) // never sent
			cmds[i].SetErr(err)
			continue
		}
		cmds[i] = pipe.Do(ctx, c.args...)
		all[i].probe = !works
	}
	access, patience := reads, resendReadsFor
	if kind == s.apply.name || kind == s.replace.name {
		access, patience = writes, resendWritesFor
	}
	exec(ctx, pipe, access)
	waits, end := 0, time.Now().Add(patience)
	for range resendLimit {
		again, wait := notNow(all, cmds)
		left := time.Until(end)
		if s.once || len(again) == 0 || wait && left <= 0 {
			break
		}
		if wait {
			waits++
			next := pause.About(pause.Doubled(resendPause, resendPauseLimit, waits))
			if !pause.Sleep(ctx, min(next, left)) {
				break
			}
		}
		for _, i := range again {
			args := all[i].args
			if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
				args = slices.Concat([]any{"eval", all[i].source}, args[2:])
			}
			cmds[i] = pipe.Do(ctx, args...)
		}
		exec(ctx, pipe, access)
	}
	for i, c := range all {
		s.backoff.note(kind, c.page, cmds[i].Err())
	}
	return cmds
}

// exec sends the commands of pipe, if any. Afterwards each command has a reply or an error, even if
// the server refused the sign-in. In that case the client itself sets neither, because the refusal
// is a reply.
func exec(ctx context.Context, pipe redis.Pipeliner, a access) {
	cmds, err := pipe.Exec(context.WithValue(ctx, accessKey{}, a))
	if err == nil {
		return
	}
	for _, cmd := range cmds {
		if c, ok := cmd.(*redis.Cmd); ok && c.Err() == nil && c.Val() == nil {
			c.SetErr(err)
		}
	}
}

// notNow returns the commands that had no effect but may succeed later. It reports whether to wait
// before the next try.
func notNow(all []command, cmds []*redis.Cmd) (again []int, wait bool) {
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil:
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			again = append(again, i)
		case isPutOff(err) && !all[i].probe:
			again = append(again, i)
			wait = true
		}
	}
	return again, wait
}
