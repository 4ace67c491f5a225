package rest

import (
	"context"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/core"
)

type batchRequest struct {
	Activities []batchLine `json:"activities"`
}

type batchAnswer struct {
	Results []core.Result `json:"results"` // one for each line, in order
}

// batch answers a POST of many activities, as JSON or NDJSON. It checks a whole JSON batch before
// it records anything.
func (a *api) batch(k *core.Call) error {
	if _, err := core.Query(k); err != nil {
		return err
	}
	media, err := core.MediaType(k.Request(), core.TypeJSON, core.TypeNDJSON)
	switch {
	case err != nil:
		return err
	case media == core.TypeNDJSON:
		return a.limits.Stream(k, func() error { return a.stream(k) })
	}
	return core.Requested(a.limits, a.strict, a.recordBatch)(k)
}

func (a *api) recordBatch(ctx context.Context, k *core.Call, _ string, req batchRequest) (any, error) {
	if req.Activities == nil {
		return nil, core.Refuse(core.CodeMissingField, "activities", "the field is missing")
	}
	results, err := a.operations.RecordBatch(ctx, k, len(req.Activities), func(i int) (activity.Activity, error) {
		return req.Activities[i].activity()
	})
	return batchAnswer{results}, err
}
