package migrate

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
)

// Records are a source that is read once, such as an export of a SQL table: activities of one user
// after another.
type Records struct {
	// Next returns the next activity that there is; not ok: that was all.
	Next func() (m Member, ok bool, err error)
}

// Reversed implements [Source].
func (*Records) Reversed() bool { return false }

// Has implements [Source]: nobody knows.
func (*Records) Has(context.Context, []Pair) ([]bool, error) { return nil, nil }

// Groups implements [Source], with one group after another. It holds what one user has, and 8 bytes
// for each user. The activities of a user have to follow each other.
func (r *Records) Groups(ctx context.Context, each func(Group) error) error {
	seed, seen := maphash.MakeSeed(), make(map[uint64]struct{})
	var group []Member
	end := func() error {
		if len(group) == 0 {
			return nil
		}
		owner, members := group[0].User, group
		hash := maphash.String(seed, owner)
		if _, again := seen[hash]; again {
			return fmt.Errorf("the activities of user %q do not follow each other: sort them by user", owner)
		}
		seen[hash], group = struct{}{}, nil
		return each(Group{Owner: owner, Members: func(some func([]Member) error) error {
			for chunk := range slices.Chunk(members, batchSize) {
				if err := some(chunk); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	for {
		m, ok, err := r.Next()
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil && (!ok || len(group) > 0 && group[0].User != m.User) {
			err = end()
		}
		if err != nil || !ok {
			return err
		}
		group = append(group, m)
	}
}
