package httpapi

import (
	"math"
	"net/http"
	"strings"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/inspect"
	"github.com/feedfilter/feedfilter/internal/openapi"
	"github.com/feedfilter/feedfilter/internal/opspage"
)

// Media types of metrics.
const (
	typePlain       = "text/plain"
	typeOpenMetrics = "application/openmetrics-text"
)

// bodiless are codes of a call that is free of the limit on requests, and yet looks for a body, to refuse it.
func bodiless(more ...string) []string {
	return append(more, codeUnexpectedBody, codeUnreadableBody, codeTimeout)
}

// addOpsCalls adds those of whoever runs the service.
func addOpsCalls(all map[string]described, kinds *activity.Kinds) {
	all["GET "+opspage.Path] = described{
		id: "getOperationsPage", tag: tagOperations, summary: "The operations page, for people", static: true,
		text: "Shows in a browser what the calls below answer. It has no data of its own, and asks for a token where they do. The files " +
			"that it loads are below `" + opspage.Path + "/`; they are its own, change with it, and are not described.",
		answers: []reply{
			{http.StatusOK, "The page.", []media{{typeHTML, text(""), ""}}},
			{http.StatusNotModified, "It is still the one that `If-None-Match` names.", nil},
		},
	}
	addMetricsCall(all)
	addOpsHealthCall(all)
	addHistoryCall(all, kinds)
	addOpsPagesCalls(all)
	addOpsUserCalls(all)
	addScrubCalls(all)
}

func addMetricsCall(all map[string]described) {
	const few = "# HELP feedfilter_http_requests_shed_total Requests refused for overload, with nothing done.\n# TYPE " +
		"feedfilter_http_requests_shed_total counter\n" +
		"feedfilter_http_requests_shed_total 0\n"
	all["GET /metrics"] = described{
		id: "getMetrics", tag: tagOperations, summary: "Scrape the metrics",
		text: "For Prometheus, and what reads its formats; which one is answered `Accept` decides. Names begin with `feedfilter_`, `go_` " +
			"or `process_`; times are in seconds, sizes in bytes.",
		answers: []reply{
			{http.StatusOK, "All metrics, as they stand.", []media{{typePlain, text(""), few}, {typeOpenMetrics, text(""), few + "# EOF\n"}}},
		},
	}
}

func addOpsHealthCall(all map[string]described) {
	all["GET /v1/ops/health"] = described{
		id: "getOpsHealth", tag: tagOperations, summary: "See how the service is, in one object",
		text: "It is answered whatever is down, and under overload.",
		answers: one("What is down, and what there is.", "OpsHealth", `{"status":"ready","down":[],"version":"v1.4.0",`+
			`"uptime_seconds":86412,"ledger":"postgres","page_store":"redis+cluster","false_positive_rate":0.001,"poll_age_ms":41,`+
			`"staleness_bound_ms":1000,"pages":{"shared":16384,"own":3,"looked_at":16387,"amiss":0,"keys":34455012,"bytes":127045632,`+
			`"keys_per_page":2102.9,"due":0,"due_from":4096},"reshape":{"pages":16384,"homes":16384,"reshaped":16384,"running":false},`+
			`"scrub":{"position":8000,"pages":16387,"rounds":52,"alarms":0,"found":{"behind":2},"asked":{"running":false,"done":0,`+
			`"all":0,"found":{},"failed":0,"unasked":0}},"requests":{"in_progress":3,"limit":512},`+
			`"sampling":{"feeds":812,"candidates":406000,"misses":0,"false_positives":143,"late":0,"undecided":0,"skipped":0,"errors":0,`+
			`"repaired":0}}`),
		codes: bodiless(),
	}
}

func addHistoryCall(all map[string]described, kinds *activity.Kinds) {
	names := kindNames(kinds, drops)
	dropped := make([]string, 0, len(names))
	for _, kind := range names {
		dropped = append(dropped, string(quoted(kind))+":[12.4,0]")
	}
	all["GET /v1/ops/history"] = described{
		id: "getOpsHistory", tag: tagOperations, summary: "See what the process did over time",
		text: "Numbers in columns, all of the same length, with one number for each step, the oldest first. They begin with the process, " +
			"and are kept in memory alone.",
		query: []openapi.Parameter{{Name: "window", In: inQuery, Description: "How far back: `15m` and `1h` in steps of 5 s, `24h` in steps " +
			"of a minute. Default: `15m`.", Schema: oneOf("", "15m", "1h", "24h"), Example: quoted("15m")}},
		answers: one("The steps that there are of the window.", "OpsHistory",
			`{"window_seconds":900,"step_seconds":5,"time":[1795167000,1795167005],`+
				`"feeds":[20.6,0],"candidates":[4120,0],"writes":[3.2,0.4],"dropped":{`+strings.Join(dropped, ",")+`},"confirmed":[2.2,0],`+
				`"false_positives":[0.2,0],"rebuilds":[0,0],"degraded":[0,0],"errors":[0,0],"shed":[0,0],"p50_ms":[0.71,null],`+
				`"p99_ms":[2.3,null],"poll_age_ms":[41,12],"heap_bytes":[8123392,8220144],"page_bytes":[127045632,127045632],`+
				`"keys":[34455012,34455014],"in_progress":[3,1]}`),
		codes: bodiless(activity.CodeOutOfRange),
	}
}

