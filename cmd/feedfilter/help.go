package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

const description = "Filters feeds: users block each other, hide, like and see posts, and a feed check " +
	"tells which of hundreds of candidates a viewer must not see. Every flag can also be set in the " +
	"environment, as FEEDFILTER_<FLAG>, or in a file (--config); a flag wins over the environment, and " +
	"that over the file."

// flagHelp is the text on each flag and argument, for the tags to refer to. Defaults
// that the tags give are added to it by withDefault.
func flagHelp() kong.Vars {
	return kong.Vars{
		"data_dir": "Directory of the ledger.",
		"ledger": "Where the ledger is: sqlite:<file>, for one process, or postgres://<user>:<password>@<host>/<database>, for " +
			"many. Default: sqlite:<data-dir>/ledger.db",
		"restored": "To be given once after the ledger was put back from a backup: pages made from what it was " +
			"before count for nothing. Default: off",
		"redis": "Where the pages are: redis://<host>:<port>, redis+cluster://<host>:<port>,<host>:<port>, " +
			"redis+sentinel://<host>:<port>,<host>:<port>/<primary>, each with rediss for TLS, or unix://<socket>. " +
			"Default: in the process",
		"filter": "Name of the filter in Redis, 1 to 64 letters, digits, '-', '_' or '.'.",
		"pages": "Number of pages, a power of two from 1 to 2^24, fixed when the data is made. " +
			"Default: what the data was made with, 16384 for new data",
		"rate": "Share of clean candidates that may be dropped wrongly, 1e-8 to 0.5; 0.001 is one in a thousand.",
		"bound": "How old what a process knows of the ledger may get, 10ms to 1m: a write that another process acknowledged, and " +
			"whose page was lost or not reached, is seen this long after it. The same for all processes of one ledger.",
		"scrub":  "Pages a second that are compared with the ledger in the background, 1 to 100000.",
		"level":  "Least level that is logged: debug, info, warn or error.",
		"config": "JSON object of flags by name, such as {\"pages\":1024}. Default: none",

		"addr": "Address to listen on; port 0 picks a free one.",
		"no_auth": "Allow an --addr that other machines can reach: whoever does may read and change everything. " +
			"Default: off",
		"max_requests": "Requests in progress at a time; one more is answered 503 at once. Probes and /v1/stats are not counted.",
		"max_connections": "Connections served at a time; further ones wait in the system's backlog until one of those ends, " +
			"and so do probes on them.",
		"shutdown": "How long requests in flight may take to finish after SIGTERM or SIGINT, such as 15s or 1m.",

		"file": "File of activities; - for standard input. CSV: user,kind,target[,op], with an optional header. " +
			`NDJSON: {"user","kind","target","op"} a line. op is add, if it is missing, or remove.`,
		"format":   "csv or ndjson; needed for standard input. Default: by the file's extension",
		"on_error": "What happens at a bad line: stop, with the lines before it imported, or skip it and report it.",
		"batch":    "Number of activities recorded at a time, 1 to 10000.",
		"restart":  "Begin at the start of the file, whatever an earlier import of it has done. Default: off",
	}
}

// withDefault is the text on a flag with its default and its variable.
func withDefault(value *kong.Value) string {
	text := value.Help
	if value.Flag != nil && value.Default != "" {
		text += " Default: " + value.Default
	}
	if len(value.Tag.Envs) > 0 {
		text += " ($" + strings.Join(value.Tag.Envs, ", $") + ")"
	}
	return text
}
