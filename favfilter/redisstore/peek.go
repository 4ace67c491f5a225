package redisstore

import (
	"context"
	"errors"
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
	values, err := cmd.Slice()
	if err != nil {
		return favfilter.Status{}, err
	}
	var texts []string
	var numbers []int
	for _, value := range values {
		switch v := value.(type) {
		case string:
			texts = append(texts, v)
		case int64:
			numbers = append(numbers, int(v))
		}
	}
	if len(texts) != 2 || len(numbers) != 3 {
		return favfilter.Status{}, errors.New("the script answered no header, build, lengths and count")
	}
	return favfilter.Stored{
		Header: []byte(texts[0]), BitsLength: numbers[0],
		Build: []byte(texts[1]), RegionsLength: numbers[1], Collided: numbers[2],
	}.Status(), nil
}
