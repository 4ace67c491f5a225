package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clockSkew is how far ahead the wall clock of one instance runs.
const clockSkew = 10 * time.Minute

// skewedCommand builds the command with another time.Now: its wall clock is ahead, and
// what measures time is not.
func skewedCommand(t *testing.T) string {
	t.Helper()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "goroot") // a Go that the go command has fetched must not be replaced where it is
	if err := os.Symlink(strings.TrimSpace(string(goroot)), root); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(root, "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		t.Fatalf("%s: time.Now is not as it was: the overlay has to be adapted", source)
	}
	skewed := strings.Replace(string(text), now, now+fmt.Sprintf("\tsec += %d\n", int(clockSkew.Seconds())), 1)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: write("time.go", skewed)}})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "feedfilter-skewed")
	build := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "go"), buildArgs(binary, "-overlay", write("overlay.json", string(overlay)))...)
	build.Env = append(os.Environ(), "GOROOT="+root, "GOTOOLCHAIN=local")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the command with a skewed clock: %v\n%s", err, out)
	}
	return binary
}

// assertSkewed fails the test unless the wall clock of the instance is ahead.
func (i *instance) assertSkewed(ctx context.Context, t *testing.T) {
	t.Helper()
	r := i.send(ctx, "GET", "/healthz", nil)
	date, err := time.Parse(time.RFC1123, r.date)
	if r.err != nil || err != nil {
		t.Fatalf("the clock of instance %d: %v, %v", i.index, r.err, err)
	}
	if ahead := date.Sub(r.done); (ahead - clockSkew).Abs() > time.Minute {
		t.Fatalf("the clock of instance %d is %v ahead, want %v", i.index, ahead, clockSkew)
	}
}