// cellsParameter is how finely something is drawn.
func cellsParameter(low float64, about string) openapi.Parameter {
	return openapi.Parameter{
		Name: "cells", In: inQuery, Description: about + " Default: 1,024.", Schema: whole(low, inspect.MaxCells, ""),
		Example: []byte("256"),
	}
}

func addOpsPagesCalls(all map[string]described) {
	all["GET /v1/ops/pages"] = described{
		id: "getOpsPages", tag: tagOperations, summary: "See the map of all pages",
		text: "Pages have positions: those that users share, in order of number, then those of one user alone. Each cell has some that " +
			"follow on each other, as the scrub last saw them, or as they were made anew since. Without a ledger there is no scrub, and " +
			"each call looks at up to 4,096 pages itself.",
		query: []openapi.Parameter{
			cellsParameter(minMapCells, "The most cells, 2 to 4,096."),
			{Name: "from", In: inQuery, Description: "The first position, from 0. Default: 0.", Schema: atLeast(0, "")},
			{Name: "to", In: inQuery, Description: "The position after the last, more than `from`; what is beyond the last page is cut off. " +
				"Default: all.", Schema: whole(1, math.MaxInt32, "")},
		},
		answers: one("The cells, in order of position.", "OpsMap", `{"pages":16387,"own_from":16384,"from":0,"to":64,"cells":[{"from":0,`+
			`"to":64,"first":0,"last":63,"own":false,"pages":64,"looked_at":64,"keys":134592,"bytes":496128,"fill":{"mean":0.4121,`+
			`"max":0.4633},"collided":{"mean":0.2307,"max":0.2792},"rate_max":0.00002,"behind":1,"behind_max":2,"oldest_age_seconds":33}]}`),
		codes: []string{activity.CodeOutOfRange, codeInvalidType},
	}
	all["GET /v1/ops/pages/:number"] = described{
		id: "getOpsPage", tag: tagOperations, summary: "Look inside a page",
		text: "What the page says, and what the ledger says of it, compared key by key as of one moment. Users are named by hashes of " +
			"their ids alone. It reads the whole page, which may be many MiB, and changes nothing.",
		query:   []openapi.Parameter{cellsParameter(0, "The most cells that the page is drawn with, 0 to 4,096; 0: it is not drawn.")},
		answers: one("All that is known of the page.", "OpsPage", examplePage),
		codes:   []string{activity.CodeOutOfRange, codeInvalidType, codeNotFound},
	}
	all["POST /v1/ops/pages/:number/rebuild"] = described{
		id: "rebuildOpsPage", tag: tagOperations, summary: "Make a page anew",
		text:    "From the ledger, whatever stands in its place. Feeds are answered meanwhile.",
		answers: one("It stands there.", "OpsRebuilt", `{"number":4711,"sequence":17,"keys":2103,"bytes":7752,"took_ms":3.1}`),
		codes:   []string{codeNotFound, activity.CodeNoLedger},
	}
}

func addOpsUserCalls(all map[string]described) {
	all["GET /v1/ops/users/:user"] = described{
		id: "getOpsUser", tag: tagOperations, summary: "See where a user is",
		text: "And whether their page reports all that the ledger has of them. It reads the whole page, and changes nothing.",
		answers: one("Their page, what they have on it, and what a feed of theirs reads.", "OpsUser", `{"user":"1",`+
			`"hash":"2af1c07ee55ad10c","home":4711,"page":4711,"own_page":false,"counts":{"block":2,"blocked-by":1,"hide":40},"keys":43,`+
			`"page_holds":43,"lacks":{},"page_state":"sound","page_moves":0,"page_keys":2103,"page_users":61,"feed_bytes":8192,`+
			`"probed":false,"windows":[{"kind":"seen","pages":3,"keys":312,"bytes":2048}]}`),
	}
	all["GET "+opsKeyPath] = described{
		id: "getOpsKey", tag: tagOperations, summary: "See how an activity stands, bit for bit",
		text: "In every page that has a key of it: for a kind with two sides that is the user's and the target's, and the same the other " +
			"way round; for one with a window, each part that stands. It changes nothing.",
		answers: one("Each key, and the same in words.", "OpsKey", exampleKey),
		codes:   []string{activity.CodeUnknownKind, activity.CodeSelfBlock},
	}
}

