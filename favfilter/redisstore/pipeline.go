package redisstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// callTimeout is the deadline of a call whose context has none.
	callTimeout = 3 * time.Second

	// Commands that a server put off are retried for about this long, with pauses that double. A
	// reader can fall back to the ledger; a writer of a window cannot.
	resendReadsFor   = 250 * time.Millisecond
	resendWritesFor  = time.Second
	resendPause      = 8 * time.Millisecond
	resendPauseLimit = 256 * time.Millisecond
	resendLimit      = 32 // maximum number of retries, for servers that answer at once

	// unserved begins the reply for keys in a slot that no node serves. That state does not end by
	// itself.
	unserved = "CLUSTERDOWN Hash slot not served"
)

// withDeadline returns ctx if it has a deadline, otherwise a copy that ends after callTimeout.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// calls describes commands of one kind, one for each page.
type calls struct {
	kind   string // name of the kind, under which stuck notes the outcomes
	access access
	pages  []uint32 // page number of each command, whose keys are in one slot
}

// patience returns how long the commands are retried.
func (c *calls) patience() time.Duration {
	if c.access == writes {
		return resendWritesFor
	}
	return resendReadsFor
}

// pipelined sends a command for each page in one pipeline and reports errors in the commands. build
// queues the i-th command; last is the error of the previous attempt.
//
// Commands that were answered "not now" had no effect. pipelined resends them, all in one pipeline,
// for a limited time or until ctx ends. The client's own retries are not enough:
//
//   - It resends commands that were answered "not now" only if the first command of a pipeline (in
//     a cluster, of a node's share) was. It then resends the whole pipeline, MaxRetries or
//     MaxRedirects times at most.
//   - It follows MOVED and ASK for each command, MaxRedirects times, and gives up on a slot whose
//     keys are partly on another node.
//
// If the connection fails, the client also resends commands that may have taken effect. Repeating
// them changes nothing.
//
// If the slot of a page puts commands off for longer, commands for the page fail at once with
// [ErrUnavailable] for a second. Then one command is sent, and callers do not wait for the slot.
func pipelined[C redis.Cmder](
	ctx context.Context, s *Store, of calls, build func(pipe redis.Pipeliner, i int, last error) C,
) []C {
	cmds := make([]C, len(of.pages))
	if len(cmds) == 0 {
		return cmds
	}
	pipe := s.client.Pipeline()
	var hurried map[int]bool // commands that are not retried
	for i, page := range of.pages {
		first, err := s.stuck.ask(of.kind, page)
		if err == nil {
			cmds[i] = build(pipe, i, nil)
		} else {
			cmds[i] = build(s.client.Pipeline(), i, nil) // never sent
			cmds[i].SetErr(err)
		}
		if !first {
			if hurried == nil {
				hurried = make(map[int]bool)
			}
			hurried[i] = true
		}
	}
	exec(ctx, pipe, of.access)
	if !s.once {
		resend(ctx, of, cmds, hurried, func(again []int) {
			for _, i := range again {
				cmds[i] = build(pipe, i, cmds[i].Err())
			}
			exec(ctx, pipe, of.access)
		})
	}
	for i, page := range of.pages {
		s.stuck.note(of.kind, page, cmds[i].Err())
	}
	return cmds
}

// resend calls send with the commands to retry, until there are none.
func resend[C redis.Cmder](ctx context.Context, of calls, cmds []C, hurried map[int]bool, send func(again []int)) {
	pause := resendPause
	end := time.Now().Add(of.patience())
	for range resendLimit {
		again, wait := notNow(cmds, hurried)
		if len(again) == 0 || wait && (time.Now().After(end) || !sleep(ctx, &pause)) {
			return
		}
		send(again)
	}
}

// exec sends the commands of pipe, if any. Afterwards each command has a reply or an error, even if
// the server refused the sign-in. In that case the client itself sets neither, because the refusal
// is a reply.
func exec(ctx context.Context, pipe redis.Pipeliner, a access) {
	cmds, err := pipe.Exec(context.WithValue(ctx, callKey{}, &call{access: a}))
	if err == nil {
		return
	}
	for _, cmd := range cmds {
		if cmd.Err() == nil && !answered(cmd) {
			cmd.SetErr(err)
		}
	}
}

// answered reports whether cmd, which has no error, has a value. No script returns an empty reply,
// and no INFO section is empty.
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

// notNow returns the commands that had no effect but may succeed later. It reports whether to wait
// before the next try. It ignores hurried commands.
func notNow[C redis.Cmder](cmds []C, hurried map[int]bool) (again []int, wait bool) {
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil:
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			again = append(again, i)
		case putOff(err) && !hurried[i]:
			again = append(again, i)
			wait = true
		}
	}
	return again, wait
}

// putOff reports whether err is the reply of a server that cannot execute the command now. Its data
// is not loaded, it is not a primary, or the slot is moving to another node.
func putOff(err error) bool {
	for _, prefix := range [...]string{"LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "READONLY "} {
		if redis.HasErrorPrefix(err, prefix) {
			return !redis.HasErrorPrefix(err, unserved)
		}
	}
	return isBetween(err) || inScript(err, "READONLY ")
}

// isBetween reports whether err is the reply for keys whose slot is moving to another node.
func isBetween(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "TRYAGAIN ") ||
		redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK "))
}

// sleep pauses for half of *pause to all of it, and doubles *pause. It returns false, without a
// pause, if ctx would end first.
func sleep(ctx context.Context, pause *time.Duration) bool {
	d := *pause/2 + rand.N(*pause/2) //nolint:gosec // the pause may be predictable
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
