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

	// Commands that a server put off are sent again for about so long, with pauses that
	// double. Who reads has the ledger to turn to, who writes to a window has not.
	resendReadsFor   = 250 * time.Millisecond
	resendWritesFor  = time.Second
	resendPause      = 8 * time.Millisecond
	resendPauseLimit = 256 * time.Millisecond
	resendLimit      = 32 // times, for servers that answer at once

	// unserved begins the answer for keys in a slot that no node serves. That is no passing state.
	unserved = "CLUSTERDOWN Hash slot not served"
)

// withDeadline returns a context that ends some time.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// calls are commands for pages, all of one kind.
type calls struct {
	kind   string // what they do, for the notes of what is put off
	access access
	pages  []uint32 // the page of each, by number: its keys are in one slot
}

// patience is how long commands are sent again.
func (c *calls) patience() time.Duration {
	if c.access == writes {
		return resendWritesFor
	}
	return resendReadsFor
}

// pipelined sends a command for each page in one pipeline and reports errors in the commands.
// build queues the i-th; last is the error that it got when it was sent before.
//
// Commands that were answered "not now" have had no effect. They are sent again, all in
// one pipeline, for a while or until ctx ends. The client itself does that only if the
// first command of a pipeline (in a cluster, of a node's share) was answered so, and then
// with the whole of it; MaxRetries or MaxRedirects times at most. It follows MOVED and
// ASK for each command, MaxRedirects times, and gives up on a slot whose keys are
// half-way to another node. It also repeats what may have taken effect, when the
// connection fails: a repetition changes nothing.
//
// Where the slot of a page puts commands off for longer, they fail at once with [ErrUnavailable]
// for a second; then one is sent, and nobody waits for the slot.
func pipelined[C redis.Cmder](
	ctx context.Context, s *Store, of calls, build func(pipe redis.Pipeliner, i int, last error) C,
) []C {
	cmds := make([]C, len(of.pages))
	if len(cmds) == 0 {
		return cmds
	}
	pipe, unsent := s.client.Pipeline(), s.client.Pipeline()
	var hurried map[int]bool // commands that are not sent again
	for i, page := range of.pages {
		first, err := s.stuck.ask(of.kind, page)
		if err == nil {
			cmds[i] = build(pipe, i, nil)
		} else {
			cmds[i] = build(unsent, i, nil)
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

// resend calls send with commands that are to be sent again, as long as there are any.
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

// exec sends what pipe has, if anything. Each command then has an error of its own or an answer,
// even if the server refused the sign-in: that error is a reply, and the client leaves the commands
// with neither.
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
// whether it is of use to wait until then. Those that are hurried are not waited for.
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

// putOff reports whether err is the answer of a server that cannot take the command now:
// its data is not loaded, it is no primary, or the slot is on its way to another node.
func putOff(err error) bool {
	for _, prefix := range [...]string{"LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "READONLY "} {
		if redis.HasErrorPrefix(err, prefix) {
			return !redis.HasErrorPrefix(err, unserved)
		}
	}
	return isBetween(err) || inScript(err, "READONLY ")
}

// isBetween reports whether err is the answer for keys whose slot is on its way to another node.
func isBetween(err error) bool {
	return redis.HasErrorPrefix(err, "TRYAGAIN ") ||
		redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")
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
