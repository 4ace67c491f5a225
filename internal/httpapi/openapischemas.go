package httpapi

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

// field is one of an object.
type field struct {
	name     string
	schema   *openapi.Schema
	optional bool
}

func need(name string, s *openapi.Schema) field { return field{name: name, schema: s} }
func may(name string, s *openapi.Schema) field  { return field{name: name, schema: s, optional: true} }

// object has these fields and no others.
func object(text string, fields ...field) *openapi.Schema {
	s := &openapi.Schema{Type: openapi.Types{"object"}, Description: text, Additional: false}
	for _, f := range fields {
		s.Properties = s.Properties.With(f.name, f.schema)
		if !f.optional {
			s.Required = append(s.Required, f.name)
		}
	}
	return s
}

// mapOf is an object with any of the names, all needed, and values of s.
func mapOf(text string, names []string, s *openapi.Schema) *openapi.Schema {
	o := object(text)
	for _, name := range names {
		o.Properties = o.Properties.With(name, s)
	}
	o.Required = names
	return o
}

func ref(name string) *openapi.Schema { return &openapi.Schema{Ref: "#/components/schemas/" + name} }

// refAs is a reference with a description of its own.
func refAs(name, text string) *openapi.Schema {
	s := ref(name)
	s.Description = text
	return s
}

func text(about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"string"}, Description: about}
}

func oneOf(about string, values ...string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"string"}, Description: about, Enum: values}
}

func flag(about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"boolean"}, Description: about}
}

func moment(about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"string"}, Format: "date-time", Description: about}
}

func number(about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"number"}, Minimum: new(0.0), Description: about}
}

func atLeast(low float64, about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"integer"}, Minimum: &low, Description: about}
}

func inRange(low, high float64, about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"integer"}, Minimum: &low, Maximum: &high, Description: about}
}

// listOf has low to high values; a high of 0 is no limit.
func listOf(low, high int, s *openapi.Schema, about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"array"}, Items: s, MinItems: low, MaxItems: high, Description: about}
}

func quoted(s string) jsontext.Value {
	text, _ := jsontext.AppendQuote(nil, s) // of texts that stand here, in UTF-8
	return text
}

// limitOrNull is that of a kind.
func limitOrNull() *openapi.Schema {
	s := inRange(1, 1<<32-1, "The most that a user may have; null: there is no limit.")
	s.Type = openapi.Types{"integer", "null"}
	return s
}

