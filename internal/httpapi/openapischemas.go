package httpapi

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
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
	s := &openapi.Schema{Type: openapi.Types{openapi.Object}, Description: text, Additional: false}
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
	return &openapi.Schema{Type: openapi.Types{openapi.String}, Description: about}
}

func oneOf(about string, values ...string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.String}, Description: about, Enum: values}
}

func flag(about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Boolean}, Description: about}
}

func moment(about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.String}, Format: "date-time", Description: about}
}

func amount(about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Number}, Minimum: new(0.0), Description: about}
}

func atLeast(low float64, about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Integer}, Minimum: &low, Description: about}
}

// upTo is a whole number from 1 to high.
func upTo(high float64, about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Integer}, Minimum: new(1.0), Maximum: &high, Description: about}
}

// listOf has low to high values; a high of 0 is no limit.
func listOf(low, high int, s *openapi.Schema, about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Array}, Items: s, MinItems: low, MaxItems: high, Description: about}
}

func quoted(s string) jsontext.Value {
	text, _ := jsontext.AppendQuote(nil, s) // of texts that stand here, in UTF-8
	return text
}

// limitOrNull is that of a kind.
func limitOrNull() *openapi.Schema {
	s := upTo(1<<32-1, "The most that a user may have; null: there is no limit.")
	s.Type = openapi.Types{openapi.Integer, openapi.Null}
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
	return slices.Concat(valueSchemas(kinds), feedSchemas(kinds), activitySchemas(), userSchemas(kinds), serviceSchemas(kinds),
		opsSchemas(kinds))
}

// valueSchemas are what others are made of.
func valueSchemas(kinds *activity.Kinds) openapi.Ordered[*openapi.Schema] {
	id := &openapi.Schema{
		Type: openapi.Types{openapi.String}, MinLength: 1, MaxLength: activity.MaxIDBytes, Pattern: `^[^\x00-\x1f\x7f-\x9f]+$`,
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
		{Name: "Until", Value: moment("When the activity ends by itself: a time in RFC 3339, in the future, up to the year 9999; what is " +
			"finer than a microsecond is cut off.")},
		{Name: "Post", Value: post},
		{Name: "Degraded", Value: object("A kind that could not be checked.", need("kind", ref("Kind")), need("reason", text("Why, for "+
			"people.")))},
		{Name: "Error", Value: object("The one shape of errors.", need("error", object("", need("code", codeSchema()),
			need("message", text("What is wrong, for people.")),
			may("field", text("Where in the request, such as `posts[3].author`.")),
			may("limit", upTo(1<<32-1, "That was reached, with the code `limit_reached`.")))))},
	}
}

// feedSchemas are of feeds.
func feedSchemas(kinds *activity.Kinds) openapi.Ordered[*openapi.Schema] {
	return openapi.Ordered[*openapi.Schema]{
		{Name: "FilterRequest", Value: filterRequestSchema(kinds)},
		{Name: "FilterAnswer", Value: filterAnswerSchema(kinds)},
		{Name: "ExplainRequest", Value: object("", need("viewer", ref("ID")), need("post", ref("Post")))},
		{Name: "Explanation", Value: explanationSchema()},
	}
}

// activitySchemas are of what users do.
func activitySchemas() openapi.Ordered[*openapi.Schema] {
	return openapi.Ordered[*openapi.Schema]{
		{Name: "Changed", Value: object("", need("changed", flag("Whether anything is different from before.")))},
		{Name: "Item", Value: object("", need("target", ref("ID")), need("since", moment("When it was recorded, in UTC, to the microsecond.")),
			may("until", moment("When it ends by itself, in UTC.")))},
		{Name: "List", Value: object("", need("items", listOf(0, activity.MaxListed, ref("Item"), "Newest first.")),
			may("next", text("To be passed as `cursor` for what comes next; without it the list is at its end.")))},
		{Name: "Posts", Value: object("", need("posts", listOf(1, maxPosts, ref("ID"), "Ids of posts.")))},
		{Name: "Recorded", Value: object("", need("recorded", upTo(maxPosts, "How many distinct posts of the request are recorded "+
			"now.")))},
		{Name: "Activity", Value: activitySchema()},
		{Name: "Batch", Value: object("", need("activities", listOf(1, maxBatch, ref("Activity"), "Checked whole before anything is "+
			"recorded.")))},
		{Name: "Result", Value: &openapi.Schema{
			OneOf: []*openapi.Schema{ref("Changed"), ref("Error")}, Description: "What became of an activity.",
		}},
		{Name: "Results", Value: object("", need("results", listOf(1, maxBatch, ref("Result"), "One for each activity, in order.")))},
	}
}

// userSchemas are of all that a user has done.
func userSchemas(kinds *activity.Kinds) openapi.Ordered[*openapi.Schema] {
	return openapi.Ordered[*openapi.Schema]{
		{Name: "Counts", Value: object("", need("counts", mapOf("How many the user has, by "+
			"kind.", kindNames(kinds, inLedger), atLeast(0, ""))))},
		{Name: "PreviewRequest", Value: object("", need("kind", ref("LedgerKind")),
			need("targets", listOf(1, activity.MaxPreviewed, ref("ID"), "Whom or what they would be about.")))},
		{Name: "Preview", Value: object("", need("new", atLeast(0, "Distinct targets that are not there yet.")),
			need("present", atLeast(0, "Distinct targets that are.")), need("total", atLeast(0, "What the user would have then.")),
			need("limit", limitOrNull()), need("over", flag("Whether some of the new ones would be refused for the limit.")))},
		{Name: "ExportLine", Value: object("", need("user", ref("ID")), need("kind", text("One that the ledger "+
			"knows.")), need("target", ref("ID")),
			need("op", oneOf("", "add")), need("since", moment("When it was recorded, in UTC.")), may("until", moment("When it ends by "+
				"itself, in UTC.")))},
		{Name: "Deleted", Value: object("", need("deleted", atLeast(0, "Activities that were removed, the user's and those with the user.")))},
	}
}

// serviceSchemas are of the service itself.
func serviceSchemas(kinds *activity.Kinds) openapi.Ordered[*openapi.Schema] {
	return openapi.Ordered[*openapi.Schema]{
		{Name: "Kinds", Value: object("", need("kinds", listOf(1, 0, kindSchema(), "")))},
		{Name: "Health", Value: object("", need("status", oneOf("", "ok")))},
		{Name: "Readiness", Value: object("", need("status", oneOf("`degraded`: only the pages, or only the ledger, can be reached.",
			"ready", "degraded", "unavailable")), may("down", listOf(1, 0, downSchema(), "What cannot be reached.")))},
		{Name: "PagesRequest", Value: object("", need("pages", upTo(activity.MaxPages, "A power of two, and at most 4,096 times as many "+
			"or as few as `homes`.")))},
		{Name: "Pages", Value: pagesSchema()},
		{Name: "Stats", Value: statsSchema(kinds)},
	}
}
