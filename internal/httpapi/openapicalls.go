package httpapi

import (
	"net/http"
	"strings"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

// calls describes every route, by method and path as the table of routes has them.
func calls(kinds *activity.Kinds) map[string]described {
	all := map[string]described{
		"GET /healthz": {
			id: "getHealth", tag: tagService, summary: "Ask whether the process serves",
			answers: one("It does.", "Health", `{"status":"ok"}`),
		},
		"GET /readyz": {
			id: "getReadiness", tag: tagService, summary: "Ask whether feeds can be answered",
			text: "Also while only the pages, or only the ledger, can be reached.",
			answers: []reply{
				{http.StatusOK, "They can.", asJSON("Readiness", `{"status":"degraded","down":[{"dependency":"pages",`+
					`"reason":"it does not answer in time"}]}`)},
				{http.StatusServiceUnavailable, "They cannot.", asJSON("Readiness", `{"status":"unavailable","down":[{"dependency":"ledger",`+
					`"reason":"it cannot be reached"},{"dependency":"pages","reason":"it cannot be reached"}]}`)},
			},
		},
		"GET /openapi.json": {
			id: "getDescription", tag: tagService, summary: "This description",
			answers: []reply{{http.StatusOK, "An OpenAPI 3.1 document.", []media{{typeJSON, &openapi.Schema{Type: openapi.Types{openapi.Object}},
				""}}}},
		},
		"GET /docs": {
			id: "getReference", tag: tagService, summary: "This description, for people",
			answers: []reply{{http.StatusOK, "A page that needs neither scripts nor other servers.", []media{{typeHTML, text(""), ""}}}},
		},
		"GET /docs/style.css": {
			id: "getReferenceStyle", tag: tagService, summary: "How that page looks",
			answers: []reply{{http.StatusOK, "A style sheet.", []media{{typeCSS, text(""), ""}}}},
		},
		"GET /v1/stats": {
			id: "getStats", tag: tagService, summary: "See what the process has counted",
			answers: one("Since it started.", "Stats", ""),
		},
		"GET /v1/kinds": {
			id: "getKinds", tag: tagService, summary: "List the kinds of activities",
			text:    "Beside `block`, `hide`, `like` and `seen` a service may have others, with the same calls under their plural.",
			answers: one("All there are.", "Kinds", ""),
		},
	}
	addFeedCalls(all)
	addBatchCall(all)
	addPagesCalls(all)
	addUserCalls(all)
	addOpsCalls(all, kinds)
	for _, k := range kinds.All() {
		addKindCalls(all, k)
	}
	return all
}

// asJSON is a body with the named schema.
func asJSON(schema, example string) []media { return []media{{typeJSON, ref(schema), example}} }

// one is the only answer that is no error.
func one(text, schema, example string) []reply {
	return []reply{{http.StatusOK, text, asJSON(schema, example)}}
}

func addFeedCalls(all map[string]described) {
	all["POST /v1/feed/filter"] = described{
		id: "filterFeed", tag: tagFeed, summary: "Filter a feed",
		text: "Every candidate is either kept, in order, or dropped, with the first reason found: the kind and, for blocks, the author " +
			"or actor that it was found with, on whichever side the block is. A viewer's own posts are not dropped for blocks.\n\n" +
			"With a `limit` the answer ends once so many posts are kept; `next` is then the index of the first candidate that was not " +
			"looked at: ask again with the rest. With `record_seen` a post that is there twice is kept once; if it cannot be recorded, the " +
			"answer stands and `degraded` names `seen`. `exact` needs the ledger.",
		takes: asJSON("FilterRequest", `{"viewer":"1","posts":[{"id":"p9","author":"3","actors":["7"]},{"id":"p8","author":"2"}],`+
			`"annotate":["like"],`+
			`"limit":50,"record_seen":true}`),
		answers: one("What the viewer gets to see, and what not.", "FilterAnswer",
			`{"posts":[{"id":"p9","like":true}],"dropped":[{"id":"p8","kind":"block","actor":"2"}],"degraded":[]}`),
		codes: []string{activity.CodeInvalidID, activity.CodeOutOfRange, activity.CodeUnknownKind, activity.CodeWrongEffect,
			activity.CodeNoLedger},
	}
	all["POST /v1/feed/explain"] = described{
		id: "explainPost", tag: tagFeed, summary: "Explain what becomes of a post",
		text:  "By every kind there is, with what the ledger knows of it.",
		takes: asJSON("ExplainRequest", `{"viewer":"1","post":{"id":"p8","author":"2"}}`),
		answers: one("All that the filter reports on the post.", "Explanation",
			`{"dropped":true,"reasons":[{"kind":"block","effect":"drop","actor":"2","direction":"by_actor","certainty":"certain",`+
				`"since":"2026-11-20T09:30:00.000123Z"}],"page":{"number":4711,"sequence":17,"keys":2103,"bytes":6144,`+
				`"false_positive_rate":0.00007},"degraded":[]}`),
		codes: []string{activity.CodeInvalidID, activity.CodeNoLedger},
	}
}

// addBatchCall adds that of many activities.
func addBatchCall(all map[string]described) {
	all["POST /v1/activities"] = described{
		id: "writeActivities", tag: tagActivities, summary: "Record and undo many activities",
		text: "As `application/json`, 1 to 10,000, checked whole first: one that cannot be recorded refuses the request, with its line " +
			"named, and nothing changes. What only the state of the user decides, such as a limit, is the result of that activity alone.\n\n" +
			"As `application/x-ndjson`, a stream of any length, one activity a line of up to 16 KiB. Each line gets a result line, in " +
			"order and while the stream goes on; errors are the results of their lines. A client must read while it writes, and sends " +
			"again what a stream that was cut off has not answered.",
		takes: []media{
			{typeJSON, ref("Batch"), `{"activities":[{"user":"1","kind":"block","target":"2","op":"add"},{"user":"1","kind":"hide",` +
				`"target":"p7","op":"remove"}]}`},
			{typeNDJSON, ref("Activity"), `{"user":"1","kind":"block","target":"2","op":"add"}` + "\n" + `{"user":"1","kind":"hide",` +
				`"target":"p7","op":"remove"}` + "\n"},
		},
		answers: []reply{{http.StatusOK, "A result for each activity, of the type of the request.", []media{
			{typeJSON, ref("Results"), `{"results":[{"changed":true},{"changed":false}]}`},
			{typeNDJSON, ref("Result"), `{"changed":true}` + "\n" + `{"changed":false}` + "\n"},
		}}},
		codes: []string{
			activity.CodeInvalidID, activity.CodeOutOfRange, activity.CodeUnknownKind, activity.CodeUnsupportedOp, activity.CodeSelfBlock,
			activity.CodeNoLedger, codeUnknownOp,
		},
	}
}

func addPagesCalls(all map[string]described) {
	const pages = `{"pages":256,"homes":64,"reshaped":12,"shared_pages":112,"own_pages":3,"keys_per_page":1043.5,"due":0,"reshaping":true}`
	all["GET /v1/pages"] = described{
		id: "getPages", tag: tagPages, summary: "See how many pages there are",
		answers: one("And how far a reshape is.", "Pages", pages),
		codes:   []string{activity.CodeNoLedger},
	}
	all["PUT /v1/pages"] = described{
		id: "putPages", tag: tagPages, summary: "Change the number of pages",
		text: "It goes on in the background, while feeds and writes do. `GET` says how far it is. What was under way when the process " +
			"ended goes on when it is asked for again, of any process.",
		takes: asJSON("PagesRequest", `{"pages":256}`),
		answers: []reply{
			{http.StatusOK, "This process is at it already, or there is nothing to do.", asJSON("Pages", pages)},
			{http.StatusAccepted, "This process has begun.", asJSON("Pages", pages)},
		},
		codes: []string{activity.CodeOutOfRange, activity.CodeNoLedger, codeReshaping},
	}
}

func addUserCalls(all map[string]described) {
	all["GET /v1/users/:user"] = described{
		id: "getUser", tag: tagUsers, summary: "Count what a user has done",
		answers: one("What the ledger has, exactly.", "Counts", ""),
		codes:   []string{activity.CodeNoLedger},
	}
	all["DELETE /v1/users/:user"] = described{
		id: "deleteUser", tag: tagUsers, summary: "Remove every trace of a user",
		text: "What they did, what others did with them, and what they saw. It takes up to 5 minutes. After a 503, or without an answer, " +
			"repeat it: it goes on, and counts the rest alone.",
		answers: one("Nothing of the user is left.", "Deleted", `{"deleted":12}`),
		codes:   []string{activity.CodeNoLedger},
	}
	all["GET /v1/users/:user/export"] = described{
		id: "exportUser", tag: tagUsers, summary: "Export what a user has done",
		text: "All that the ledger keeps, as `feedfilter import` reads it. An answer that is cut off is not whole.",
		answers: []reply{{http.StatusOK, "A line for each activity, by kind and target.", []media{
			{typeNDJSON, ref("ExportLine"), `{"user":"1","kind":"block","target":"2","op":"add","since":"2026-11-20T09:30:00.000123Z"}` + "\n"},
		}}},
		codes: []string{activity.CodeNoLedger},
	}
	all["POST /v1/users/:user/preview"] = described{
		id: "previewActivities", tag: tagUsers, summary: "See what recording activities would come to",
		text:    "It changes nothing.",
		takes:   asJSON("PreviewRequest", `{"kind":"block","targets":["2","3"]}`),
		answers: one("What there would be.", "Preview", `{"new":1,"present":1,"total":3,"limit":5000,"over":false}`),
		codes: []string{
			activity.CodeOutOfRange, activity.CodeUnknownKind, activity.CodeUnsupportedOp, activity.CodeSelfBlock, activity.CodeNoLedger,
		},
	}
}

// addKindCalls adds the calls of activities of kind k.
func addKindCalls(all map[string]described, k activity.Kind) {
	id, list := camel(k.Name), "/v1/users/:user/"+k.Plural
	if !k.InLedger() {
		all["POST "+list] = windowCall(k)
		return
	}
	effect := "Feeds of the user leave the post out"
	switch {
	case k.Effect == activity.Annotate:
		effect = "Feeds of the user mark it, where they ask for that"
	case k.Target == activity.User && k.Reverse != "":
		effect = "Feeds of both leave out what has the other as its author or actor"
	case k.Target == activity.User:
		effect = "Feeds of the user leave out what has the other as its author or actor"
	}
	var codes []string
	if k.Target == activity.User {
		codes = []string{activity.CodeSelfBlock}
	}
	record := described{
		id: "record" + id, tag: tagActivities, summary: "Record a " + k.Name,
		text: effect + ". What is there already gets its end set anew, or taken away.",
		query: []openapi.Parameter{{Name: paramUntil, In: inQuery, Description: "When it ends by itself; without it, it does " +
			"not.", Schema: ref("Until")}},
		answers: one("It is recorded.", "Changed", `{"changed":true}`),
		codes:   append([]string{activity.CodeOutOfRange, activity.CodeNoLedger}, codes...),
	}
	if k.Limit > 0 {
		record.codes = append(record.codes, codeLimitReached)
	}
	all["PUT "+list+"/:target"] = record
	all["DELETE "+list+"/:target"] = described{
		id: "remove" + id, tag: tagActivities, summary: "Undo a " + k.Name,
		text:    "At once, whatever was recorded before.",
		answers: one("It is not there any more.", "Changed", `{"changed":true}`),
		codes:   append([]string{codeStuck}, codes...),
	}
	all["GET "+list] = described{
		id: "list" + id, tag: tagActivities, summary: "List " + k.Plural,
		text: "Newest first.",
		query: []openapi.Parameter{
			{Name: "limit", In: inQuery, Description: "Items of an answer. Default: 100.", Schema: upTo(activity.MaxListed, "")},
			{Name: "cursor", In: inQuery, Description: "`next` of the answer before.", Schema: text("")},
		},
		answers: one("A part of the list.", "List", `{"items":[{"target":"2","since":"2026-11-20T09:30:00.000123Z"}]}`),
		codes:   []string{activity.CodeOutOfRange, activity.CodeInvalidCursor, activity.CodeNoLedger},
	}
}

// windowCall is that of activities of kind k, which has a window.
func windowCall(k activity.Kind) described {
	return described{
		id: "record" + camel(k.Name), tag: tagActivities, summary: "Record " + k.Name + " posts",
		text: "They are forgotten by themselves, some time after " + k.Window.String() + ", and cannot be undone, listed or counted. Now " +
			"and then, at the configured rate, a post counts as recorded that was not.",
		takes:   asJSON("Posts", `{"posts":["p1","p2"]}`),
		answers: one("They are recorded.", "Recorded", `{"recorded":2}`),
		codes:   []string{activity.CodeOutOfRange},
	}
}

// camel writes "super-like" as "SuperLike".
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
