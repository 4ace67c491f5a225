package migrate

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// File is a source that can be read once: the activities of a kind in a file, such as an export of
// a SQL table, sorted by user.
type File struct {
	Lines *activityfile.Reader
	Kind  string
}

// Has implements [Source]. It returns nil.
func (*File) Has(context.Context, []Pair) ([]bool, error) { return nil, nil }

// Groups implements [Source], with one group after another. It holds the activities of one user in
// memory, and 8 bytes for each user. It fails unless all activities of a user follow each other.
func (f *File) Groups(ctx context.Context, each func(Group) error) error {
	seed, seen := maphash.MakeSeed(), make(map[uint64]bool)
	var group []Member
	for end := false; !end; {
		a, err := f.Lines.Peek()
		end = errors.Is(err, io.EOF)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !end:
			return err
		case a.Remove:
			return fmt.Errorf("line %d: op remove is not allowed in a comparison", f.Lines.Position().Line)
		case !end:
			f.Lines.Accept()
		}
		if !end && a.Kind != f.Kind {
			continue
		}
		if len(group) > 0 && a.User != group[0].User { // also at the end
			hash, members := maphash.String(seed, group[0].User), group
			if seen[hash] {
				return fmt.Errorf("user %q appears in two places: sort the activities by user", members[0].User)
			}
			all := func(yield func([]Member, error) bool) { yield(members, nil) }
			if err := each(Group{Owner: members[0].User, Members: all}); err != nil {
				return err
			}
			seen[hash], group = true, nil
		}
		group = append(group, Member{Pair: Pair{a.User, a.Target}})
	}
	return nil
}
