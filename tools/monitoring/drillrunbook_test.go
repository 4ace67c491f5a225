package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/doctest"
)

// follow runs the commands of an alert's section of the runbook as they are. Those under "Do" must
// succeed. Those under "Check" may fail, because something is wrong, but the commands and their
// flags must exist.
func (d *drill) follow(alert string, replace map[string]string, files map[string]string) {
	d.t.Helper()
	section := regexp.MustCompile(`(?ms)^### ` + alert + `\n(.*?)^##`).FindStringSubmatch(read(d.t, runbook))
	if section == nil {
		d.t.Fatalf("%s has no section %s", runbook, alert)
	}
	parts := regexp.MustCompile("(?s)\nCheck:\n\n```sh\n(.*?)```\n\nDo:\n\n```sh\n(.*?)```").FindStringSubmatch(section[1])
	if parts == nil {
		d.t.Fatalf("%s: %s has no commands under Check and Do", runbook, alert)
	}
	const lenient = `set +e +o pipefail
trap 'code=$?; case $code in 126|127) exit $code;; 2) [[ $BASH_COMMAND != feedfilter* && $BASH_COMMAND != doctor ]] || exit $code;; esac' ERR
`
	document := "```sh\n" + lenient + parts[1] + "```\n\n```sh\ntrap - ERR\nset -e -o pipefail\n" + parts[2] + "```\n"
	d.do(document, replace, files)
}

// shell returns the block of the runbook that sets up a shell. It defines functions that other
// commands call.
func (d *drill) shell() string {
	d.t.Helper()
	block := regexp.MustCompile("(?s)\n## Your shell\n.*?(```sh\n.*?```\n)").FindStringSubmatch(read(d.t, runbook))
	if block == nil {
		d.t.Fatalf("%s does not set up a shell", runbook)
	}
	return block[1]
}

// do runs the commands of a document in a shell that the runbook's block has set up.
func (d *drill) do(document string, replace, files map[string]string) {
	d.t.Helper()
	file := d.path("section.md")
	must(d.t, os.WriteFile(file, []byte(d.shell()+"\n"+document), 0o600))
	words := map[string]string{
		"/etc/feedfilter": d.path("feedfilter"), "/var/log/feedfilter": d.path("feedfilter"), "/var/lib/feedfilter": d.path("data"),
	}
	maps.Copy(words, replace)
	control := httptest.NewServer(http.HandlerFunc(d.control))
	defer control.Close()
	ledger, _ := d.settings["ledger"].(string)
	doctest.Run(d.t, file, doctest.Config{
		Replace: words, Path: []string{d.bin}, Files: files, Timeout: 5 * time.Minute,
		Env: append([]string{
			"FEEDFILTER_SERVER=" + d.url(), "FEEDFILTER_TOKEN=" + d.token, "REDIS=" + d.redis.URL(),
			"LEDGER=" + ledger, "DRILL=" + control.URL, "DRILL_LOG=" + d.path("serve.log"),
		}, d.env...),
	})
}

// control is the HTTP handler behind the substitute for systemctl.
func (d *drill) control(w http.ResponseWriter, r *http.Request) {
	var err error
	switch r.URL.Path {
	case "/restart/feedfilter":
		d.stop()
		err = d.launch()
	case "/stop/feedfilter":
		err = d.terminate()
	case "/start/feedfilter":
		err = d.launch()
	case "/reload/feedfilter":
		err = d.reload()
	case "/restart/redis-server":
		d.redis.Kill()
		d.redis.Restart()
	case "/restart/postgresql":
		d.postgres.Kill()
		d.postgres.Restart()
	case "/status/feedfilter":
	default:
		err = fmt.Errorf("systemctl: unknown request %s", r.URL.Path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// commands returns a directory with feedfilter and with substitutes for systemctl and journalctl.
// The substitutes act on the processes of the drill.
func commands(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "feedfilter"), "./cmd/feedfilter")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for name, text := range map[string]string{
		"systemctl":  "#!/bin/sh\nexec curl -fsS -X POST \"$DRILL/$1/$2\"\n",
		"journalctl": "#!/bin/sh\nexec cat \"$DRILL_LOG\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // an executable
			t.Fatal(err)
		}
	}
	return dir
}
