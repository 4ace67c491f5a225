package httpapi

import (
	"math"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/inspect"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

// opsSchemas are of what the service is like inside.
func opsSchemas(kinds *activity.Kinds) openapi.Ordered[*openapi.Schema] {
	return openapi.Ordered[*openapi.Schema]{
		{Name: "PageNumber", Value: whole(0, math.MaxUint32, "The number of a page: below 16,777,216 of one that users share, from there on "+
			"of one user alone.")},
		{Name: "PageState", Value: oneOf("How a page stands: `sound`; `unused`, there is none, and nobody on it has done anything; amiss, "+
			"and to be made anew: `missing`, `damaged`, `behind` the ledger, `foreign`, of another ledger or page, `ahead` of a ledger that was "+
			"set back, `overfull`, so that it reports absent keys too often; `unknown`, not looked at yet.",
			"sound", "unused", "missing", "damaged", "behind", "foreign", "ahead", "overfull", "unknown")},
		{Name: "OpsHealth", Value: opsHealthSchema()},
		{Name: "OpsHistory", Value: opsHistorySchema(kinds)},
		{Name: "OpsMap", Value: object("",
			need("pages", atLeast(0, "All there are.")), need("own_from", atLeast(0, "The position of the first page of one user alone.")),
			need("from", atLeast(0, "The first position shown.")), need("to", atLeast(0, "The position after the last.")),
			need("cells", listOf(0, inspect.MaxCells, opsCellSchema(), "Shared pages and those of one user alone are never in one.")))},
		{Name: "OpsPage", Value: opsPageSchema()},
		{Name: "OpsRebuilt", Value: object("", need("number", ref("PageNumber")),
			need("sequence", atLeast(0, "The ledger's last change that it has.")), need("keys", atLeast(0, "It holds.")),
			need("bytes", atLeast(0, "Of its bits and its marks.")), need("took_ms", amount("In milliseconds, all waiting included.")))},
		{Name: "OpsUser", Value: opsUserSchema()},
		{Name: "OpsKey", Value: opsKeySchema()},
		{Name: "OpsScrub", Value: opsScrubSchema("How far a scrub is that was asked for.")},
		{Name: "OpsScrubRequest", Value: object("", may("rate", upTo(activity.MaxScrubRate, "Pages a second. Default: 10,000.")))},
	}
}

// whole is a whole number from low to high.
func whole(low, high float64, about string) *openapi.Schema {
	s := atLeast(low, about)
	s.Maximum = &high
	return s
}

// share is a part of a whole.
func share(about string) *openapi.Schema {
	s := amount(about)
	s.Maximum = new(1.0)
	return s
}

// orNull may be null, too.
func orNull(s *openapi.Schema) *openapi.Schema {
	s.Type = append(s.Type, openapi.Null)
	return s
}

// countsBy are whole numbers by names that follow from what there is.
func countsBy(about string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Object}, Description: about, Additional: atLeast(0, "")}
}

// downSchema is something that cannot be reached.
func downSchema() *openapi.Schema {
	return object("", need("dependency", text("`ledger`, `pages` or `service`.")), need("reason", text("For people.")))
}

