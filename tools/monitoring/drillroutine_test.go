package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// routine is a task of the runbook that no alert asks for.
type routine struct {
	name    string
	prepare func(d *drill) // before the service starts; nil: nothing
	run     func(d *routineDrill)
}

// routineDrill is a drill of the runbook's part "Routine".
type routineDrill struct {
	*drill

	followed map[string]bool // blocks of commands, as "<heading> <number>"; numbers start at 1
}

// TestDrillRoutine runs the commands of the runbook's part "Routine", and checks their effect. The
// drill must run every block of commands.
func TestDrillRoutine(t *testing.T) {
	if os.Getenv("DRILL") == "" {
		t.Skip("it takes minutes: make drill")
	}
	bin := commands(t)
	postgres := pgtest.Start(t)
	followed := make(map[string]bool)
	for _, r := range routines() {
		t.Run(r.name, func(t *testing.T) {
			d := &routineDrill{newDrill(t, bin, postgres, nil), followed}
			if r.prepare != nil {
				r.prepare(d.drill)
			}
			d.start()
			d.await("feedfilter_scrub_rounds_total", above(0))
			r.run(d)
		})
	}
	if os.Getenv("DRILL") != "all" || t.Failed() {
		return
	}
	for heading, blocks := range routineBlocks(t) {
		for i := range blocks {
			if name := fmt.Sprint(heading, " ", i+1); !followed[name] {
				t.Errorf("%s: the drill did not run %s", runbook, name)
			}
		}
	}
}

// routineBlocks returns the blocks of commands below each heading of the part "Routine".
func routineBlocks(t *testing.T) map[string][]string {
	t.Helper()
	_, rest, _ := strings.Cut(read(t, runbook), "\n## Routine\n")
	part, _, ok := strings.Cut(rest, "\n## ")
	if !ok {
		t.Fatalf("%s has no part Routine, or no part after it", runbook)
	}
	all := make(map[string][]string)
	for _, section := range strings.Split(part, "\n### ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
			all[heading] = append(all[heading], block[1])
		}
	}
	return all
}

// follow runs one block of commands below a heading. The numbers of the blocks start at 1.
func (d *routineDrill) follow(heading string, number int, words map[string]string) {
	d.t.Helper()
	blocks := routineBlocks(d.t)[heading]
	if number > len(blocks) {
		d.t.Fatalf("%s: %q has %d blocks of commands", runbook, heading, len(blocks))
	}
	d.do("```sh\n"+blocks[number-1]+"```\n", words, nil)
	d.followed[fmt.Sprint(heading, " ", number)] = true
}

// shown asks for a feed with one post p<author> of each author. It returns the posts that the
// viewer is shown.
func (d *drill) shown(viewer string, authors ...string) string {
	d.t.Helper()
	type post struct {
		ID     string `json:"id"`
		Author string `json:"author"`
	}
	posts := make([]post, len(authors))
	for i, a := range authors {
		posts[i] = post{"p" + a, a}
	}
	var answer struct {
		Posts    []post `json:"posts"`
		Degraded []any  `json:"degraded"`
	}
	text := d.must(http.MethodPost, "/v1/feed/filter", map[string]any{"viewer": viewer, "posts": posts})
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Degraded) > 0 {
		d.t.Fatalf("%v: %s", err, text)
	}
	var shown []string
	for _, p := range answer.Posts {
		shown = append(shown, p.ID)
	}
	return strings.Join(shown, " ")
}

// shows fails unless the viewer is shown exactly the wanted posts of those authors.
func (d *drill) shows(viewer, want string, authors ...string) {
	d.t.Helper()
	if got := d.shown(viewer, authors...); got != want {
		d.t.Errorf("%s is shown %q of %q, want %q", viewer, got, authors, want)
	}
}

// within waits until holds returns true, and fails after the upper bound.
func (d *drill) within(most time.Duration, what string, holds func() bool) {
	d.t.Helper()
	for end := time.Now().Add(most); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("not so after %v: %s", most, what)
		}
	}
}

// withToken makes the service ask for tokens. The drill uses a token called app-1.
func withToken(d *drill) {
	file := d.path("feedfilter-tokens.json")
	d.settings["auth-file"] = file
	make := exec.Command(filepath.Join(d.bin, "feedfilter"), "token", "new", "--name", "app-1", "--scope", "feed:read,activity:write,ops:read,ops:write",
		"--auth-file", file) //nolint:gosec // our own
	token, err := make.Output()
	must(d.t, err)
	d.token = strings.TrimSpace(string(token))
}

// audit makes the service write an audit log.
func audit(d *drill) { d.settings["audit-log"] = d.path("feedfilter-audit.log") }

// inFile removes the ledger and Redis from the settings. The service then keeps the ledger and the
// pages in its own file.
func inFile(d *drill) {
	delete(d.settings, "ledger")
	delete(d.settings, "redis")
}

