package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	maxBatch = 10_000 // activities of one batch

	// Ops of a line.
	opAdd    = "add"
	opRemove = "remove"
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
	Results []lineResult `json:"results"` // one for each line, in order
}

// lineResult is the result of a line: {"changed":true}, or {"error":{...}}.
type lineResult struct {
	changed bool
	problem problem // its code is "" if there was no error
}

// MarshalJSONTo writes the result.
func (r lineResult) MarshalJSONTo(enc *jsontext.Encoder) error {
	if r.problem.Code != "" {
		return json.MarshalEncode(enc, errorAnswer{r.problem})
	}
	return json.MarshalEncode(enc, recordAnswer{r.changed})
}

// results returns the result of each activity.
func (s userCalls) results(activities []activity.Activity, outcomes []activity.Outcome) []lineResult {
	results := make([]lineResult, len(outcomes))
	for i, o := range outcomes {
		results[i].changed = o == activity.Changed
		k, _ := s.activities.Kinds().Named(activities[i].Kind)
		if err := refused(k, o); err != nil {
			results[i].problem = describe(err)
		}
	}
	return results
}

// batch answers a POST of many activities, as JSON or NDJSON. It checks a whole JSON batch before
// it records anything. Only what depends on a clock or on earlier activities is checked later.
func (s userCalls) batch(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	media, err := mediaType(c.Request(), typeJSON, typeNDJSON)
	if err != nil {
		return err
	}
	if media == typeNDJSON {
		return s.stream(c)
	}
	var req batchRequest
	done, err := s.decode(c, &req)
	if err != nil {
		return err
	}
	defer done()
	if req.Activities == nil {
		return refuse(codeMissingField, "activities", "the field is missing")
	}
	results, err := s.recordBatch(c.Request().Context(), callOf(c), len(req.Activities), func(i int) (activity.Activity, error) {
		return req.Activities[i].activity()
	})
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, batchAnswer{results})
}

// recordBatch records the n activities of a request, none of them if one is invalid.
func (s userCalls) recordBatch(ctx context.Context, k *call, n int, read func(i int) (activity.Activity, error)) ([]lineResult, error) {
	if err := checkBatch(n, maxBatch); err != nil {
		return nil, err
	}
	batch := s.activities.NewBatch()
	for i := range n {
		a, err := read(i)
		if err == nil {
			err = batch.Add(a)
		}
		if err != nil {
			return nil, activity.Within("activities["+strconv.Itoa(i)+"].", err)
		}
	}
	k.charge(n)
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.recordLines(ctx, k, batch)
}

func (s userCalls) recordLines(ctx context.Context, k *call, batch *activity.Batch) ([]lineResult, error) {
	k.noteMany(batch.Activities())
	outcomes, err := batch.Record(ctx)
	k.noteChanged(outcomes)
	return s.results(batch.Activities(), outcomes), err
}

// activity returns the activity of the line, or an error if the line is not of the right form.
func (l batchLine) activity() (activity.Activity, error) {
	a := activity.Activity{User: l.User, Kind: l.Kind, Target: l.Target, Remove: l.Op == opRemove}
	err := checkLine(l.Kind, l.Op, l.Since != nil, l.Until != nil)
	if err == nil && l.Since != nil {
		a.Since, err = parseTime(paramSince, *l.Since)
	}
	if err == nil && l.Until != nil {
		a.Until, err = parseUntil(*l.Until)
	}
	return a, err
}

// checkLine checks what only a line can have wrong.
func checkLine(kind, op string, since, until bool) error {
	switch {
	case kind == "":
		return refuse(codeMissingField, "kind", "the kind is empty or missing")
	case op == "":
		return refuse(codeMissingField, "op", "the op is empty or missing")
	case op != opAdd && op != opRemove:
		return refuse(codeUnknownOp, "op", fmt.Sprintf("%q is neither add nor remove", clip(op, maxField)))
	case until && op == opRemove:
		return refuse(codeUnknownField, paramUntil, "only an activity that is added may have an end")
	case since && op == opRemove:
		return refuse(codeUnknownField, paramSince, "only an activity that is added may have a beginning")
	default:
		return nil
	}
}