func opsHealthSchema() *openapi.Schema {
	pages := object("Sums over all pages, as they were last looked at.",
		need("shared", atLeast(0, "Pages that users share.")), need("own", atLeast(0, "Pages of one heavy user each.")),
		need("looked_at", atLeast(0, "Of both, those that were looked at since the process began: the sums are of these.")),
		need("amiss", atLeast(0, "Found amiss, and not known to have been made anew.")),
		need("keys", atLeast(0, "They hold.")), need("bytes", atLeast(0, "Of bits and marks.")),
		need("keys_per_page", amount("The mean of the shared pages, as the scrub last saw them; 0 before its first round.")),
		need("due", atLeast(0, "How many pages there should be, where these have more keys than `due_from`; else 0.")),
		need("due_from", atLeast(1, "Keys of a page from which on a reshape is due.")))
	reshape := orNull(object("Null: there is no ledger, or it cannot be asked.",
		need("pages", upTo(activity.MaxPages, "What was asked for last.")),
		need("homes", atLeast(1, "Groups of users, as many as there were pages when the data was made.")),
		need("reshaped", atLeast(0, "How many of them are on pages as asked for.")),
		need("running", flag("Whether this process is at it.")), may("trouble", text("Why that does not get on."))))
	scrub := object("The comparison of all pages with the ledger that goes on all the time.",
		need("position", atLeast(0, "Where it is.")), need("pages", atLeast(0, "Pages of a round; 0 without a ledger.")),
		need("rounds", atLeast(0, "Completed since the process began.")),
		need("alarms", atLeast(0, "Times that it was sped up, as much was amiss.")),
		need("found", countsBy("Pages found amiss since then, by what was wrong with them.")),
		need("asked", opsScrubSchema("The last one that was asked for.")))
	return object("",
		need("status", oneOf("As `GET /readyz` has it.", "ready", "degraded", "unavailable")),
		need("down", listOf(0, 0, downSchema(), "What cannot be reached.")),
		need("version", text("Of the program.")), need("uptime_seconds", atLeast(0, "Since the process began.")),
		need("ledger", text("What kind it is of: `sqlite`, `postgres` or `none`.")),
		need("page_store", text("What kind it is of, such as `memory`, `redis` or `redis+cluster`.")),
		need("false_positive_rate", share("The share of candidates that are dropped or marked for no reason, as configured.")),
		need("poll_age_ms", atLeast(0, "Since this process last asked the ledger what others have changed, in milliseconds; 0 without a "+
			"ledger.")),
		need("staleness_bound_ms", atLeast(0, "How old what a feed is answered from may be, in milliseconds, as configured.")),
		need("pages", pages), need("reshape", reshape), need("scrub", scrub),
		need("requests", object("", need("in_progress", atLeast(0, "Of those that are limited in number.")), need("limit", atLeast(1,
			"The most of "+
				"them.")))),
		need("sampling", samplingSchema()))
}

// opsScrubSchema is of a scrub that was asked for.
func opsScrubSchema(about string) *openapi.Schema {
	return object(about,
		need("running", flag("Whether it goes on.")), need("done", atLeast(0, "Pages that it is through with.")),
		need("all", atLeast(0, "Of so many; 0 until it is known.")),
		need("found", countsBy("Pages found amiss, by what was wrong with them.")),
		need("failed", atLeast(0, "Of these, those that could not be made anew.")),
		need("unasked", atLeast(0, "Pages that could not be looked at.")),
		may("trouble", text("Why it ended early.")),
		may("started", moment("In UTC; it is not there if none was asked for.")), may("ended",
			moment("In UTC; it is not there while it goes on.")))
}

func opsHistorySchema(kinds *activity.Kinds) *openapi.Schema {
	column := func(of *openapi.Schema, about string) *openapi.Schema { return listOf(0, daySteps, of, about) }
	rates := func(about string) *openapi.Schema { return column(amount(""), about+", a second.") }
	counts := func(about string) *openapi.Schema { return column(atLeast(0, ""), about+", at the end of each step.") }
	stood := func(about string) *openapi.Schema {
		return column(orNull(atLeast(0, "")), about+", at the end of each step; null until every page was looked at.")
	}
	took := func(share string) *openapi.Schema {
		return column(orNull(amount("")), "How long "+share+" of the feeds took at most, in milliseconds, to within a fifth; null: there were "+
			"none.")
	}
	return object("",
		need("window_seconds", whole(900, 86_400, "What was asked for, in seconds.")),
		need("step_seconds", whole(5, 60, "How long a step is, in seconds.")),
		need("time", column(atLeast(0, ""), "When each step ended, in seconds of Unix time.")),
		need("feeds", rates("Feeds answered")), need("candidates", rates("Posts looked at for them")), need("writes",
			rates("Activities recorded or undone")),
		need("dropped", mapOf("Posts dropped, a second, by the kind that did.", kindNames(kinds, drops), column(amount(""), ""))),
		need("confirmed", rates("Times that the ledger was asked to confirm what the filter reports")),
		need("false_positives", rates("Times that it did not")), need("rebuilds", rates("Pages made anew")),
		need("degraded", rates("Feeds with a kind that could not be checked")),
		need("errors", rates("Requests answered 5xx, but for those of `shed`")),
		need("shed", rates("Requests refused for overload")),
		need("p50_ms", took("half")), need("p99_ms", took("99 %")),
		need("poll_age_ms", column(amount(""), "How long ago the ledger was asked for others' changes, in milliseconds, at the end of each "+
			"step.")),
		need("heap_bytes", counts("Bytes of objects on the heap")), need("page_bytes", stood("Bytes of all pages")), need("keys",
			stood("Keys in all pages")),
		need("in_progress", counts("Requests in progress")))
}

// spreadSchema is of shares over the pages of a cell.
func spreadSchema(about string) *openapi.Schema {
	return object(about, need("mean", share("")), need("max", share("")))
}

