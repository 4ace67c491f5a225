package httpapi

import (
	"net/http"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/openapi"
	"github.com/feedfilter/feedfilter/internal/opspage"
)

const tagOps = "Operations"

// addOpsCalls adds those behind the page for operators, and of what watches the service. What these answer
// may change from version to version, so the fields are not described.
func addOpsCalls(all map[string]described) {
	for path, summary := range map[string]string{
		opspage.Path: "The page for operators", opspage.Path + "/*": "What that page loads",
	} {
		id := "getOpsPage"
		if path != opspage.Path {
			id = "getOpsFile"
		}
		all["GET "+path] = described{id: id, tag: tagOps, summary: summary, answers: []reply{{http.StatusOK, "It has no data of its own.", []media{
			{typeHTML, text(""), ""},
		}}}}
	}
	all["GET /metrics"] = described{id: "getMetrics", tag: tagOps, summary: "Metrics, as Prometheus reads them", answers: []reply{{
		http.StatusOK, "In the text format.", []media{{"text/plain", text(""), ""}},
	}}}
	open := []reply{{http.StatusOK, "Its fields may change from version to version.", []media{{
		typeJSON, &openapi.Schema{Type: openapi.Types{openapi.Object}}, "",
	}}}}
	cells := openapi.Parameter{Name: "cells", In: "query", Description: "How many cells a map is cut into.", Schema: atLeast(0, "")}
	for route, c := range map[string]described{
		"GET /v1/ops/health": {id: "getOpsHealth", summary: "See how the parts of the service are"},
		"GET /v1/ops/history": {
			id: "getOpsHistory", summary: "See how the figures were", codes: []string{activity.CodeOutOfRange},
			query: []openapi.Parameter{{Name: "window", In: "query", Description: "How far back.", Schema: oneOf("", "15m", "1h", "24h")}},
		},
		"GET /v1/ops/pages": {
			id: "getOpsPages", summary: "See the pages as a map", codes: []string{activity.CodeOutOfRange, codeInvalidType},
			query: []openapi.Parameter{
				cells,
				{Name: "from", In: "query", Description: "The first page.", Schema: atLeast(0, "")},
				{Name: "to", In: "query", Description: "The first page that is not shown.", Schema: atLeast(1, "")},
			},
		},
		"GET /v1/ops/pages/:number": {
			id: "getOpsPageInside", summary: "See what is inside a page", query: []openapi.Parameter{cells},
			codes: []string{activity.CodeOutOfRange, codeInvalidType, codeNotFound},
		},
		"POST /v1/ops/pages/:number/rebuild": {
			id: "rebuildPage", summary: "Make a page anew", codes: []string{codeNotFound, activity.CodeNoLedger},
		},
		"GET /v1/ops/scrub": {id: "getScrub", summary: "See how far a scrub is"},
		"POST /v1/ops/scrub": {
			id: "startScrub", summary: "Compare every page with the ledger", codes: []string{activity.CodeOutOfRange, activity.CodeNoLedger},
			takes: []media{{typeJSON, object("", may("rate", upTo(activity.MaxScrubRate, "Pages a second."))), `{"rate":500}`}},
		},
		"GET /v1/ops/users/:user": {
			id: "getOpsUser", summary: "See where a user's activities are",
		},
		"GET " + opsKeyPath: {
			id: "getOpsKey", summary: "See what is known of one activity",
			codes: []string{activity.CodeUnknownKind, activity.CodeUnsupportedOp, activity.CodeSelfBlock},
		},
	} {
		c.tag, c.answers = tagOps, open
		if c.id == "startScrub" {
			c.answers = []reply{{http.StatusAccepted, "It has begun.", open[0].body}}
		}
		all[route] = c
	}
}
