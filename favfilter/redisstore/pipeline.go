package redisstore

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// callTimeout is the deadline of a call whose context has none.
	callTimeout = 3 * time.Second

	// Commands that a server put off are sent again for about so long, with pauses that
	// double.
	resendFor        = time.Second
	resendPause      = 8 * time.Millisecond
	resendPauseLimit = 256 * time.Millisecond
	resendLimit      = 32 // times, for servers that answer at once
)

// withDeadline returns a context that ends some time.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// pipelined sends n commands in one pipeline and reports errors in the commands.
// build queues the i-th; last is the error that it got when it was sent before.
//
// Commands that were answered "not now" have had no effect. They are sent again, all in
// one pipeline, for a second or until ctx ends. The client itself does that only if the
// first command of a pipeline (in a cluster, of a node's share) was answered so, and then
// with the whole of it; MaxRetries or MaxRedirects times at most. It follows MOVED and
// ASK for each command, MaxRedirects times, and gives up on a slot whose keys are
// half-way to another node. It also repeats what may have taken effect, when the
// connection fails: a repetition changes nothing.
func pipelined[C redis.Cmder](
	ctx context.Context, s *Store, n int, build func(pipe redis.Pipeliner, i int, last error) C,
) []C {
	cmds := make([]C, n)
	if n == 0 {
		return cmds
	}
	pipe := s.client.Pipeline()
	for i := range cmds {
		cmds[i] = build(pipe, i, nil)
	}
	exec(ctx, pipe)
	if s.once {
		return cmds
	}

	pause := resendPause
	end := time.Now().Add(resendFor)
	for range resendLimit {
		again, wait := notNow(cmds)
		if len(again) == 0 || wait && (time.Now().After(end) || !sleep(ctx, &pause)) {
			break
		}
		for _, i := range again {
			cmds[i] = build(pipe, i, cmds[i].Err())
		}
		exec(ctx, pipe)
	}
	return cmds
}

// exec sends what pipe has. Each command has its own error then, or an answer: also where no connection could be had
// because the server refused the sign-in. The client leaves commands without either, as that error is a reply.
func exec(ctx context.Context, pipe redis.Pipeliner) {
	cmds, err := pipe.Exec(ctx)
	if err == nil {
		return
	}
	for _, cmd := range cmds {
		if cmd.Err() == nil && !answered(cmd) {
			cmd.SetErr(err)
		}
	}
}

// answered tells whether cmd, which has no error, has a value. No script returns nothing, and no section is empty.
func answered(cmd redis.Cmder) bool {
	switch c := cmd.(type) {
	case *redis.SliceCmd:
		return c.Val() != nil
	case *redis.StringCmd:
		return c.Val() != ""
	case *redis.Cmd:
		return c.Val() != nil
	default:
		return true
	}
}

// notNow returns the commands that have had no effect but may have one later, and
// whether it is of use to wait until then.
func notNow[C redis.Cmder](cmds []C) (again []int, wait bool) {
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil:
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			again = append(again, i)
		case putOff(err):
			again = append(again, i)
			wait = true
		}
	}
	return again, wait
}

// putOff tells whether err is the answer of a server that cannot take the command now:
// its data is not loaded, it is no primary, or the slot is on its way to another node.
func putOff(err error) bool {
	for _, prefix := range [...]string{"TRYAGAIN ", "LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "READONLY ", "MOVED ", "ASK "} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	// Of the first write in a script, before version 7.
	return isReply(err) && strings.Contains(err.Error(), "-READONLY You can't write against a read only replica")
}

// sleep pauses for between half of and all of *pause, which doubles. It reports whether
// there is time left: a pause that would outlast ctx is not begun.
func sleep(ctx context.Context, pause *time.Duration) bool {
	d := *pause/2 + rand.N(*pause/2) //nolint:gosec // a predictable pause is one too
	*pause = min(2**pause, resendPauseLimit)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
