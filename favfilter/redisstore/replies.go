package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// isReply reports whether err is a reply of a server.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// isFailure reports whether err is a failure of the node, as opposed to an answer.
func isFailure(err error) bool {
	return err != nil &&
		(!isReplyItself(err) || begins(err, "WRONGPASS ", "NOAUTH ", "max number of clients "))
}

// isReplyItself reports whether err is one reply of the node, and not an error that joins several
// replies. If no Sentinel knows the primary, the error wraps the replies of all Sentinels.
func isReplyItself(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if _, ok := err.(redis.Error); ok { //nolint:errorlint // errors.As looks into joined errors
			return true
		}
	}
	return false
}

// isRefusal reports whether a node answers every command of the same kind with err while its state
// lasts, and whether clients resend commands after err.
func isRefusal(err error) bool {
	return begins(err, "LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "READONLY ", "NOREPLICAS ") &&
		!isUnserved(err)
}

// isUnserved reports whether err is the reply for keys in a slot that no node serves. That state
// does not end by itself. The node serves other slots.
func isUnserved(err error) bool { return begins(err, "CLUSTERDOWN Hash slot not served") }

// isBetween reports whether err is the reply for keys whose slot is moving to another node.
func isBetween(err error) bool { return begins(err, "TRYAGAIN ", "MOVED ", "ASK ") }

// isPutOff reports whether err is the reply of a server that cannot execute the command now. Its
// data is not loaded, it is not a primary, or the slot is moving to another node.
func isPutOff(err error) bool {
	return isBetween(err) || isRefusal(err) && !begins(err, "NOREPLICAS ")
}

// begins reports whether err is a reply that begins with one of the prefixes. Servers before
// version 7 wrap the replies to commands in a script.
func begins(err error, prefixes ...string) bool {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	text := strings.TrimPrefix(reply.Error(), "ERR ")
	if script, found := strings.CutPrefix(text, "Error running script "); found {
		_, text, _ = strings.Cut(script, ": -")
	}
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return strings.HasPrefix(text, prefix)
	})
}

// saysNothing reports whether err leaves it open whether the node works.
func saysNothing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}
