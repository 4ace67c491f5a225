package rest

import (
	"context"

	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi/core"
)

// maxEvents is the number of events of a source that a request may have.
const maxEvents = 1000

// receive records events of a source.
func (a *api) receive(ctx context.Context, k *core.Call, _ string, events follow.Events) (any, error) {
	name, err := core.PathID(k, "name")
	if err != nil {
		return nil, err
	}
	f := a.operations.Events
	if f == nil || name != f.Name {
		return nil, &core.Problem{Code: core.CodeNotFound, Message: "the service takes no events of such a source"}
	}
	k.Note("follow", "", "", "")
	if err := core.TakeTime(k, DeleteTimeout+a.limits.Timeout); err != nil { // the end of a snapshot looks at each activity
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, DeleteTimeout)
	defer cancel()
	got, err := f.Receive(ctx, events)
	k.NoteDeleted(got.Recorded)
	return got, err
}
