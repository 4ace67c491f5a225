package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/doctest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// document says how the commands of a document are run.
type document struct {
	serves  bool   // the test starts a service before the commands
	servers bool   // the test starts a Redis and a PostgreSQL before the commands
	app     bool   // the test starts a Redis and the PostgreSQL of an app before the commands
	by      string // the test that runs its blocks of sh; "": TestDocuments
	console string // why its blocks of console are not run; "": it has none
}

// documents returns the documents that have commands.
func documents() map[string]document {
	const makes = "they install, build and test everything, for minutes"
	return map[string]document{
		"README.md":           {},
		"docs/QUICKSTART.md":  {},
		"docs/KINDS.md":       {},
		"docs/API.md":         {serves: true},
		"docs/SECURITY.md":    {},
		"docs/SIZING.md":      {},
		"docs/ELASTICACHE.md": {console: "they need an account of AWS; TestIAM and TestLongSecureCluster have what stands in for it"},
		"docs/FOLLOW.md":      {app: true},
		"docs/MIGRATION.md":   {by: "TestLongMigrationGuide"},
		"docs/RELIABILITY.md": {console: "twenty minutes of faults, in short in make test-long"},
		"docs/OPERATIONS.md": {
			by:      "TestDrill and TestDrillRoutine of tools/monitoring",
			console: "it sets the shell up, as the drills do, and reads profiles, as TestProfiles of httpapi does",
		},
		"docs/DEPLOY.md":            {servers: true, console: "they need an engine of containers and a cluster; scripts/lint-containers does what goes without"},
		"docs/INSTALL.md":           {console: "they need what make dist makes; the tests of packaging install it"},
		"docs/PUBLISH.md":           {console: "they publish, with rights that only maintainers have"},
		"CONTRIBUTING.md":           {console: makes},
		"integration/README.md":     {console: makes},
		"tools/peers/README.md":     {console: makes},
		"examples/README.md":        {console: "TestExamples and TestWords of examples run them"},
		"examples/follow/README.md": {app: true},
		"infra/terraform/README.md": {console: "they need an account of AWS"},
	}
}

// TestDocuments runs the commands of documents as written, one after another, with the built
// feedfilter. Only the port is changed.
func TestDocuments(t *testing.T) {
	known := documents()
	for name, text := range doctest.Documents(t, "..") {
		d := known[name]
		if d.by != "" || !strings.Contains(text, "\n```sh\n") {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			port := servertest.ReservePort(t)
			c := doctest.Config{
				Replace: map[string]string{"127.0.0.1:8080": servertest.Addr(port)},
				Path:    []string{builtCommands(t)},
				Env:     []string{"FEEDFILTER_ADDR=" + servertest.Addr(port)},
				Timeout: 5 * time.Minute,
			}
			if d.serves {
				c.Replace["127.0.0.1:8080"] = strings.TrimPrefix(serve(t, "--data-dir", t.TempDir()).url, "http://")
			}
			if d.servers {
				c.Replace["redis://127.0.0.1:6379"] = redistest.Start(t).URL()
				c.Replace["postgres://feedfilter:secret@127.0.0.1:5432/feedfilter"] = "'" + pgtest.Start(t).Schema() + "'"
				for _, port := range []string{"8081", "8082"} {
					c.Replace[port] = fmt.Sprint(servertest.ReservePort(t))
				}
			}
			if d.app {
				c.Replace["redis://127.0.0.1:6379"] = redistest.Start(t).URL()
				c.Replace["127.0.0.1:5432"] = startAppDatabase(t).Addr()
				c.Files = filesToFollow(t, text)
			}
			doctest.Run(t, "../"+name, c)
		})
	}
}

// startAppDatabase starts a PostgreSQL with a database for the ledger, and one of an app with the
// tables of examples/follow/own.sql.
func startAppDatabase(t *testing.T) *pgtest.Server {
	t.Helper()
	server := pgtest.Start(t, "wal_level=logical")
	own, err := os.ReadFile("../examples/follow/own.sql")
	must(t, err)
	tables, _, _ := strings.Cut(string(own), "-- What following needs.")
	url := server.URL()
	for _, sql := range []string{
		"CREATE DATABASE template1 TEMPLATE template0", // as servers of readers have it
		"CREATE DATABASE feedfilter", "CREATE DATABASE app", tables,
	} {
		conn, err := pgx.Connect(t.Context(), url)
		must(t, err)
		_, err = conn.Exec(t.Context(), sql)
		must(t, errors.Join(err, conn.Close(t.Context())))
		if sql == "CREATE DATABASE app" {
			url = strings.Replace(url, "/postgres?", "/app?", 1)
		}
	}
	return server
}