func opsCellSchema() *openapi.Schema {
	in := func(name, about string) field { return may(name, atLeast(1, about+" Left out: none.")) }
	return object("Pages that follow on each other.",
		need("from", atLeast(0, "The first position.")), need("to", atLeast(1, "The position after the last.")),
		need("first", refAs("PageNumber", "At the first position.")), need("last", refAs("PageNumber", "At the last.")),
		need("own", flag("Whether they are of one user each.")), need("pages", atLeast(1, "How many they are.")),
		need("looked_at", atLeast(0, "Of them, those that are not `unknown`.")),
		need("keys", atLeast(0, "They hold.")), need("bytes", atLeast(0, "Of bits and marks.")),
		need("fill", spreadSchema("The share of a page's bits that is set, in ten-thousandths.")),
		need("collided", spreadSchema("The share of a page's regions that more than one key has set bits in, in ten-thousandths.")),
		need("rate_max", share("The highest false-positive rate of one key in a page; of pages that have grown it is not known, and taken for "+
			"0.")),
		in("behind", "Pages of this state."), in("missing", "The same."), in("damaged", "The same."), in("foreign", "The same."),
		in("ahead", "The same."), in("overfull", "The same."), in("unused", "The same."), in("unknown", "The same."),
		in("behind_max", "The most changes of the ledger that a page lacks."),
		need("oldest_age_seconds", atLeast(0, "How long ago the page was looked at that was not for longest.")))
}

func opsPageSchema() *openapi.Schema {
	layer := object("", need("bits", atLeast(1, "")), need("hashes", upTo(math.MaxUint8, "Bits that a key sets.")))
	page := orNull(object("What the page says; null: there is none, or it cannot be read.",
		need("sequence", atLeast(0, "The ledger's last change that it has.")), need("moves", atLeast(0, "Times that users of it were moved.")),
		need("keys", atLeast(0, "It holds.")), need("bits", atLeast(1, "Of all layers.")),
		need("hashes", upTo(math.MaxUint8, "Bits that a key sets in the first layer.")),
		need("region_bits", atLeast(0, "Bits of a region: each has a mark for whether more than one key has set bits in it.")),
		need("layers", listOf(1, 0, layer, "Filters, the oldest first: a page that cannot be made anew grows by them.")),
		need("set", atLeast(0, "Bits that are set.")), need("fill", share("The share of the bits that is set.")),
		need("regions", atLeast(0, "")), need("collided", atLeast(0, "Regions that more than one key has set bits in.")),
		need("collided_share", share("Of the regions.")), need("false_positive_rate", share("Of one key that is not in it.")),
		need("full_at", share("The `fill` from which on it is made anew, or grows.")),
		need("capacity", atLeast(0, "Keys that the first layer is expected to hold by then.")),
		need("bits_bytes", atLeast(0, "As stored.")), need("regions_bytes", atLeast(0, "As stored.")),
		need("build", hexadecimal("Another one whenever the page is made anew.")),
		need("incarnation", hexadecimal("Of the data that the page is of."))))
	largest := object("", need("user", text("A hash of the user's id, of the key that the service was started with.")), need("keys",
		atLeast(1, "")))
	ledger := orNull(object("What the ledger has of the page; null: there is none.",
		need("sequence", atLeast(0, "Of its last change.")), need("moves", atLeast(0, "Times that users of it were moved.")),
		need("keys", atLeast(0, "Those included that have ended by themselves, and were not removed yet.")),
		need("kinds", countsBy("Of these, by kind; the other side of a two-way kind under its own name.")),
		need("users", atLeast(0, "Who have any.")), need("largest", listOf(0, 10, largest, "Those who have most, most first."))))
	cells := func(about string) *openapi.Schema {
		s := text(about + " A byte for each cell, in base64: 0, nothing of it is set, to 255, all is.")
		s.Encoding = "base64"
		return s
	}
	return object("",
		need("number", ref("PageNumber")), need("own", flag("Whether it is of one user alone.")), need("state", ref("PageState")),
		need("page", page), may("damage", text("Why it cannot be read.")), need("ledger", ledger),
		may("agrees", flag("Whether the page is as the ledger has it. Left out: there is no ledger.")),
		need("lacks", countsBy("Keys of the ledger that the page does not report, by kind: of one that is not behind, a loss.")),
		need("residual_keys", &openapi.Schema{Type: openapi.Types{openapi.Integer},
			Description: "How many keys the page counts more than the " +
				"ledger has; fewer, if negative."}),
		need("behind", atLeast(0, "Changes of the ledger that it lacks.")),
		need("drawing", orNull(object("The page condensed, all layers in a row; null: it was not asked for, or there is no page.",
			need("cells", whole(0, inspect.MaxCells, "Of `bits`.")), need("bits", cells("Of the bits.")), need("regions",
				cells("Of the marks."))))))
}