func addScrubCalls(all map[string]described) {
	all["GET /v1/ops/scrub"] = described{
		id: "getOpsScrub", tag: tagOperations, summary: "See how far a scrub is",
		text: "The one that was asked for last, of this process.",
		answers: one("How far it is; as if it had looked at nothing, where none was asked for.", "OpsScrub",
			`{"running":false,"done":16387,"all":16387,"found":{"missing":1},"failed":0,"unasked":0,"started":"2026-11-20T09:30:00Z",`+
				`"ended":"2026-11-20T09:30:02Z"}`),
		codes: bodiless(),
	}
	const begun = `{"running":true,"done":0,"all":0,"found":{},"failed":0,"unasked":0,"started":"2026-11-20T09:30:00Z"}`
	all["POST /v1/ops/scrub"] = described{
		id: "startOpsScrub", tag: tagOperations, summary: "Compare every page with the ledger, once",
		text: "In the background, beside what goes on all the time; what is amiss is made anew. `GET` says how far it is. The body may be " +
			"left out.",
		takes: asJSON("OpsScrubRequest", `{"rate":10000}`), bare: true,
		answers: []reply{
			{http.StatusOK, "One is under way; it goes on as it was begun.", asJSON("OpsScrub", begun)},
			{http.StatusAccepted, "It has begun.", asJSON("OpsScrub", begun)},
		},
		codes: []string{activity.CodeOutOfRange, activity.CodeNoLedger},
	}
}

const (
	examplePage = `{"number":14,"own":false,"state":"sound","page":{"sequence":17,"moves":0,"keys":50,"bits":1256,"hashes":10,` +
		`"region_bits":4,"layers":[{"bits":1256,"hashes":10}],"set":412,"fill":0.328,"regions":314,"collided":96,` +
		`"collided_share":0.3057,"false_positive_rate":0.000014,"full_at":0.4379,"capacity":72,"bits_bytes":221,"regions_bytes":48,` +
		`"build":"a44f045905722e6c","incarnation":"0c81527643558e2f"},"ledger":{"sequence":17,"moves":0,"keys":50,` +
		`"kinds":{"block":6,"blocked-by":4,"hide":40},"users":9,"largest":[{"user":"h_439ad54eafc46239367966f78dac4e55","keys":42},` +
		`{"user":"h_92fb31d8919ff58bee6bb8948fca3259","keys":1}]},"agrees":true,"lacks":{},"residual_keys":0,"behind":0,` +
		`"drawing":{"cells":16,"bits":"S2VdbmZlXmNjc2VZU15jXg==","regions":"NEEuU1VIXE07QVxZSEhORg=="}}`
	exampleKey = `{"kind":"hide","user":"1","target":"p7","sides":[{"side":"direct","key":"hide:U1_Pp7","kind":"hide","owner":"1",` +
		`"target":"p7","page":14,"stored":"14","page_state":"sound","layer":0,"positions":[` +
		`{"bit":2008,"set":true,"region":502,"collided":false},{"bit":2479,"set":true,"region":619,"collided":true},` +
		`{"bit":1585,"set":true,"region":396,"collided":false},{"bit":1059,"set":true,"region":264,"collided":false},` +
		`{"bit":1571,"set":true,"region":392,"collided":true},{"bit":1842,"set":true,"region":460,"collided":false},` +
		`{"bit":1386,"set":true,"region":346,"collided":false},{"bit":780,"set":true,"region":195,"collided":false},` +
		`{"bit":1096,"set":true,"region":274,"collided":false},{"bit":1328,"set":true,"region":332,"collided":true}],` +
		`"reported":true,"clearable":7,"undo":"clears","verdict":"held","ledger":true,"since":"2026-11-20T09:30:00.000123Z"}],` +
		`"words":["hide:U1_Pp7: page 14 reports it: all of its 10 bits are set. The ledger has it since 2026-11-20 09:30:00 UTC. 7 of its ` +
		`bits are in regions that it has to itself: an undo clears these."]}`
)
