package rest

import (
	"context"
	"errors"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// maxEvents is the number of events of a source that a request may have.
const maxEvents = 1000

// explainLength says in the error of a request that is too long what to do. The sender sends it
// again as it is, for ever.
func explainLength(handle wire.Handler) wire.Handler {
	return func(k *wire.Call) error {
		err := handle(k)
		bad, ok := errors.AsType[*activity.InvalidError](err)
		switch {
		case ok && bad.Code == wire.CodeTooLarge:
			bad.Message += ": leave out columns with debezium.source.column.include.list, or send fewer events"
		case ok && bad.Code == activity.CodeOutOfRange && bad.Field == "":
			bad.Message += ": send fewer events in a request"
		}
		return err
	}
}

// receive records events of a source.
func (a *api) receive(ctx context.Context, k *wire.Call, _ string, events follow.Events) (any, error) {
	name, err := wire.PathID(k, "name")
	if err != nil {
		return nil, err
	}
	r := a.operations.Events
	if r == nil || name != r.Name() {
		return nil, &wire.Problem{Code: wire.CodeNotFound, Message: "the service takes no events of such a source"}
	}
	k.Note("follow", "", "", "")
	if err := wire.TakeTime(k, DeleteTimeout+a.limits.Timeout); err != nil { // the end of a snapshot looks at each activity
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, DeleteTimeout)
	defer cancel()
	got, err := r.Receive(ctx, events)
	k.NoteChanged(got.Recorded)
	return got, err
}
