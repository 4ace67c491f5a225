package rest

import (
	"context"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

type batchRequest struct {
	Activities []batchLine `json:"activities"`
}

type batchAnswer struct {
	Results []operations.Result `json:"results"` // one for each line, in order
}

// batch answers a POST of many activities, as JSON or NDJSON. It checks a whole JSON batch before
// it records anything.
func (a *api) batch(k *wire.Call) error {
	if _, err := wire.Query(k); err != nil {
		return err
	}
	media, err := wire.MediaType(k.Request(), wire.TypeJSON, wire.TypeNDJSON)
	switch {
	case err != nil:
		return err
	case media == wire.TypeNDJSON:
		return a.limits.Stream(k, func() error { return a.stream(k) })
	}
	return limits.Requested(a.limits, a.strict, a.recordBatch)(k)
}

func (a *api) recordBatch(ctx context.Context, k *wire.Call, _ string, req batchRequest) (any, error) {
	if req.Activities == nil {
		return nil, wire.Refuse(wire.CodeMissingField, "activities", "the field is missing")
	}
	results, err := a.operations.RecordBatch(ctx, k, len(req.Activities), func(i int) (activity.Activity, error) {
		return req.Activities[i].activity()
	})
	return batchAnswer{results}, err
}
