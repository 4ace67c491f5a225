package main

// resultHelp is the text on the flags of how results are printed.
func resultHelp() map[string]string {
	return map[string]string{
		"result_output": "How the result is printed: text for people, or json for programs.",
		"result_color":  "When text has colours: auto is on a terminal, unless NO_COLOR is set; always; or never.",
	}
}

// aboutHelp is the text on the flags of the commands that say what settings and commands there are.
func aboutHelp() map[string]string {
	return map[string]string{
		"config_check":   "Name every mistake in the settings of the service and exit with 2, or print ok.",
		"config_print":   "Print all settings of the service, and where each comes from.",
		"config_secrets": "Print passwords instead of ***. Default: off",

		"completion_shell": "bash, zsh or fish.",
	}
}

// migrateHelp is the text on the flags of import sets and of compare.
func migrateHelp() map[string]string {
	return map[string]string{
		"import_file": "Import activities from a CSV or NDJSON file: the default.",
		"import_sets": "Import an app's exact sets, one of each user, from Redis.",
		"from":        "Redis that has the sets, written as --redis is, but for elasticache://.",
		"keys": "What the keys of the sets look like, with {user} where the id stands: 'blocks:{user}', or 'blocks:{{user}}' with a hash " +
			"tag. Everything else stands for itself.",
		"sets_kind": "Kind of the activities, such as block.",
		"reverse":   "The key has the target, and the members are users: 'blocked-by:{user}'. Default: off",
		"scores":    "What scores of sorted sets are: seconds or milliseconds since 1970, when it was done; or to ignore.",
		"scan_count": "Elements that the servers look at for each SCAN, SSCAN or ZSCAN, 1 to 100000: the more, the longer others wait " +
			"for each.",
		"scan_rate": "Most of these commands a second, up to 1000000; 0: as fast as they are answered, four at a time.",
		"on_error_member": "What happens at a member that can never be recorded, such as an id of 300 bytes: stop, or skip it and " +
			"report it.",
		"compare_sets": "Compare with an app's exact sets in Redis.",
		"compare_file": "Compare with a CSV or NDJSON file, sorted by user.",
		"compare_what": "File of activities as import takes it, those of a user one after another; - for standard input.",
		"file_kind":    "Kind to compare, such as block; others in the file are left out.",
		"sample":       "Candidates that are tried on each user with whom the user has nothing to do, 0 to 500.",
		"settle":       "How long what the app writes may take to be in both places, up to 10m.",
		"differences": "File for all differences, as NDJSON that import takes: what is missing to be added, what is too much to be removed; " +
			"- is standard output, and the report goes to standard error. Default: the first 20 on standard error",
		"export_kind":   "Only this kind. Default: all",
		"export_format": "ndjson, or resp: commands of Redis that make a set of each user.",
		"export_keys":   "For resp: what the keys are to look like, with {user} where the id is to stand: 'blocks:{user}'. Default: none",
		"export_scores": "For resp: make sorted sets, with seconds or milliseconds since 1970 as scores; or ignore.",
	}
}

// insideHelp is the text on the flags of inspect, rebuild and scrub alone.
func insideHelp() map[string]string {
	return map[string]string{
		"inside_ascii":   "Draw with ASCII alone, and without colours, as where the locale is not one of UTF-8. Default: off",
		"inspect_page":   "Number of the page, as explain has it, or inspect user.",
		"inspect_user":   "Id of the user.",
		"inspect_kind":   "Kind of the activity, such as block.",
		"inspect_target": "Id of the user or post that it is about.",
		"reshape_force":  "Allow more than 16 times the pages that are due for the keys there are.",
		"rebuild_page":   "Number of the page to make anew. Default: see below",
		"rebuild_user":   "Make anew the page that this user is on. Default: see below",
		"rebuild_all":    "Make all pages anew. Default: off",
	}
}

// healthHelp is the text on the flags of health alone.
func healthHelp() map[string]string {
	return map[string]string{
		"health_url":     "Where the service is; its /readyz is asked.",
		"health_timeout": "How long it may take to answer, above 0 and up to 1m.",
	}
}

// doctorHelp is the text on the flags of doctor alone.
func doctorHelp() map[string]string {
	return map[string]string{
		"doctor_timeout": "How long all checks may take together, 100ms to 1h; those that are not made by then count as failed.",
		"doctor_strict":  "Fail on warnings too. Default: off",
	}
}

// benchHelp is the text on the flags of bench alone.
func benchHelp() map[string]string {
	return map[string]string{
		"bench_redis": "Redis to measure on, as serve has it. Default: pages in the process",
		"bench_filter": "Name of the filter that is made, and removed at the end: begins with bench- and does not exist. " +
			"Default: bench- and a random number",
		"bench_activities": "Activities that are recorded first, each side of a block counted, 1000 to 100000000.",
		"bench_users":      "Users who have them, 10 or more; few have most. Default: one for 100 activities",
		"bench_duration":   "About how long each figure is measured, 10ms to 10m.",
		"bench_seed":       "Number that the activities and feeds follow from.",
	}
}

// planHelp is the text on the flags of plan alone.
func planHelp() map[string]string {
	return map[string]string{
		"plan_users":      "Users, 1 to 1e10.",
		"plan_activities": "Activities that the ledger keeps of a user (blocks, hides, likes), on average: 0 to 1e6.",
		"plan_feeds":      "Feed checks a second at the busiest time, 0 to 1e9.",
		"plan_rate": "Share of clean candidates that may be dropped wrongly, 1e-8 to 0.5; 0.001 is one in a thousand. " +
			"--rate is the same.",
		"plan_seen":    "Posts that a user sees a day, on average, if they are recorded: 0 to 1e5.",
		"plan_two_way": "Share of the activities that is two-way, as blocks are, and so is kept with both users: 0 to 1.",
		"plan_spread": "Standard deviation of how many activities a user has, over the mean: 0 to 30. A few have most; 3.2 in " +
			"the trace of docs/BENCHMARKS.md.",
		"plan_candidates": "Candidates of a feed, 1 to 10000. They matter to the service, exact sets and RedisBloom.",
		"plan_id_bytes":   "Length of the ids of users and posts, 1 to 256. It matters to PostgreSQL and exact sets.",
		"plan_pages": "Number of pages, a power of two from 1 to 2^24. Default: 16384, or as many as take 2048 keys each " +
			"on average",
		"plan_replicas":  "Replicas of each shard, 0 to 5.",
		"plan_fill":      "Share to use of the memory that is not reserved (75 % of a node's), 0.1 to 1.",
		"plan_node_gib":  "GiB of memory of a node, 0.1 to 100000.",
		"plan_node_gbit": "Gbit/s that a node can move each way at all times, to 10000. Default 0: unknown, and not kept to",
	}
}
