package main

// resultHelp is the help of the flags about printing results.
func resultHelp() map[string]string {
	return map[string]string{
		"result_output": "Result format: text for people, json for programs.",
	}
}

// aboutHelp is the help of config and completion.
func aboutHelp() map[string]string {
	return map[string]string{
		"config_check":   "Check the settings of the service: print ok, or every mistake and exit with 2.",
		"config_print":   "Print all settings of the service and their sources.",
		"config_secrets": "Print passwords instead of ***. Default: off",

		"completion_shell": "bash, zsh or fish.",
	}
}

// migrateHelp is the help of the flags of import sets, compare and export.
func migrateHelp() map[string]string {
	return map[string]string{
		"import_file": "Import activities from a CSV or NDJSON file (default command).",
		"import_sets": "Import an app's exact sets, one per user, from Redis.",
		"from":        "Redis that has the sets: a URL as for --redis, except elasticache://.",
		"keys": "Pattern of the sets' keys, with {user} for the id: 'blocks:{user}', or 'blocks:{{user}}' with a hash tag. " +
			"All other characters are literal.",
		"sets_kind":    "Kind of the activities, such as block.",
		"scores":       "Meaning of scores in sorted sets: time of the activity in seconds or milliseconds since 1970, or ignore.",
		"compare_sets": "Compare an app's exact sets in Redis with the ledger of a service.",
		"settle":       "How long a write may take to reach both sides, 0s to 10m.",
		"export_kind":  "Export only this kind. Default: all",
	}
}

// insideHelp is the help of the flags that only inspect, rebuild, scrub and reshape have.
func insideHelp() map[string]string {
	return map[string]string{
		"inspect_page":   "Number of the page, as explain or debug inspect user shows it.",
		"inspect_user":   "Id of the user.",
		"inspect_kind":   "Kind of the activity, such as block.",
		"inspect_target": "Id of the target, a user or post.",
		"reshape_force":  "Allow more than 16 times the pages that the number of keys needs.",
		"rebuild_page":   "Rebuild the page with this number. Default: none",
		"rebuild_user":   "Rebuild the page of this user. Default: none",
		"rebuild_all":    "Rebuild all pages. Default: off",
	}
}

// healthHelp is the help of the flags of health.
func healthHelp() map[string]string {
	return map[string]string{
		"health_server":  "URL of the service; the command asks its /readyz. Default: the first address of --addr, as serve has it.",
		"health_wait":    "How long to ask again until the service can answer feeds.",
		"health_timeout": "Time limit for the answer, above 0s and up to 1m.",
	}
}

// doctorHelp is the help of the flags of doctor.
func doctorHelp() map[string]string {
	return map[string]string{
		"doctor_timeout": "Time limit for all checks together, 100ms to 1h; unfinished checks fail.",
		"doctor_strict":  "Fail on warnings too. Default: off",
	}
}

// benchHelp is the help of the flags of bench.
func benchHelp() map[string]string {
	return map[string]string{
		"bench_redis":      "Redis to measure, a URL as for serve. Default: pages in the process",
		"bench_activities": "Activities to record first, 1000 to 100000000; a block counts twice.",
		"bench_duration":   "Time to measure each figure, 10ms to 10m.",
	}
}

// planHelp is the help of the flags of plan.
func planHelp() map[string]string {
	return map[string]string{
		"plan_users":      "Users, 1 to 1e10.",
		"plan_activities": "Mean number of a user's activities in the ledger (blocks, hides, likes), 0 to 1e6.",
		"plan_feeds":      "Feed checks per second at peak, 0 to 1e9.",
		"plan_p":          "Share of clean candidates that may be dropped wrongly, 1e-8 to 0.5. Also --rate.",
		"plan_seen":       "Mean number of posts that a user sees a day and that are recorded, 0 to 1e5.",
		"plan_two_way":    "Share of activities that are two-way, such as blocks, and are stored for both users, 0 to 1.",
		"plan_spread": "Standard deviation of activities per user, divided by the mean: 0 to 30. It is 3.2 in the trace of " +
			"docs/BENCHMARKS.md: few users have most.",
		"plan_candidates": "Candidates of a feed, 1 to 10000. Affects the service.",
		"plan_id_bytes":   "Length of user and post ids, 1 to 256 bytes. Affects PostgreSQL.",
		"plan_pages":      "Number of pages, a power of two from 1 to 2^24. Default: 16384, or what gives 2048 keys each on average",
		"plan_replicas":   "Replicas of each shard, 0 to 5.",
		"plan_fill":       "Share to use of a node's memory that is not reserved (75 % of it), 0.1 to 1.",
		"plan_node_gib":   "Memory of a node in GiB, 0.1 to 100000.",
		"plan_node_gbit":  "Sustained network rate of a node in Gbit/s each way, 0 to 10000; 0: no limit.",
	}
}