// hexadecimal is 64 bits.
func hexadecimal(about string) *openapi.Schema {
	s := text(about)
	s.Pattern = "^[0-9a-f]{16}$"
	return s
}

func opsUserSchema() *openapi.Schema {
	window := object("", need("kind", ref("Kind")), need("pages", atLeast(0, "Parts that stand.")),
		need("keys", atLeast(0, "About so many: a post that was seen again may count again.")), need("bytes", atLeast(0, "That a feed reads.")))
	return object("",
		need("user", ref("ID")), need("hash", hexadecimal("By which users are placed.")),
		need("home", refAs("PageNumber", "Where the user would be if nobody had ever moved.")), need("page", refAs("PageNumber",
			"Where the user is.")),
		need("own_page", flag("Whether nobody else is on it.")),
		need("counts", countsBy("Keys that the ledger has of the user, by kind; the other side of a two-way kind under its own name.")),
		need("keys", atLeast(0, "Of these.")), need("page_holds", atLeast(0,
			"Of these, those that the page reports: all, or something is amiss.")),
		need("lacks", countsBy("The others, by kind.")),
		need("page_state", ref("PageState")), need("page_moves", atLeast(0, "Times that users of the page were moved.")),
		need("page_keys", atLeast(0, "All that the page holds.")),
		need("page_users", atLeast(0, "Who have any key in it, by the ledger; 0 without one.")),
		need("feed_bytes", atLeast(0, "What a feed of the user reads of the store, windows included.")),
		need("probed", flag("Whether the page is so large that a feed reads only the bits that it looks for: they do not count in "+
			"`feed_bytes`.")),
		need("windows", listOf(0, 0, window, "What kinds with a window take for the user.")))
}

func opsKeySchema() *openapi.Schema {
	bit := object("", need("bit", atLeast(0, "Its place in the layer.")), need("set", flag("Whether it is.")),
		need("region", atLeast(0, "That it is in.")), need("collided", flag("Whether more than one key has set bits in that.")))
	side := object("A key in a page.",
		need("side", oneOf("`direct`: the user's. `mirror`: the same in the target's page. `reverse` and `reverse_mirror`: both, of the "+
			"target's "+
			"activity with the user.", "direct", "mirror", "reverse", "reverse_mirror")),
		need("key", text("As it is put into the filter.")),
		need("kind", text("The kind, or the name of its other side.")), need("owner", refAs("ID", "The user whose page it is in.")),
		need("target", ref("ID")), need("page", refAs("PageNumber", "Of a window, the home of the owner.")), need("stored",
			text("The page's name in the store.")),
		need("page_state", ref("PageState")), need("layer", atLeast(0, "That the bits are of.")),
		need("positions", listOf(0, math.MaxUint8, bit, "Its bits; none where there is no page.")),
		need("reported", flag("Whether all of them are set.")),
		need("clearable", atLeast(0, "Bits that no other key can share.")),
		need("undo", oneOf("What an undo does. `clears`: bits of its own are cleared. `rebuilds`: there are too few, the page is made anew. "+
			"`by_time`: its window forgets it. `stuck`: nothing can be done without a ledger. `absent`: it is not there.",
			"clears", "rebuilds", "by_time", "stuck", "absent")),
		need("verdict", oneOf("`held`: in the ledger and in the page. `absent`: in neither. `false_positive`: in the page alone. `lost`: in "+
			"the "+
			"ledger alone. `ended`: by itself, and to be removed. `reported`: in the page, and there is nobody to confirm it.",
			"held", "absent", "false_positive", "lost", "ended", "reported")),
		may("ledger", flag("Whether the ledger has it. Left out: there is none, or it does not keep the kind.")),
		may("since", moment("When it was recorded; of a part of a window, the earliest it can have been.")),
		may("until", moment("When it ends by itself; of a part of a window, when that is forgotten.")))
	return object("",
		need("kind", ref("Kind")), need("user", ref("ID")), need("target", ref("ID")),
		need("sides", listOf(0, 0, side, "Of a window, its parts, the newest first.")), need("words", listOf(1, 0, text(""),
			"The same of each side, for people.")))
}
