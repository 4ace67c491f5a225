package rest

import (
	"context"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/core"
)

type batchRequest struct {
	Activities []batchLine `json:"activities"`
}

// batchLine is one activity of a batch, in JSON and in NDJSON.
type batchLine struct {
	User   string `json:"user"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Op     string `json:"op"`

	Since *string `json:"since"` // nil: not given
	Until *string `json:"until"` // nil: not given
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

// activity returns the activity of the line, or an error if the line is not of the right form.
func (l batchLine) activity() (activity.Activity, error) {
	a := activity.Activity{User: l.User, Kind: l.Kind, Target: l.Target, Remove: l.Op == core.OpRemove}
	err := core.CheckLine(l.Kind, l.Op, l.Since != nil, l.Until != nil)
	if err == nil && l.Since != nil {
		a.Since, err = parseTime(core.FieldSince, *l.Since)
	}
	if err == nil && l.Until != nil {
		a.Until, err = parseUntil(*l.Until)
	}
	return a, err
}
