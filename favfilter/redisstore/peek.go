package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Peek implements [favfilter.Store]. It runs one script for each page, all in one pipeline.
func (s *Store) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	calls := make([]command, len(ids))
	for i, id := range ids {
		calls[i] = s.run(s.peek, id, 0)
	}
	statuses := make([]favfilter.Status, len(ids))
	var failure error
	failed := 0
	for i, cmd := range s.send(ctx, s.peek.name, calls) {
		st, err := statusOf(cmd)
		if err != nil {
			failed, failure = failed+1, err
			st.Err = s.failed("peek at", err, ids[i])
		}
		if st.Damage != nil {
			st.Damage = fmt.Errorf("page %v of filter %s: %w", ids[i], s.name, st.Damage)
		}
		statuses[i] = st
	}
	if failed > 0 && failed == len(ids) {
		return nil, s.failed("peek at", failure, ids...)
	}
	return statuses, nil
}

// statusOf decodes the reply of peek.lua.
func statusOf(cmd *redis.Cmd) (favfilter.Status, error) {
	reply, err := answer(cmd)
	if err != nil {
		return favfilter.Status{}, err
	}
	var n [3]uint32
	if _, err := binary.Decode([]byte(reply[2]), binary.BigEndian, &n); err != nil {
		return favfilter.Status{}, fmt.Errorf("the script answered the numbers %x: %w", reply[2], err)
	}
	return favfilter.Stored{
		Header: []byte(reply[0]), Build: []byte(reply[1]), BitsLength: int(n[0]), RegionsLength: int(n[1]), Collided: int(n[2]),
	}.Status(), nil
}
