package httpapi

import (
	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

func filterRequestSchema(kinds *activity.Kinds) *openapi.Schema {
	checked := listOf(0, 0, oneOf("", kindNames(kinds, drops)...), "What to check, in this order. Default: every kind that drops.")
	marked := listOf(0, 0, oneOf("", kindNames(kinds, annotates)...), "Kinds to mark on what is kept. Default: none.")
	checked.Unique, marked.Unique = true, true
	return object("",
		need("viewer", refAs("ID", "Whose feed it is.")),
		need("posts", listOf(0, feed.MaxPosts, ref("Post"), "The candidates, in the order of the feed.")),
		may("kinds", checked),
		may("annotate", marked),
		may("limit", upTo(feed.MaxPosts, "The answer ends once so many posts are kept. Default: none.")),
		may("record_seen", flag("Whether what is kept is recorded as seen in the same call. Default: `false`.")),
		may("exact", flag("Whether the ledger confirms what the filter reports, so that nothing is dropped or marked by a false positive "+
			"of a kind "+
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
		may("next", upTo(feed.MaxPosts-1, "With a `limit`: the index of the first candidate that was not looked at. Without it all "+
			"were.")),
		need("degraded", listOf(0, 0, ref("Degraded"), "What could not be checked: posts are kept that would have been dropped. A "+
			"renderer decides "+
			"whether to show them.")))
}

func explanationSchema() *openapi.Schema {
	reason := object("Something that the filter reports on the post.",
		need("kind", ref("Kind")), need("effect", oneOf("", "drop", "annotate")),
		may("actor", refAs("ID", "For kinds that target users: who.")),
		need("direction", oneOf("Whose activity it is.", "by_viewer", "by_actor")),
		need("certainty", oneOf("`certain`: the ledger has it. `false`: it has not, a false positive. `unconfirmed`: of a window, which "+
			"nobody can tell.",
			"certain", "false", "unconfirmed")),
		may("since", moment("When it was recorded; of a window, the earliest it can have been.")),
		may("until", moment("When it ends by itself; of a window, when the last part that reports it is forgotten.")),
		may("parts", listOf(1, 0, text(""), "Of a window: which of its parts report it.")))
	page := object("What was read of the kinds in the ledger.",
		need("number", atLeast(0, "")), need("sequence", atLeast(0, "Rises with every change of the page.")), need("keys", atLeast(0, "Held.")),
		need("bytes", atLeast(0, "Of its bits.")), need("false_positive_rate", amount("Per key, as the page stands: 0 to 1.")))
	return object("",
		need("dropped", flag("Whether a feed drops the post. An exact one does only if a reason that drops is not `false`.")),
		need("reasons", listOf(0, 0, reason, "All that the filter reports, kinds that drop first.")),
		need("page", page), need("degraded", listOf(0, 0, ref("Degraded"), "What could not be checked.")))
}

func activitySchema() *openapi.Schema {
	return object("One activity of a batch or a stream.",
		need("user", refAs("ID", "Who does it.")), need("kind", ref("Kind")), need("target", refAs("ID", "The user or post that it is about.")),
		need("op", oneOf("", "add", "remove")),
		may("since", moment("When it was done; without it, now. Only with `add`, and not of a kind with a window.")),
		may("until", refAs("Until", "Only with `add`, and not of a kind with a window.")))
}

func kindSchema() *openapi.Schema {
	return object("A kind of activities.",
		need("name", ref("Kind")), need("plural", text("Its name in routes.")), need("target", oneOf("What it points at.", "user", "post")),
		need("effect", oneOf("What it does to a post: leave it out, or mark it.", "drop", "annotate")),
		need("two_way", flag("Whether the target's feed is affected, too.")),
		need("ledger", flag("Whether the ledger keeps it. Else it has a window.")),
		may("window_seconds", atLeast(1, "How long an activity is kept at least, in seconds.")),
		may("parts", upTo(64, "How many parts the window is forgotten in.")), need("limit", limitOrNull()))
}

func pagesSchema() *openapi.Schema {
	return object("",
		need("pages", upTo(activity.MaxPages, "What was asked for last.")),
		need("homes", atLeast(1, "Groups of users, as many as there were pages when the data was made.")),
		need("reshaped", atLeast(0, "How many of them are on pages as asked for.")),
		need("shared_pages", atLeast(0, "Pages that users share, as this process knows it.")),
		need("own_pages", atLeast(0, "Pages of one heavy user each.")),
		need("keys_per_page", amount("The mean of the shared pages, as the scrub last saw them; 0 before its first round.")),
		need("due", atLeast(0, "How many pages there should be, where these have more than 4,096 keys; else 0.")),
		need("reshaping", flag("Whether a reshape goes on in this process.")),
		may("trouble", text("Why that does not get on.")))
}

func statsSchema(kinds *activity.Kinds) *openapi.Schema {
	count := atLeast(0, "")
	return object("What this process has counted since it started.",
		need("uptime_seconds", count), need("goroutines", count), need("heap_bytes", atLeast(0, "Of objects, those that await collection "+
			"included.")),
		need("requests", object("", need("in_progress", atLeast(0, "Of those that are limited in number.")),
			need("shed", atLeast(0, "Refused for overload.")), need("total", atLeast(0, "All, whatever became of them.")))),
		need("access", object("",
			need("refused", mapOf("Requests that were not let in, by the code of their error.", refusalCodes(), count)),
			may("token_file", object("", need("reloads", atLeast(0, "Times that a change came into force.")),
				need("failures", atLeast(0, "Times that one could not.")), need("failing", flag("Whether that is so now.")))),
			need("audit_failures", atLeast(0, "Lines that could not be written.")))),
		need("feeds", object("", need("answered", count), need("kept", atLeast(0, "Posts.")),
			need("dropped", mapOf("Posts, by the kind that did.", kindNames(kinds, drops), count)),
			need("degraded", mapOf("Feeds, by the kind that could not be checked.", kindNames(kinds, anyKind), count)))),
		need("sampling", samplingSchema()),
		need("recorder", &openapi.Schema{
			Type: openapi.Types{openapi.Object}, Description: "What stands here may change from version to version.",
		}))
}

// samplingSchema is of what comparing feeds with the ledger has found.
func samplingSchema() *openapi.Schema {
	return object("What comparing feeds with the ledger has found.",
		need("feeds", atLeast(0, "Compared.")), need("candidates", atLeast(0, "Of these feeds, those that were looked at.")),
		need("misses", atLeast(0, "Posts kept, or not marked, although the ledger had the activity: there must be none.")),
		need("false_positives", atLeast(0, "Posts dropped or marked although the ledger does not have the activity.")),
		need("late", atLeast(0, "Posts kept whose activity was recorded shortly before, and not acknowledged yet.")),
		need("undecided", atLeast(0, "Posts of which nobody can tell since when the ledger says otherwise.")),
		need("skipped", atLeast(0, "Feeds chosen, and not compared: too much was waiting, or they were too large.")),
		need("errors", atLeast(0, "Feeds not compared, as the ledger or the pages could not be read.")),
		need("repaired", atLeast(0, "Pages made anew because of a miss.")))
}
