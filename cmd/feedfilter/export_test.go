package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
)

// endless exports activities until its context ends, which do brings about after a while.
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

// An export that does not come to its end leaves no file, or the older one.
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
						t.Errorf("%v are on their way, want one file", half)
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

// wantOnly checks that the directory has these files and no others; empty ones are not there.
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