// filesToFollow returns the files of examples/follow, and tables.json: the first block of JSON in
// the document.
func filesToFollow(t *testing.T, document string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	entries, err := os.ReadDir("../examples/follow")
	must(t, err)
	for _, entry := range entries {
		text, err := os.ReadFile("../examples/follow/" + entry.Name())
		must(t, err)
		files[entry.Name()] = string(text)
	}
	blocks, err := doctest.Blocks(document)
	must(t, err)
	if i := slices.IndexFunc(blocks, func(b doctest.Block) bool { return b.Info == "json" }); i >= 0 {
		files["tables.json"] = blocks[i].Text
	}
	return files
}

// builtCommands returns a directory with feedfilter and with a substitute for make. The substitute
// provides the built command at once instead of building it for minutes.
func builtCommands(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Symlink(command, filepath.Join(dir, "feedfilter")))
	script := `#!/bin/sh -e
case $1 in
build) mkdir bin && ln -s '` + command + `' bin/feedfilter ;;
run)
	feedfilter serve >feedfilter.log 2>&1 &
	feedfilter health --wait 1m
	;;
*) exit 1 ;;
esac
`
	must(t, os.WriteFile(filepath.Join(dir, "make"), []byte(script), 0o700))
	return dir
}

// TestCommandsOfDocuments checks that every command in a document is run, or that documents gives a
// reason for not running it.
func TestCommandsOfDocuments(t *testing.T) {
	known, targets := documents(), makeTargets(t)
	texts := doctest.Documents(t, "..")
	if len(texts) < 20 {
		t.Fatalf("only %d documents found: the path must be wrong", len(texts))
	}
	for name, text := range texts {
		d := known[name]
		blocks, err := doctest.Blocks(text)
		if err != nil {
			t.Errorf("%s:%v", name, err)
		}
		consoles := false
		for _, b := range blocks {
			consoles = consoles || b.Info == "console"
			if b.Info == "console" && d.console == "" {
				t.Errorf("%s:%d: no test runs these commands: make them sh, or give a reason in documents()", name, b.Line)
			}
			if problem := wrongWith(b); problem != "" && name != "docs/COMMAND.md" { // shows help texts
				t.Errorf("%s:%d: %s", name, b.Line, problem)
			}
		}
		if d.console != "" && !consoles {
			t.Errorf("%s has no console block; remove its reason in documents()", name)
		}
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(targets, m[1]) {
				t.Errorf("%s: the Makefile has no target for %s", name, strings.TrimSpace(m[0]))
			}
		}
	}
}

// wrongWith returns what is wrong with the info string of a block, or "".
func wrongWith(b doctest.Block) string {
	shown := commandLine.FindString(b.Text)
	switch {
	case b.Info == "sh" || b.Info == "console" || b.Info == "output":
		return ""
	case shown != "":
		return fmt.Sprintf("a block %q with a command, which nothing runs: %s", b.Info, shown)
	case b.Info == "" && b.Indented:
		return ""
	// Python and TypeScript code is tested with the clients that it shows.
	case !slices.Contains([]string{"json", "go", "hcl", "yaml", "text", "python", "ts"}, b.Info):
		return fmt.Sprintf("a block %q: sh is for commands that are run, console for those that are not", b.Info)
	}
	return ""
}

var (
	commandLine = regexp.MustCompile(`(?m)^ *(?:\$ |(?:[A-Z_]+=\S+ )*(?:feedfilter|make|go|curl|redis-cli|psql|docker|kubectl|helm|terraform|cd|export|node|python3) +\S).*`)
	makeTarget  = regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
)

func makeTargets(t *testing.T) (names []string) {
	t.Helper()
	makefile, err := os.ReadFile("../Makefile")
	must(t, err)
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		names = append(names, m[1])
	}
	return names
}