// kindNames are those that keep accepts.
func kindNames(kinds *activity.Kinds, keep func(activity.Kind) bool) (names []string) {
	for _, k := range kinds.All() {
		if keep(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

func inLedger(k activity.Kind) bool  { return k.InLedger() }
func drops(k activity.Kind) bool     { return k.Effect == activity.Drop }
func annotates(k activity.Kind) bool { return k.Effect == activity.Annotate }
func anyKind(activity.Kind) bool     { return true }

// schemas are those with a name.
func schemas(kinds *activity.Kinds) openapi.Ordered[*openapi.Schema] {
	id := &openapi.Schema{
		Type: openapi.Types{"string"}, MinLength: 1, MaxLength: activity.MaxIDBytes, Pattern: `^\P{Cc}+$`,
		Description: "An id of a user or a post: 1 to 256 bytes of UTF-8 without control characters.",
	}
	post := object("A candidate for a feed.",
		need("id", ref("ID")),
		may("author", refAs("ID", "Who wrote it. Needed where a kind that is checked targets users.")),
		may("actors", listOf(0, 0, ref("ID"), "Others on the post: who reposted it, is quoted or mentioned.")))
	return openapi.Ordered[*openapi.Schema]{
		{Name: "ID", Value: id},
		{Name: "Kind", Value: oneOf("The name of a kind of activities, as `GET /v1/kinds` has it.", kindNames(kinds, anyKind)...)},
		{Name: "LedgerKind", Value: oneOf("The name of a kind that the ledger keeps.", kindNames(kinds, inLedger)...)},
		{Name: "Until", Value: moment("When the activity ends by itself: a time in RFC 3339, in the future, up to the year 9999; what is finer than a " +
			"microsecond is cut off.")},
		{Name: "Post", Value: post},
		{Name: "FilterRequest", Value: filterRequestSchema(kinds)},
		{Name: "FilterAnswer", Value: filterAnswerSchema(kinds)},
		{Name: "Degraded", Value: object("A kind that could not be checked.", need("kind", ref("Kind")), need("reason", text("Why, for people.")))},
		{Name: "ExplainRequest", Value: object("", need("viewer", ref("ID")), need("post", ref("Post")))},
		{Name: "Explanation", Value: explanationSchema()},
		{Name: "Changed", Value: object("", need("changed", flag("Whether anything is different from before.")))},
		{Name: "Item", Value: object("", need("target", ref("ID")), need("since", moment("When it was recorded, in UTC, to the microsecond.")),
			may("until", moment("When it ends by itself, in UTC.")))},
		{Name: "List", Value: object("", need("items", listOf(0, activity.MaxListed, ref("Item"), "Newest first.")),
			may("next", text("To be passed as `cursor` for what comes next; without it the list is at its end.")))},
		{Name: "Posts", Value: object("", need("posts", listOf(1, maxPosts, ref("ID"), "Ids of posts.")))},
		{Name: "Recorded", Value: object("", need("recorded", inRange(1, maxPosts, "How many distinct posts of the request are recorded now.")))},
		{Name: "Activity", Value: activitySchema()},
		{Name: "Batch", Value: object("", need("activities", listOf(1, maxBatch, ref("Activity"), "Checked whole before anything is recorded.")))},
		{Name: "Result", Value: &openapi.Schema{
			OneOf: []*openapi.Schema{ref("Changed"), ref("Error")}, Description: "What became of an activity.",
		}},
		{Name: "Results", Value: object("", need("results", listOf(1, maxBatch, ref("Result"), "One for each activity, in order.")))},
		{Name: "Counts", Value: object("", need("counts", mapOf("How many the user has, by kind.", kindNames(kinds, inLedger), atLeast(0, ""))))},
		{Name: "PreviewRequest", Value: object("", need("kind", ref("LedgerKind")),
			need("targets", listOf(1, activity.MaxPreviewed, ref("ID"), "Whom or what they would be about.")))},
		{Name: "Preview", Value: object("", need("new", atLeast(0, "Distinct targets that are not there yet.")),
			need("present", atLeast(0, "Distinct targets that are.")), need("total", atLeast(0, "What the user would have then.")),
			need("limit", limitOrNull()), need("over", flag("Whether some of the new ones would be refused for the limit.")))},
		{Name: "ExportLine", Value: object("", need("user", ref("ID")), need("kind", text("One that the ledger knows.")), need("target", ref("ID")),
			need("op", oneOf("", "add")), need("since", moment("When it was recorded, in UTC.")), may("until", moment("When it ends by itself, in UTC.")))},
		{Name: "Deleted", Value: object("", need("deleted", atLeast(0, "Activities that were removed, the user's and those with the user.")))},
		{Name: "Kinds", Value: object("", need("kinds", listOf(1, 0, kindSchema(), "")))},
		{Name: "Health", Value: object("", need("status", oneOf("", "ok")))},
		{Name: "Readiness", Value: object("", need("status", oneOf("`degraded`: only the pages, or only the ledger, can be reached.",
			"ready", "degraded", "unavailable")), may("down", listOf(1, 0, object("", need("dependency", text("`ledger`, `pages` or `service`.")),
			need("reason", text("For people."))), "What cannot be reached.")))},
		{Name: "PagesRequest", Value: object("", need("pages", inRange(1, activity.MaxPages, "A power of two, and at most 4,096 times as many "+
			"or as few as `homes`.")))},
		{Name: "Pages", Value: pagesSchema()},
		{Name: "Stats", Value: statsSchema(kinds)},
		{Name: "Error", Value: object("The one shape of errors.", need("error", object("", need("code", codeSchema()),
			need("message", text("What is wrong, for people.")),
			may("field", text("Where in the request, such as `posts[3].author`.")),
			may("limit", inRange(1, 1<<32-1, "That was reached, with the code `limit_reached`.")))))},
	}
}

func filterRequestSchema(kinds *activity.Kinds) *openapi.Schema {
	checked := listOf(0, 0, oneOf("", kindNames(kinds, drops)...), "What to check, in this order. Default: every kind that drops.")
	marked := listOf(0, 0, oneOf("", kindNames(kinds, annotates)...), "Kinds to mark on what is kept. Default: none.")
	checked.Unique, marked.Unique = true, true
	return object("",
		need("viewer", refAs("ID", "Whose feed it is.")),
		need("posts", listOf(0, feed.MaxPosts, ref("Post"), "The candidates, in the order of the feed.")),
		may("kinds", checked),
		may("annotate", marked),
		may("limit", inRange(1, feed.MaxPosts, "The answer ends once so many posts are kept. Default: none.")),
		may("record_seen", flag("Whether what is kept is recorded as seen in the same call. Default: `false`.")),
		may("exact", flag("Whether the ledger confirms what the filter reports, so that nothing is dropped or marked by a false positive of a kind "+
			"that the ledger keeps. Default: `false`.")))
}

func filterAnswerSchema(kinds *activity.Kinds) *openapi.Schema {
	kept := object("A post that the viewer gets to see.", need("id", ref("ID")))
	for _, name := range kindNames(kinds, annotates) {
		kept.Properties = kept.Properties.With(name, flag("Whether the viewer has done this; there if `annotate` names it."))
	}
	dropped := object("A post that is left out, with the first reason found.",
		need("id", ref("ID")), need("kind", ref("Kind")),
		may("actor", refAs("ID", "The author or actor that it was found with, for kinds that target users.")),
		may("unconfirmed", flag("In an exact feed: the kind has a window, so nobody can tell whether this is a false positive.")))
	return object("",
		need("posts", listOf(0, feed.MaxPosts, kept, "What is kept, in the order of the request.")),
		need("dropped", listOf(0, feed.MaxPosts, dropped, "The others.")),
		may("next", inRange(1, feed.MaxPosts-1, "With a `limit`: the index of the first candidate that was not looked at. Without it all were.")),
		need("degraded", listOf(0, 0, ref("Degraded"), "What could not be checked: posts are kept that would have been dropped. A renderer decides "+
			"whether to show them.")))
}

func explanationSchema() *openapi.Schema {
	reason := object("Something that the filter reports on the post.",
		need("kind", ref("Kind")), need("effect", oneOf("", "drop", "annotate")),
		may("actor", refAs("ID", "For kinds that target users: who.")),
		need("direction", oneOf("Whose activity it is.", "by_viewer", "by_actor")),
		need("certainty", oneOf("`certain`: the ledger has it. `false`: it has not, a false positive. `unconfirmed`: of a window, which nobody can tell.",
			"certain", "false", "unconfirmed")),
		may("since", moment("When it was recorded; of a window, the earliest it can have been.")),
		may("until", moment("When it ends by itself; of a window, when the last part that reports it is forgotten.")),
		may("parts", listOf(1, 0, text(""), "Of a window: which of its parts report it.")))
	page := object("What was read of the kinds in the ledger.",
		need("number", atLeast(0, "")), need("sequence", atLeast(0, "Rises with every change of the page.")), need("keys", atLeast(0, "Held.")),
		need("bytes", atLeast(0, "Of its bits.")), need("false_positive_rate", number("Per key, as the page stands: 0 to 1.")))
	return object("",
		need("dropped", flag("Whether a feed drops the post. An exact one does only if a reason that drops is not `false`.")),
		need("reasons", listOf(0, 0, reason, "All that the filter reports, kinds that drop first.")),
		need("page", page), need("degraded", listOf(0, 0, ref("Degraded"), "What could not be checked.")))
}

func activitySchema() *openapi.Schema {
	return object("One activity of a batch or a stream.",
		need("user", refAs("ID", "Who does it.")), need("kind", ref("Kind")), need("target", refAs("ID", "The user or post that it is about.")),
		need("op", oneOf("", "add", "remove")), may("until", refAs("Until", "Only with `add`, and not of a kind with a window.")))
}

func kindSchema() *openapi.Schema {
	return object("A kind of activities.",
		need("name", ref("Kind")), need("plural", text("Its name in routes.")), need("target", oneOf("What it points at.", "user", "post")),
		need("effect", oneOf("What it does to a post: leave it out, or mark it.", "drop", "annotate")),
		need("two_way", flag("Whether the target's feed is affected, too.")),
		need("ledger", flag("Whether the ledger keeps it. Else it has a window.")),
		may("window_seconds", atLeast(1, "How long an activity is kept at least, in seconds.")),
		may("parts", inRange(1, 64, "How many parts the window is forgotten in.")), need("limit", limitOrNull()))
}

func pagesSchema() *openapi.Schema {
	return object("",
		need("pages", inRange(1, activity.MaxPages, "What was asked for last.")),
		need("homes", atLeast(1, "Groups of users, as many as there were pages when the data was made.")),
		need("reshaped", atLeast(0, "How many of them are on pages as asked for.")),
		need("shared_pages", atLeast(0, "Pages that users share, as this process knows it.")),
		need("own_pages", atLeast(0, "Pages of one heavy user each.")),
		need("keys_per_page", number("The mean of the shared pages, as the scrub last saw them; 0 before its first round.")),
		need("due", atLeast(0, "How many pages there should be, where these have more than 4,096 keys; else 0.")),
		need("reshaping", flag("Whether a reshape goes on in this process.")),
		may("trouble", text("Why that does not get on.")))
}

func statsSchema(kinds *activity.Kinds) *openapi.Schema {
	count := atLeast(0, "")
	return object("What this process has counted since it started.",
		need("uptime_seconds", count), need("goroutines", count), need("heap_bytes", atLeast(0, "Of objects, those that await collection included.")),
		need("requests", object("", need("in_progress", atLeast(0, "Of those that are limited in number.")),
			need("shed", atLeast(0, "Refused for overload.")), need("total", atLeast(0, "All, whatever became of them.")))),
		need("feeds", object("", need("answered", count), need("kept", atLeast(0, "Posts.")),
			need("dropped", mapOf("Posts, by the kind that did.", kindNames(kinds, drops), count)),
			need("degraded", mapOf("Feeds, by the kind that could not be checked.", kindNames(kinds, anyKind), count)))),
		need("recorder", &openapi.Schema{Type: openapi.Types{"object"}, Description: "What stands here may change from version to version."}))
}
