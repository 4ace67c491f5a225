package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/doctor"
	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// doctorResult is a result in --output json.
type doctorResult struct {
	Name       string  `json:"name"`
	Status     string  `json:"status"`
	Found      string  `json:"found"`
	Todo       string  `json:"todo"`
	DurationMS float64 `json:"duration_ms"`
}

// diagnosis is what doctor --output json prints.
type diagnosis struct {
	OK     bool           `json:"ok"`
	Checks []doctorResult `json:"checks"`
	err    error
}

// diagnose runs doctor in this process.
func diagnose(t *testing.T, args ...string) diagnosis {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer out.Close()
	var commands cli
	std := stdio{os.Stdin, out, os.Stderr}
	parser, err := newParser(&commands, std)
	must(t, err)
	args = append([]string{"doctor", "--output=json", "--data-dir", filepath.Join(t.TempDir(), "none")}, args...)
	if _, err := parser.Parse(args); err != nil {
		t.Fatal(err)
	}
	err = commands.Doctor.Run(t.Context(), std)
	text, readErr := os.ReadFile(out.Name())
	must(t, readErr)
	return readDiagnosis(t, text, err)
}

func readDiagnosis(t *testing.T, text []byte, err error) diagnosis {
	t.Helper()
	g := diagnosis{err: err}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	if g.OK != (g.err == nil) {
		t.Errorf("ok is %v, with %v", g.OK, g.err)
	}
	for _, c := range g.Checks {
		if (c.Status == "warn" || c.Status == "fail") != (c.Todo != "") {
			t.Errorf("%s %s: %s: what to do: %q", c.Status, c.Name, c.Found, c.Todo)
		}
	}
	return g
}

func (g diagnosis) check(t *testing.T, name string) doctorResult {
	t.Helper()
	for _, c := range g.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %q among %v", name, g.Checks)
	return doctorResult{}
}

// want fails the test unless the check has the status and its text contains all parts.
func (g diagnosis) want(t *testing.T, name, status string, parts ...string) {
	t.Helper()
	c := g.check(t, name)
	if c.Status != status {
		t.Errorf("%s: %s, want %s: %s -> %s", name, c.Status, status, c.Found, c.Todo)
	}
	wantContains(t, c.Found+" -> "+c.Todo, parts...)
}

