package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/favfilter"
)

// swapRounds bounds the tries of a compare-and-swap. Each lost try means that
// another writer succeeded.
const swapRounds = 64

var errNoProgress = errors.New("other writers changed the page each time")

// swap applies a batch here and puts the changed page in place of the one it read:
// two round trips, however many keys.
func (s *Store) swap(ctx context.Context, b favfilter.Batch) favfilter.Result {
	for range swapRounds {
		res, done, err := s.trySwap(ctx, b)
		switch {
		case err != nil:
			return favfilter.Result{Err: err}
		case done:
			return res
		}
	}
	return favfilter.Result{Err: fmt.Errorf("swap page %d%s of filter %s in Redis: %w", b.ID.Number, b.ID.Part, s.name, errNoProgress)}
}

func (s *Store) trySwap(ctx context.Context, b favfilter.Batch) (res favfilter.Result, done bool, err error) {
	bits, regions := s.keys(b.ID)
	vals, err := s.client.MGet(ctx, bits, regions).Result()
	if err != nil {
		return res, false, fmt.Errorf("read page %d%s of filter %s from Redis: %w", b.ID.Number, b.ID.Part, s.name, err)
	}
	raw, ok := vals[0].(string)
	if !ok {
		return favfilter.Result{State: favfilter.Missing}, true, nil
	}
	var marks []byte
	if m, ok := vals[1].(string); ok {
		marks = []byte(m)
	}
	seen := versionOf(raw)
	page, err := favfilter.DecodePage([]byte(raw), marks)
	if err != nil {
		return favfilter.Result{State: favfilter.Torn, Version: seen}, true, nil //nolint:nilerr // damage is a state, not a failure
	}
	res = page.Apply(b)
	if res.State != favfilter.Applied || res.Version == seen {
		return res, true, nil
	}
	expire := favfilter.KeepExpiry
	if b.Sequence > 0 {
		expire = 0 // only an empty page has a time to live
	}
	done, err = s.Replace(ctx, favfilter.Replacement{ID: b.ID, Page: page, Seen: seen, Expire: expire})
	return res, done, err
}
