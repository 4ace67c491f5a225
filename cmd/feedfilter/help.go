package main

import (
	"fmt"
	"maps"
	"strings"

	"github.com/alecthomas/kong"
)

// exitStatus is printed below the help of the program.
const exitStatus = `
Exit status:
  0        The command succeeded and found nothing wrong.
  1        The command failed, or found something wrong.
  2        The settings are invalid; nothing was done.
  128 + n  Signal n ended the command: 130 is SIGINT, 143 SIGTERM.
`

const description = "Filters feeds: users block each other, hide, like and see posts, and a feed check " +
	"tells which of hundreds of candidates a viewer must not see.\n\n" +
	"Every flag of a command that has --config can also be set in the environment, as FEEDFILTER_<FLAG>, " +
	"or in a JSON file of flags by name. A flag overrides the environment, and the environment overrides the file. " +
	"Unknown names are refused."

// helpTexts returns the help of all flags and arguments, by the names that the tags use.
// withDefault adds the defaults of the tags.
func helpTexts() map[string]string {
	all := make(map[string]string)
	for _, some := range []map[string]string{
		dataHelp(), serveHelp(), accessHelp(), tokenHelp(), watchHelp(), fileHelp(), migrateHelp(), serviceHelp(), insideHelp(),
		resultHelp(), aboutHelp(), planHelp(), healthHelp(), doctorHelp(), benchHelp(), followHelp(),
	} {
		maps.Copy(all, some)
	}
	return all
}

// flagHelp replaces help:"${name}" in the tags by the texts. kong.Vars does the same, but expands
// every text for every flag, which takes a tenth of a second at each start.
func flagHelp() kong.Option { //nolint:ireturn // the type that kong takes
	return kong.PostBuild(func(k *kong.Kong) error {
		texts := helpTexts()
		return kong.Visit(k.Model, func(visited kong.Visitable, next kong.Next) error {
			switch of := visited.(type) {
			case *kong.Value:
				return next(putText(&of.Help, texts))
			case *kong.Node:
				return next(putText(&of.Help, texts))
			default:
				return next(nil)
			}
		})
	})
}

// putText replaces the name of a text by the text.
func putText(help *string, texts map[string]string) error {
	name, ok := strings.CutPrefix(*help, "${")
	if !ok {
		return nil
	}
	text, ok := texts[strings.TrimSuffix(name, "}")]
	if !ok {
		return fmt.Errorf("no help text for %s", *help)
	}
	*help = strings.ReplaceAll(text, "$", "$$") // kong expands the remaining text
	return nil
}

// dataHelp is the help of dataFlags.
func dataHelp() map[string]string {
	return map[string]string{
		"data_dir": "Directory of the ledger and, without --redis, of seen posts.",
		"ledger": "sqlite:<file> for one process, postgres://<user>:<password>@<host>/<database> for many, or none for a plain " +
			"filter (docs/ARCHITECTURE.md). Default: sqlite:<data-dir>/ledger.db",
		"restored": "Give once after the ledger was restored from a backup or replaced: all pages are then rebuilt. Default: off",
		"redis": "Redis of the pages: redis://<host>:<port>, redis+cluster://<host>:<port>,<host>:<port>, " +
			"redis+sentinel://<host>:<port>,<host>:<port>/<primary> (each also with rediss, for TLS), unix://<socket>, " +
			"elasticache://<replication group> or elasticache-serverless://<cache>, with ?region=<region>&user=<user> " +
			"(docs/ELASTICACHE.md). Default: pages in the process",
		"filter": "Name of the filter in Redis: 1 to 64 letters, digits, '-', '_' or '.'.",
		"pages": "Number of shared pages, a power of two from 1 to 2^24. Existing data must have this number, except for reshape. " +
			"Default: the data's, 16384 for new data",
		"kinds": "JSON file of limits, and of kinds besides block, hide, like and seen (docs/KINDS.md). Default: none",
		"rate":  "Share of clean candidates that may be dropped wrongly, 1e-8 to 0.5.",
		"bound": "Maximum age of a process's view of the ledger, 10ms to 1m: when a page is lost or unreachable, writes of other " +
			"processes take this long to appear. Equal in all processes of a ledger.",
		"scrub":     "Pages per second that the scrub compares with the ledger, 1 to 100000.",
		"dedicated": "Keys above which a user gets a dedicated page, 16 or more.",
		"lists": "MiB of pages to hold in this process, 1 to 1048576: those of shared lists, of fan-out, of users with many " +
			"activities, and those built while Redis is down.",
		"level":      "Lowest level to log: debug, info, warn or error.",
		"format_log": "Log format: json, or text for people.",
		"config":     "JSON file of flags by name, such as {\"pages\":1024}. Default: none",
	}
}

// serveHelp is the help of the flags that only serve has.
func serveHelp() map[string]string {
	return map[string]string{
		"addr": "Addresses to listen on, separated by commas: HOST:PORT (port 0 picks a free one) or unix:PATH, a socket " +
			"without TLS, whose mode says who may use it.",
		"socket_mode": "Octal mode of the sockets of --addr, 0 to 0777.",
		"max_requests": "Maximum requests in flight, 1 to 1000000; further ones are answered 503 at once. " +
			"Probes and /v1/stats are not counted.",
		"max_connections": "Maximum open connections, 1 to 1000000, but at most three quarters of the open-files limit. " +
			"Further ones replace those that have been idle for the longest time.",
		"shutdown": "How long requests in flight may take to finish after SIGTERM or SIGINT, 0s or more.",
	}
}

// fileHelp is the help of the flags of import file and of export.
func fileHelp() map[string]string {
	return map[string]string{
		"file": "File of activities; - for standard input. CSV: user,kind,target[,op], or columns in any order below a header, " +
			`which may have since and until; a first line that is not an activity is a header. ` +
			`NDJSON: {"user","kind","target","op","since","until"} per line. ` +
			"op is add (the default) or remove; since and until are times such as 2027-01-01T00:00:00Z.",
		"format": "csv or ndjson; required for standard input. Default: by the file's extension",
		"on_error": "What to do at a bad line: stop, after importing the lines before it, or skip it and report it. " +
			"An unknown header always stops. If every line is bad, the import fails.",
		"batch":   "Lines recorded at a time, 0 to 200000; 0 chooses by the ledger. At most 10000 on PostgreSQL.",
		"user":    "Export only this user's activities. Default: everything",
		"to":      "File to write, replaced only once complete; - is standard output.",
		"restart": "Ignore earlier imports of the file and begin at its start. Default: off",
	}
}

// serviceHelp is the help of the flags that name a service.
func serviceHelp() map[string]string {
	return map[string]string{
		"server": "Service that does the work, such as http://127.0.0.1:8080: required if its ledger is SQLite or its " +
			"pages are in its process. Default: this command does the work",
	}
}

// printHelp prints kong's help, and the exit statuses below the program's help.
func printHelp(options kong.HelpOptions, command *kong.Context) error {
	err := kong.DefaultHelpPrinter(options, command)
	if err == nil && command.Selected() == nil {
		_, err = fmt.Fprint(command.Stdout, exitStatus)
	}
	return err
}

// withDefault returns the help of a flag, with its default and its variable.
func withDefault(value *kong.Value) string {
	text := value.Help
	if value.Flag != nil && value.Default != "" {
		text += " Default: " + value.Default
	}
	if value.Flag != nil && len(value.Flag.Envs) > 0 {
		text += " ($" + strings.Join(value.Flag.Envs, ", $") + ")"
	}
	return text
}
