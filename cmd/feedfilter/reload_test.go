package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// TestReloadTriesAgain checks that a reload retries a setting that could not be applied before.
func TestReloadTriesAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.json")
	write := func(text string) {
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(`{"max-requests": 8}`)
	chosen, err := invoke(t.Context(), []string{"serve", "--config", file}, stdio{os.Stdin, os.Stdout, os.Stderr})
	must(t, err)
	var log strings.Builder
	var applied []int
	failure, unread := errors.New("no room"), errors.New("no certificate")
	reload := &reloader{
		now: chosen, kinds: activity.BuiltinKinds(), log: slog.New(slog.NewTextHandler(&log, nil)),
		files: func(context.Context) error { return unread },
		live: liveSettings{
			"max-requests": func(to *serveCmd) error {
				applied = append(applied, to.MaxRequests)
				return failure
			},
			"max-connections": func(to *serveCmd) error {
				applied = append(applied, to.MaxConnections)
				return nil
			},
		},
	}
	write(`{"max-requests": 9, "max-connections": 7}`)
	reload.run(t.Context())
	wantContains(t, log.String(), `setting=max-requests error="no room"`, `msg="settings reloaded" changed="[{Setting:max-connections From:10000 To:7}]"`)
	wantContains(t, log.String(), `msg="file not reloaded, its previous content stays in force" error="no certificate"`)
	failure, unread = nil, nil
	log.Reset()
	reload.run(t.Context())
	reload.run(t.Context())
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("logged without a failure:\n%s", log.String())
	}
	if want := []int{9, 7, 9}; !slices.Equal(applied, want) {
		t.Errorf("applied %v, want %v", applied, want)
	}
	wantContains(t, log.String(), `changed="[{Setting:max-requests From:8 To:9}]"`, `changed=[]`)
}

// TestReloadFiles checks that files are reloaded even if the settings are invalid, because the
// audit log may have been rotated.
func TestReloadFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.json")
	writeFile(t, file, `{}`)
	chosen, err := invoke(t.Context(), []string{"serve", "--config", file}, stdio{os.Stdin, os.Stdout, os.Stderr})
	must(t, err)
	var log strings.Builder
	times := 0
	reload := &reloader{
		now: chosen, kinds: activity.BuiltinKinds(), log: slog.New(slog.NewTextHandler(&log, nil)),
		files: func(context.Context) error {
			times++
			return errors.New("no such file")
		},
	}
	for i, text := range []string{`{`, `{"no-such": 1}`, `{"filter": "other"}`, `{}`} {
		writeFile(t, file, text)
		reload.run(t.Context())
		if times != i+1 {
			t.Errorf("%s: files were reloaded %d times, want %d", text, times, i+1)
		}
	}
	if n := strings.Count(log.String(), `error="no such file"`); n != 4 {
		t.Errorf("logged %d times, want 4: %s", n, &log)
	}
	wantContains(t, log.String(), "restart required", `msg="settings reloaded" changed=[]`)
}

// TestHangupEndsNothing checks that SIGHUP does not end a command other than serve.
func TestHangupEndsNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "feedfilter", "import", "--data-dir", dir, "--format", "csv", "-")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, ledgerFile)); err == nil {
			break // the import is running
		}
		if time.Now().After(deadline) {
			t.Fatal("the import did not begin")
		}
	}
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	if _, err := io.WriteString(in, "1,block,2\n"); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	wantContains(t, out.String(), "imported 1 activities")
}
