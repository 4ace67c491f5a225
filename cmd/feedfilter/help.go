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
  0        All was done, and all is as it has to be.
  1        It failed, or something was found not to be as it has to be.
  2        The settings cannot be followed; nothing was begun.
  128 + n  Signal number n ended it early: 130 is SIGINT, 143 SIGTERM.
`

const description = "Filters feeds: users block each other, hide, like and see posts, and a feed check " +
	"tells which of hundreds of candidates a viewer must not see.\n\n" +
	"Every flag of a command that has --config can also be set in the environment, as FEEDFILTER_<FLAG>, " +
	"or in a file, a JSON object of flags by name. A flag wins over the environment, and the environment " +
	"over the file. Unknown names are refused."

// helpTexts are the texts on flags and arguments, by the names that the tags have for them. Defaults that the tags give are added
// by withDefault.
func helpTexts() map[string]string {
	all := make(map[string]string)
	for _, some := range []map[string]string{
		dataHelp(), serveHelp(), accessHelp(), tokenHelp(), watchHelp(), fileHelp(), migrateHelp(), serviceHelp(), insideHelp(),
		resultHelp(), aboutHelp(), planHelp(), healthHelp(), doctorHelp(), benchHelp(),
	} {
		maps.Copy(all, some)
	}
	return all
}

// flagHelp puts the texts where the tags have help:"${name}". kong.Vars would do that too, but expands all of them for each
// flag there is: a tenth of a second whenever the program starts.
func flagHelp() kong.Option { //nolint:ireturn // as kong has it
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

// putText puts a text in the place of its name.
func putText(help *string, texts map[string]string) error {
	name, ok := strings.CutPrefix(*help, "${")
	if !ok {
		return nil
	}
	text, ok := texts[strings.TrimSuffix(name, "}")]
	if !ok {
		return fmt.Errorf("there is no text %s", *help)
	}
	*help = strings.ReplaceAll(text, "$", "$$") // kong expands what is left
	return nil
}

// dataHelp is the text on the flags that say where the data is.
func dataHelp() map[string]string {
	return map[string]string{
		"data_dir": "Directory of the ledger and, without --redis, of what was seen.",
		"ledger": "Where the ledger is: sqlite:<file>, for one process, or postgres://<user>:<password>@<host>/<database>, for " +
			"many; or none, for a plain filter: see docs/ARCHITECTURE.md. Default: sqlite:<data-dir>/ledger.db",
		"restored": "To be given once after the ledger was put back from a backup: pages made from what it was " +
			"before count for nothing. Default: off",
		"redis": "Where the pages are: redis://<host>:<port>, redis+cluster://<host>:<port>,<host>:<port>, " +
			"redis+sentinel://<host>:<port>,<host>:<port>/<primary>, each with rediss for TLS, unix://<socket>, or " +
			"elasticache://<replication group> or elasticache-serverless://<cache>, with ?region=<region> and user=<user>: " +
			"see docs/ELASTICACHE.md. Default: in the process",
		"filter": "Name of the filter in Redis, 1 to 64 letters, digits, '-', '_' or '.'.",
		"pages": "Number of pages that users share, a power of two from 1 to 2^24: of new data, of what is there already, or, to reshape, " +
			"what is asked for. Default: what the data has, 16384 for new data",
		"kinds": "JSON file of kinds of activities beside block, hide, like and seen, and of limits: see docs/KINDS.md. " +
			"Default: none",
		"rate": "Share of clean candidates that may be dropped wrongly, 1e-8 to 0.5; 0.001 is one in a thousand.",
		"bound": "How old what a process knows of the ledger may get, 10ms to 1m: a write that another process acknowledged, and " +
			"whose page was lost or not reached, is seen this long after it. The same for all processes of one ledger.",
		"scrub": "Pages a second that are compared with the ledger in the background, 1 to 100000.",
		"own":   "Keys of one user above which the user gets a dedicated page, 16 or more: others need not read it then.",
		"cache": "MiB of pages from Redis that are held in this process, so that a viewer who comes back costs no round trip; 0: none. " +
			"The same for all processes of one ledger: with it, those of a ledger on PostgreSQL acknowledge writes after --staleness-bound.",
		"level":      "Least level that is logged: debug, info, warn or error.",
		"format_log": "How a line is logged: json, or text for people to read.",
		"config":     "JSON object of flags by name, such as {\"pages\":1024}. Default: none",
	}
}

// serveHelp is the text on the flags of serve alone.
func serveHelp() map[string]string {
	return map[string]string{
		"addr": "Addresses to listen on, with commas between: HOST:PORT, where port 0 picks a free one, and unix:PATH, a socket for " +
			"programs on this machine. A socket is without TLS; its mode says who may use it.",
		"socket_mode":  "Mode of sockets of --addr, in octal.",
		"max_requests": "Requests in progress at a time; one more is answered 503 at once. Probes and /v1/stats are not counted.",
		"max_connections": "Connections served at a time; further ones wait in the system's backlog until one of those ends, " +
			"and so do probes on them. Three quarters of the files that the process may have open, if those are fewer.",
		"shutdown": "How long requests in flight may take to finish after SIGTERM or SIGINT, such as 15s or 1m.",
	}
}

// fileHelp is the text on the flags of import file and of export.
func fileHelp() map[string]string {
	return map[string]string{
		"file": "File of activities; - for standard input. CSV: user,kind,target[,op]; or with a header, in any order, and " +
			`also since and until. NDJSON: {"user","kind","target","op","since","until"} a line. op is add, if it is missing, ` +
			"or remove; since and until are times such as 2027-01-01T00:00:00Z.",
		"format":   "csv or ndjson; needed for standard input. Default: by the file's extension",
		"on_error": "What happens at a bad line: stop, with the lines before it imported, or skip it and report it.",
		"batch":    "Number of lines recorded at a time, up to 1000000; 0: as many as suit the ledger. On PostgreSQL never more than 10000.",
		"user":     "Only what this user has. Default: everything",
		"to":       "File to write, which appears when it is whole, in place of an older one; - is standard output.",
		"restart":  "Begin at the start of the file, whatever an earlier import of it has done. Default: off",
	}
}

// serviceHelp is the text on the flags that name a service.
func serviceHelp() map[string]string {
	return map[string]string{
		"server": "Where a service runs that is to do it, such as http://127.0.0.1:8080: needed where its ledger is SQLite or its " +
			"pages are in its process. Default: this command does it",
	}
}

// printHelp prints kong's help, and below that of the program its exit statuses.
func printHelp(options kong.HelpOptions, command *kong.Context) error {
	err := kong.DefaultHelpPrinter(options, command)
	if err == nil && command.Selected() == nil {
		_, err = fmt.Fprint(command.Stdout, exitStatus)
	}
	return err
}

// withDefault is the text on a flag with its default and its variable.
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
