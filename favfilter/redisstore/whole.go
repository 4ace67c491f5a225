package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

// LoadWhole implements [favfilter.Store]. It sends one MGET for each page, all in one pipeline.
func (s *Store) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	cmds := s.readWhole(ctx, len(ids), func(n int) favfilter.PageID { return ids[n] })
	loaded := make([]favfilter.Loaded, len(ids))
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return nil, fmt.Errorf("load pages %v of filter %s whole from Redis: %w", some(ids), s.name, err)
		}
		loaded[i] = decodeWhole(ids[i], cmd.Val())
		if loaded[i].Damage != nil {
			loaded[i].Damage = fmt.Errorf("page %v of filter %s: %w", ids[i], s.name, loaded[i].Damage)
		} else if loaded[i].Page != nil {
			s.learn(ids[i], loaded[i].Page.Header())
		}
	}
	return loaded, nil
}

// readWhole reads both strings of n pages.
func (s *Store) readWhole(ctx context.Context, n int, id func(n int) favfilter.PageID) []*redis.SliceCmd {
	pages := make([]uint32, n)
	for i := range pages {
		pages[i] = id(i).Number
	}
	return pipelined(ctx, s, calls{"whole", reads, pages}, func(pipe redis.Pipeliner, i int, _ error) *redis.SliceCmd {
		bits, regions := s.keys(id(i))
		return pipe.MGet(ctx, bits, regions)
	})
}

// decodeWhole decodes a page from its two strings, or a value.
func decodeWhole(id favfilter.PageID, vals []any) favfilter.Loaded {
	raw, ok := vals[0].(string)
	if !ok {
		return favfilter.Loaded{}
	}
	collisions, _ := vals[1].(string) // if missing: "", which is damage if the page has regions
	return favfilter.Decode(id, []byte(raw), []byte(collisions))
}
