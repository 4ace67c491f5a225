package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

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
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
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

// An export as commands recreates the imported sets, with any bytes in ids.
func TestExportSets(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	client.SAdd(t.Context(), "blocks:1", "2", "3 4", `"5"`)
	client.SAdd(t.Context(), "blocks:é \\", "1")
	client.ZAdd(t.Context(), "sorted:1", redis.Z{Score: 1_700_000_000.5, Member: "9"}, redis.Z{Score: 3, Member: "8"})
	dir := t.TempDir()
	feedfilter(t, 0, "import", "sets", "--pages", "4", "--data-dir", dir, "--from", server.URL(), "--keys", "blocks:{user}", "--kind", "block")
	feedfilter(t, 0, "import", "sets", "--data-dir", dir, "--from", server.URL(), "--keys", "sorted:{user}", "--kind", "hide", "--scores", "seconds")
	ending := filepath.Join(dir, "ending.ndjson")
	writeFile(t, ending, `{"user":"1","kind":"block","target":"77","until":"2900-01-01T00:00:00Z"}`+"\n")
	feedfilter(t, 0, "import", "--data-dir", dir, ending)

	for _, flags := range [][]string{
		{"--kind", "block", "--keys", "again:{user}"},
		{"--kind", "block", "--keys", "by:{user}", "--reverse"},
		{"--kind", "hide", "--keys", "times:{user}", "--scores", "seconds"},
		{"--kind", "hide", "--keys", "millis:{user}", "--scores", "milliseconds"},
	} {
		r := feedfilter(t, 0, append([]string{"export", "--data-dir", dir, "--format", "resp"}, flags...)...)
		pipe := exec.CommandContext(t.Context(), "redis-cli", "-u", server.URL(), "--pipe")
		pipe.Stdin = strings.NewReader(r.stdout)
		if out, err := pipe.CombinedOutput(); err != nil || !strings.Contains(string(out), "errors: 0") {
			t.Fatalf("redis-cli --pipe: %v\n%s", err, out)
		}
	}
	for from, to := range map[string]string{"blocks:1": "again:1", "blocks:é \\": "again:é \\"} {
		want, got := client.SMembers(t.Context(), from).Val(), client.SMembers(t.Context(), to).Val()
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", to, got, want)
		}
	}
	if got := client.SMembers(t.Context(), "by:1").Val(); !slices.Equal(got, []string{"é \\"}) {
		t.Errorf("by:1 is %q", got)
	}
	for key, unit := range map[string]float64{"times:1": 1, "millis:1": 1000} {
		for member, score := range map[string]float64{"9": 1_700_000_000.5, "8": 3} {
			if got := client.ZScore(t.Context(), key, member).Val(); got != score*unit {
				t.Errorf("%s: the score of %s is %v, want %v", key, member, got, score*unit)
			}
		}
	}
}
