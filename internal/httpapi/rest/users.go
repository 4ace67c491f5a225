package rest

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// DeleteTimeout is how long the deletion of a user may take. A user whom hundreds of thousands of
// others have blocked is on every page, and each page must be rebuilt.
const DeleteTimeout = 5 * time.Minute

type previewRequest struct {
	Kind    string   `json:"kind"`
	Targets []string `json:"targets"`
}

// previewAnswer has the fields of an [activity.Preview].
type previewAnswer struct {
	New     int     `json:"new"`
	Present int     `json:"present"`
	Total   int     `json:"total"`
	Limit   *uint32 `json:"limit"` // null: no limit
	Over    bool    `json:"over"`
}

// preview answers what recording some activities would change.
func (a *api) preview(ctx context.Context, k *wire.Call, user string, req previewRequest) (any, error) {
	switch {
	case req.Kind == "":
		return nil, wire.Refuse(wire.CodeMissingField, "kind", "the kind is empty or missing")
	case req.Targets == nil:
		return nil, wire.Refuse(wire.CodeMissingField, "targets", "the field is missing")
	}
	k.Note("preview", "", user, "")
	ctx, cancel := a.limits.Bound(ctx)
	defer cancel()
	p, err := a.recorder.Preview(ctx, user, req.Kind, req.Targets)
	if err != nil {
		return nil, err
	}
	answer := previewAnswer{New: p.New, Present: p.Present, Total: p.Total, Over: p.Over}
	if p.Limit > 0 {
		answer.Limit = &p.Limit
	}
	return answer, nil
}

type userAnswer struct {
	Counts map[string]int `json:"counts"` // of activities, by kind
}

// user answers with the number of activities of a user, by kind.
func (a *api) user(ctx context.Context, k *wire.Call, user string) (any, error) {
	counts, err := a.operations.Counts(ctx, k, user)
	return userAnswer{counts}, err
}

type deleteAnswer struct {
	Deleted int      `json:"deleted"`       // activities, both of the user and about the user
	Left    []string `json:"left,omitzero"` // kinds that a source alone writes
}

// deleteUser removes every trace of a user. It may take up to DeleteTimeout, whatever the timeouts
// of the service and its server. It ends when the client leaves; what it has removed stays removed.
// After an error, a timeout or a broken connection, the client repeats the request until it is
// answered 200. That answer counts only what the last attempt removed.
func (a *api) deleteUser(ctx context.Context, k *wire.Call, user string) (any, error) {
	k.Note("delete_user", "", user, "")
	if err := wire.TakeTime(k, DeleteTimeout+a.limits.Timeout); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, DeleteTimeout)
	defer cancel()
	deleted, left, err := a.recorder.DeleteUser(ctx, user)
	if err != nil {
		return nil, err
	}
	k.NoteChanged(deleted)
	return deleteAnswer{deleted, left}, nil
}