// wantOnly fails the test unless exactly the named checks failed.
func (g diagnosis) wantOnly(t *testing.T, failed ...string) {
	t.Helper()
	var got []string
	for _, c := range g.Checks {
		if c.Status == "fail" {
			got = append(got, c.Name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(failed) {
		t.Errorf("failed: %v, want %v: %v", got, failed, g.Checks)
	}
	if (g.err == nil) != (len(failed) == 0) {
		t.Errorf("error %v", g.err)
	}
}

// do sends a command, whose name and arguments are the words of text.
func do(t *testing.T, server *redistest.Server, text string) {
	t.Helper()
	var args []any
	for word := range strings.FieldsSeq(text) {
		args = append(args, word)
	}
	if err := server.Client().Do(t.Context(), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%s: %v", text, err)
	}
}

// A single server is checked in good health, and with one fault at a time.
func TestDoctorServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	t.Run("well", func(t *testing.T) {
		before := s.CommandStats()
		g := diagnose(t, "--redis", s.URL())
		g.wantOnly(t)
		g.want(t, "redis", "ok", s.Addr()+" answered in ", "Redis ", "without a password")
		g.want(t, "tls", "ok", "on a private network")
		g.want(t, "topology", "warn", "primary, replicas: 0", "are rebuilt from the ledger")
		g.want(t, "memory", "ok", "no limit set", "policy noeviction")
		g.want(t, "commands", "ok", "EVALSHA", "concurrent scripts lost no update")
		g.want(t, "pages", "ok", "16 pages", "none exists yet: activities create them")
		if keys, err := s.Client().DBSize(t.Context()).Result(); err != nil || keys != 0 {
			t.Errorf("%d keys were left, %v", keys, err)
		}
		for name := range s.CommandStats() {
			if _, asked := before[name]; asked {
				continue
			}
			switch name, _, _ := strings.Cut(name, "|"); name { // commands that some caches refuse
			case "config", "select", "monitor", "memory", "acl", "keys", "scan", "debug", "latency", "slowlog", "object", "wait":
				t.Errorf("%s was sent", name)
			}
		}
	})
	for _, c := range []struct {
		name, set, reset string
		failed           []string
		check, status    string
		says             string
	}{
		{"allkeys", "CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction", []string{"memory"}, "memory", "fail", "pages that Redis loses"},
		{"volatile", "CONFIG SET maxmemory-policy volatile-lru", "CONFIG SET maxmemory-policy noeviction", nil, "memory", "warn", "`seen` windows may be evicted early; blocks are not"},
		{"full", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", []string{"commands"}, "memory", "warn", "more memory"},
		{"roomy", "CONFIG SET maxmemory 1024gb", "CONFIG SET maxmemory 0", nil, "memory", "ok", "of 1048576.0 MiB used, 0 %"},
		{"out of memory", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", []string{"commands"}, "commands", "fail", "it is full"},
		{"damaged", "SET fav:{feed/0}:bits rubbish", "DEL fav:{feed/0}:bits", nil, "pages", "warn", "1 damaged"},
		{"other pages", "SET fav:{other/0}:bits rubbish", "DEL fav:{other/0}:bits", nil, "pages", "ok", "none exists yet"},
		{"no password given", "CONFIG SET requirepass secret", "", []string{"redis"}, "redis", "fail", "Give a user and password"},
	} {
		t.Run(c.name, func(t *testing.T) {
			do(t, s, c.set)
			if c.reset != "" {
				defer do(t, s, c.reset)
			}
			g := diagnose(t, "--redis", s.URL())
			g.wantOnly(t, c.failed...)
			g.want(t, c.check, c.status, c.says)
		})
	}
}

// Doctor counts evicted keys.
func TestDoctorEvicted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	do(t, s, "CONFIG SET maxmemory-policy allkeys-random")
	do(t, s, "SET victim 1")
	do(t, s, "CONFIG SET maxmemory 1")
	_ = s.Client().Set(t.Context(), "another", 1, 0).Err() // tries to free memory, without success
	do(t, s, "CONFIG SET maxmemory 0")
	do(t, s, "CONFIG SET maxmemory-policy noeviction")
	g := diagnose(t, "--redis", s.URL())
	g.wantOnly(t)
	g.want(t, "memory", "warn", "noeviction", "keys evicted")
}

// If a user lacks permissions, doctor names the failed check and the missing permissions.
func TestDoctorPermissions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	do(t, s, "ACL SETUSER svc on >pass "+doctor.AccessRule("feed"))
	url := strings.Replace(s.URL(), "redis://", "redis://svc:pass@", 1)
	diagnose(t, "--redis", url).wantOnly(t)
	for _, c := range []struct {
		lacks  string
		failed []string
		status string // of the check
		check  string
	}{
		{"-ping", []string{"redis"}, "fail", "redis"},
		{"-eval", []string{"commands"}, "fail", "commands"},
		{"-evalsha", []string{"commands"}, "fail", "commands"},
		{"-bitfield", []string{"commands"}, "fail", "commands"},
		{"-setrange", []string{"commands"}, "fail", "commands"},
		{"-mget", []string{"commands", "pages"}, "fail", "commands"},
		{"-info", nil, "skip", "memory"},
		{"-cluster|info", nil, "warn", "topology"},
		{"resetkeys ~fav:{other/*", []string{"commands", "pages"}, "fail", "commands"},
	} {
		t.Run(c.lacks, func(t *testing.T) {
			do(t, s, "ACL SETUSER svc "+c.lacks)
			g := diagnose(t, "--redis", url)
			do(t, s, "ACL SETUSER svc resetkeys "+doctor.AccessRule("feed"))
			g.wantOnly(t, c.failed...)
			g.want(t, c.check, c.status)
			if c.status == "fail" {
				g.want(t, c.check, c.status, doctor.AccessRule("feed"))
			}
		})
	}
	g := diagnose(t, "--redis", strings.Replace(url, ":pass@", ":secret@", 1))
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "WRONGPASS", "Correct the user or password")
	g.want(t, "commands", "skip", "failed checks above")
	if text := fmt.Sprint(g); strings.Contains(text, "secret") {
		t.Errorf("the password shows: %s", text)
	}
}

// The permissions that doctor recommends are enough for the service.
func TestDoctorPermissionsSuffice(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	do(t, r, "ACL SETUSER svc on >pass "+doctor.AccessRule("feed"))
	s := serve(t, "--data-dir", t.TempDir(), "--pages=16", "--redis", strings.Replace(r.URL(), "redis://", "redis://svc:pass@", 1))
	for _, call := range [][3]string{
		{"PUT", "/v1/users/1/blocks/2", ""},
		{"PUT", "/v1/users/1/blocks/3", ""},
		{"DELETE", "/v1/users/1/blocks/2", ""},
		{"POST", "/v1/users/1/seen", `{"posts":["p","q"]}`},
		{"POST", "/v1/users/1/seen", `{"posts":["r"]}`},
	} {
		if code, answer := s.do(call[0], call[1], call[2]); code != 200 {
			t.Errorf("%s %s: %d %s", call[0], call[1], code, answer)
		}
	}
	code, answer := s.do("POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"4"},{"id":"x","author":"3"},{"id":"y","author":"2"}]}`)
	if code != 200 || !strings.Contains(answer, `"posts":[{"id":"y"}]`) || strings.Contains(answer, `"degraded":["`) {
		t.Errorf("%d %s", code, answer)
	}
	if pages := countPages(t, r.URL()); pages == 0 {
		t.Error("Redis has no page")
	}
	log, err := r.Client().Do(t.Context(), "ACL", "LOG").Slice()
	must(t, err)
	for _, entry := range log {
		if text := fmt.Sprint(entry); !strings.Contains(text, "client|setinfo") { // the client works without it
			t.Errorf("denied: %s", text)
		}
	}
}

// With network faults, a server that hangs takes no longer than its time limits, and independent
// checks still run.
func TestDoctorNetwork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := proxytest.Start(t, s.Addr())
	url := "redis://" + proxy.Addr() + "?read_timeout=300ms"
	t.Run("stalled", func(t *testing.T) {
		proxy.Stall()
		defer proxy.Reset()
		g := diagnose(t, "--redis", url)
		g.wantOnly(t, "redis")
		g.want(t, "redis", "fail", "hangs")
		g.want(t, "commands", "skip")
		g.want(t, "ledger", "warn")
	})
	t.Run("cut", func(t *testing.T) {
		proxy.Cut()
		defer proxy.Reset()
		g := diagnose(t, "--redis", url)
		g.wantOnly(t, "redis")
		g.want(t, "redis", "fail", proxy.Addr(), "Start the server")
		g.want(t, "memory", "skip")
	})
	t.Run("no such host", func(t *testing.T) {
		g := diagnose(t, "--redis", "redis://nowhere.invalid:6379")
		g.wantOnly(t, "redis")
		g.want(t, "redis", "fail", "nowhere.invalid", "Correct the host")
	})
	t.Run("over time", func(t *testing.T) {
		proxy.Stall()
		defer proxy.Reset()
		g := diagnose(t, "--redis", "redis://"+proxy.Addr()+"?read_timeout=1h", "--timeout=500ms")
		g.want(t, "redis", "fail", "no answer in time")
	})
}
