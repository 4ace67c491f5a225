package redisstore

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Replace implements [favfilter.Store]. It runs one script.
func (s *Store) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	done, err := s.send(ctx, s.replace.name, []command{s.replaceCall(&r)})[0].Bool()
	if err != nil {
		return false, s.failed("replace", err, r.ID)
	}
	if done && r.Page != nil {
		s.learn(r.ID, r.Page.Header())
	}
	return done, nil
}

// replaceCall returns the script call for one replacement.
func (s *Store) replaceCall(r *favfilter.Replacement) command {
	raw, collisions := r.Encode()
	expire := (r.Expire + time.Millisecond - 1) / time.Millisecond
	c := s.run(s.replace, r.ID, 5)
	c.args = append(c.args, raw, collisions, string(r.Seen), r.Newer, int64(expire))
	return c
}