func routines() []routine {
	return []routine{
		{"tokens", withToken, func(d *routineDrill) {
			words := map[string]string{"app-2.token": d.path("app-2.token")}
			old := d.token
			d.follow("Rotate tokens", 1, words)
			d.token = strings.TrimSpace(read(d.t, d.path("app-2.token")))
			d.within(time.Minute, "the new token is good", func() bool { return d.feed("u1", 1, "") == http.StatusOK })
			d.token = old
			d.shows("1", "p2", "2")
			d.follow("Rotate tokens", 2, words)
			d.within(time.Minute, "the old token is refused", func() bool { return d.feed("u1", 1, "") == http.StatusUnauthorized })
			d.token = strings.TrimSpace(read(d.t, d.path("app-2.token")))
			d.shows("1", "p2", "2")
		}},
		{"logs", audit, func(d *routineDrill) {
			d.must(http.MethodPut, "/v1/users/1/blocks/2", nil)
			d.follow("Rotate logs", 1, nil)
			d.within(time.Minute, "there is a new audit log", func() bool { _, err := os.Stat(d.path("feedfilter-audit.log")); return err == nil })
			d.must(http.MethodPut, "/v1/users/1/blocks/3", nil)
			for name, lines := range map[string]int{"feedfilter-audit.log": 1, "feedfilter-audit.log.1": 1} {
				if got := strings.Count(read(d.t, d.path(name)), `"op":"add"`); got != lines {
					d.t.Errorf("%s has %d lines of writes, want %d", name, got, lines)
				}
			}
		}},
		{"backup of PostgreSQL", nil, func(d *routineDrill) { d.restored(1) }},
		{"backup of SQLite", inFile, func(d *routineDrill) { d.restored(2) }},
		{"upgrade", nil, func(d *routineDrill) {
			d.must(http.MethodPut, "/v1/users/1/blocks/2", nil)
			d.follow("Upgrade and roll back", 1, nil)
			d.shows("1", "p3", "2", "3")
		}},
		{"number of pages", nil, func(d *routineDrill) {
			d.batch("add", "hide", 50, 3)
			d.follow("Change the number of pages", 1, map[string]string{"65536": "128"})
			if text := string(d.must(http.MethodGet, "/v1/pages", nil)); !regexp.MustCompile(`"pages":128\b`).MatchString(text) {
				d.t.Errorf("the pages are %s", text)
			}
			for u := range 50 {
				d.shows(fmt.Sprint("u", u+1), "p3", "0", "1", "2", "3")
			}
		}},
		{"loss of Redis", nil, func(d *routineDrill) {
			d.batch("add", "hide", 50, 3)
			must(d.t, d.redis.Client().FlushAll(context.Background()).Err())
			d.follow("Redis is lost for good", 1, nil)
			d.moves("feedfilter_scrub_rounds_total", nil) // wait for the end of the current round
			found := d.sum("feedfilter_scrub_findings_total")
			d.moves("feedfilter_scrub_rounds_total", nil)
			if now := d.sum("feedfilter_scrub_findings_total"); now != found {
				d.t.Errorf("a later scrub round finds %v more pages", now-found)
			}
			d.shows("u1", "p3", "0", "1", "2", "3")
		}},
		{"another Redis", nil, func(d *routineDrill) {
			next := redistest.Start(d.t)
			host, port := hostPort(d.t, d.redis.Addr())
			d.env = []string{"NEW=" + next.URL(), "OLD_HOST=" + host, "OLD_PORT=" + port}
			d.must(http.MethodPut, "/v1/users/1/blocks/2", nil)
			d.must(http.MethodPost, "/v1/users/1/seen", map[string]any{"posts": []string{"p4"}})
			d.follow("Move Redis", 1, nil)
			d.redis.Kill()
			d.shows("1", "p3", "2", "3", "4")
		}},
		{"a post that is missing", audit, func(d *routineDrill) {
			d.must(http.MethodPut, "/v1/users/1/blocks/2", nil)
			d.follow("Why is this post missing, or shown?", 1, nil)
		}},
		{"capacity", nil, func(d *routineDrill) { d.follow("Capacity", 1, nil) }},
	}
}

// restored makes a backup of the ledger, records more, and restores the backup. The ledger must
// then hold what the backup holds. kind is the number of the runbook's block: 1 for PostgreSQL, 2
// for SQLite.
func (d *routineDrill) restored(kind int) {
	d.t.Helper()
	backup := d.t.TempDir()
	words := map[string]string{"/backup": backup}
	d.must(http.MethodPut, "/v1/users/1/blocks/2", nil)
	d.must(http.MethodPut, "/v1/users/1/hides/p3", nil)
	d.follow("Back up the ledger", kind, words)
	d.must(http.MethodPut, "/v1/users/1/blocks/4", nil)
	d.must(http.MethodDelete, "/v1/users/1/hides/p3", nil)
	d.shows("1", "p3 p5", "2", "3", "4", "5")
	d.follow("Restore the ledger", kind, words)
	d.follow("Restore the ledger", 3, words)
	d.shows("1", "p4 p5", "2", "3", "4", "5")
}
