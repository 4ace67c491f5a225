package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Replace implements [favfilter.Store]. It runs one script.
func (s *Store) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	done, err := s.run(ctx, s.replace, []invocation{replaceCall(&r)})[0].Bool()
	if err != nil {
		return false, s.failed("replace", r.ID, err)
	}
	if done && r.Page != nil {
		s.learn(r.ID, r.Page.Header())
	}
	return done, nil
}

// replaceCall returns the script call for one replacement.
func replaceCall(r *favfilter.Replacement) invocation {
	raw, collisions := r.Encode()
	newer := "0"
	if r.Newer {
		newer = "1"
	}
	expire := "-1"
	if r.Expire >= 0 {
		expire = strconv.FormatInt(int64((r.Expire+time.Millisecond-1)/time.Millisecond), 10)
	}
	return invocation{id: r.ID, args: []any{raw, collisions, string(r.Seen), newer, expire}}
}
