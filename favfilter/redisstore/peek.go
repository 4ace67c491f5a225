package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

//go:embed peek.lua
var peekSource string

// Peek implements [favfilter.Store]. It runs one script for each page, all in one pipeline.
func (s *Store) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	calls := make([]invocation, len(ids))
	for i, id := range ids {
		calls[i].id = id
	}
	statuses := make([]favfilter.Status, len(ids))
	var errs []error
	for i, cmd := range s.run(ctx, s.peek, calls) {
		statuses[i] = statusOf(cmd)
		if err := statuses[i].Err; err != nil {
			statuses[i].Err = fmt.Errorf("peek at page %v of filter %s in Redis: %w", ids[i], s.name, err)
			errs = append(errs, err)
		}
		if statuses[i].Damage != nil {
			statuses[i].Damage = fmt.Errorf("page %v of filter %s: %w", ids[i], s.name, statuses[i].Damage)
		}
	}
	if len(errs) > 0 && len(errs) == len(ids) {
		return nil, fmt.Errorf("peek at pages %v of filter %s in Redis: %w", some(ids), s.name, errs[0])
	}
	return statuses, nil
}

var errPeek = errors.New("the script answered no header, build, lengths and count")

// statusOf decodes the reply of peek.lua.
func statusOf(cmd *redis.Cmd) favfilter.Status {
	vals, err := cmd.Slice()
	switch {
	case err != nil:
		return favfilter.Status{Err: err}
	case len(vals) != 5:
		return favfilter.Status{Err: errPeek}
	}
	header, a := vals[0].(string)
	bitsLength, b := vals[1].(int64)
	build, c := vals[2].(string)
	regionsLength, d := vals[3].(int64)
	collided, e := vals[4].(int64)
	if !a || !b || !c || !d || !e {
		return favfilter.Status{Err: errPeek}
	}
	return favfilter.Stored{
		Header: []byte(header), BitsLength: int(bitsLength),
		Build: []byte(build), RegionsLength: int(regionsLength), Collided: int(collided),
	}.Status()
}
