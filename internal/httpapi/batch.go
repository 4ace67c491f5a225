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
	activities, err := s.activitiesOf(req.Activities)
	if err != nil {
		return err
	}
	results, err := s.recordBatch(c.Request().Context(), callOf(c), activities)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, batchAnswer{results})
}

// recordBatch records activities that have been checked.
func (s userCalls) recordBatch(ctx context.Context, k *call, activities []activity.Activity) ([]lineResult, error) {
	k.charge(len(activities))
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.recordLines(ctx, k, activities)
}

func (s userCalls) recordLines(ctx context.Context, k *call, activities []activity.Activity) ([]lineResult, error) {
	k.noteMany(activities)
	outcomes, err := s.activities.Record(ctx, activities)
	k.noteChanged(outcomes)
	return s.results(activities, outcomes), err
}

// activitiesOf checks all lines of a JSON batch, and returns their activities.
func (s userCalls) activitiesOf(lines []batchLine) ([]activity.Activity, error) {
	if lines == nil {
		return nil, refuse(codeMissingField, "activities", "the field is missing")
	}
	if err := checkBatch(len(lines), maxBatch); err != nil {
		return nil, err
	}
	return s.eachActivity(len(lines), func(i int) (activity.Activity, error) { return lines[i].activity(s.activities) })
}

// eachActivity returns the n activities of a batch, or the error of the first invalid one.
func (s userCalls) eachActivity(n int, read func(i int) (activity.Activity, error)) ([]activity.Activity, error) {
	activities := make([]activity.Activity, n)
	for i := range activities {
		var err error
		if activities[i], err = read(i); err != nil {
			return nil, activity.Within("activities["+strconv.Itoa(i)+"].", err)
		}
	}
	return activities, nil
}

// activity returns the activity of the line, or an error if the line is invalid.
func (l batchLine) activity(of activity.Activities) (activity.Activity, error) {
	a := activity.Activity{User: l.User, Kind: l.Kind, Target: l.Target, Remove: l.Op == opRemove}
	switch {
	case l.Kind == "":
		return a, refuse(codeMissingField, "kind", "the kind is empty or missing")
	case l.Op == "":
		return a, refuse(codeMissingField, "op", "the op is empty or missing")
	case l.Op != opAdd && l.Op != opRemove:
		return a, refuse(codeUnknownOp, "op", fmt.Sprintf("%q is neither add nor remove", clip(l.Op, maxField)))
	case l.Until != nil && a.Remove:
		return a, refuse(codeUnknownField, paramUntil, "only an activity that is added may have an end")
	case l.Since != nil && a.Remove:
		return a, refuse(codeUnknownField, paramSince, "only an activity that is added may have a beginning")
	}
	var err error
	if l.Since != nil {
		if a.Since, err = parseTime(paramSince, *l.Since); err != nil {
			return a, err
		}
	}
	if l.Until != nil {
		if a.Until, err = parseUntil(*l.Until); err != nil {
			return a, err
		}
	}
	return a, of.Check(a)
}
