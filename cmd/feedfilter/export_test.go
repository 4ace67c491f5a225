package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// endless exports activities until its context ends; do ends it after a while.
type endless struct{ do func() error }

func (e endless) Export(_ context.Context, _ string, each func(activity.Activity) error) error {
	for i := 0; ; i++ {
		if err := each(activity.Activity{User: "1", Kind: "hide", Target: fmt.Sprint(i)}); err != nil {
			return err
		}
		if i == 10_000 { // more than a buffer holds
			if err := e.do(); err != nil {
				return err
			}
		}
	}
}

// An interrupted export creates no file, or leaves an older file unchanged.
func TestExportUnfinished(t *testing.T) {
	down := errors.New("down")
	for name, older := range map[string]string{"a new file": "", "an older file": "what was there\n"} {
		for _, cause := range []error{interruption{syscall.SIGINT}, down} {
			t.Run(fmt.Sprintf("%s, %v", name, cause), func(t *testing.T) {
				dir := t.TempDir()
				c := exportCmd{To: filepath.Join(dir, "all.ndjson")}
				if older != "" {
					writeFile(t, c.To, older)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				_, err := c.export(ctx, endless{func() error {
					if half, _ := filepath.Glob(filepath.Join(dir, ".all.ndjson.*")); len(half) != 1 {
						t.Errorf("unfinished files %v, want one", half)
					}
					if errors.Is(cause, down) {
						return down
					}
					cancel(cause)
					return nil
				}}, stdio{})
				if !errors.Is(err, cause) {
					t.Errorf("ended with %v, want %v", err, cause)
				}
				wantOnly(t, dir, map[string]string{"all.ndjson": older})
			})
		}
	}
}

// wantOnly checks that the directory has exactly these files; an empty content means no file.
func wantOnly(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	got := make(map[string]string)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		got[e.Name()] = string(text)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %.100q, want %q", name, got[name], text)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is left", name)
	}
}

// The filter of docs/MIGRATION.md makes commands of an export that recreate the imported sets, with
// any bytes in ids.
func TestExportSets(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	client.SAdd(t.Context(), "blocks:1", "2", "3 4", `"5"`)
	client.SAdd(t.Context(), "blocks:é \\", "1")
	dir := t.TempDir()
	s := serve(t, "--pages", "4", "--data-dir", dir)
	feedfilter(t, 0, "import", "sets", "--server", "http://"+s.addr(), "--from", server.URL(), "--keys", "blocks:{user}", "--kind", "blocks")
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	others := filepath.Join(dir, "others.ndjson")
	writeFile(t, others, `{"user":"1","kind":"block","target":"77","until":"2900-01-01T00:00:00Z"}
{"user":"1","kind":"hide","target":"p"}
`)
	feedfilter(t, 0, "import", "--data-dir", dir, others)

	guide, err := os.ReadFile("../../docs/MIGRATION.md")
	must(t, err)
	filter := regexp.MustCompile(`jq -rj '(.*)' `).FindSubmatch(guide)
	if filter == nil {
		t.Fatal("no filter in the guide")
	}
	commands := exec.CommandContext(t.Context(), "jq", "-rj", string(filter[1]))
	all := feedfilter(t, 0, "export", "--data-dir", dir, "--kind", "block").stdout
	if got := feedfilter(t, 0, "export", "--data-dir", dir, "--kind", "blocks").stdout; got != all {
		t.Errorf("--kind blocks exports %q, want %q", got, all)
	}
	commands.Stdin = strings.NewReader(all)
	resp, err := commands.Output()
	must(t, err)
	pipe := exec.CommandContext(t.Context(), "redis-cli", "-u", server.URL(), "--pipe")
	pipe.Stdin = bytes.NewReader(resp)
	if out, err := pipe.CombinedOutput(); err != nil || !strings.Contains(string(out), "errors: 0") {
		t.Fatalf("redis-cli --pipe: %v\n%s", err, out)
	}
	for from, to := range map[string]string{"blocks:1": "restored:1", "blocks:é \\": "restored:é \\"} {
		want, got := client.SMembers(t.Context(), from).Val(), client.SMembers(t.Context(), to).Val()
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", to, got, want)
		}
	}
}
