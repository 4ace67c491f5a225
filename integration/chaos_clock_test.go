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

// The wall clock of one instance is set ahead by clockSkew and back again, each time after clockPeriod.
const (
	clockSkew   = 10 * time.Minute
	clockPeriod = 4 * time.Second
)

// skewedCommand builds the command with another time.Now: its wall clock is set ahead and back, and
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
	skewed := strings.Replace(string(text), now, now+
		fmt.Sprintf("\tif mono/%d%%2 == 0 {\n\t\tsec += %d\n\t}\n", clockPeriod, int(clockSkew.Seconds())), 1)
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

// assertSkewed fails the test unless the wall clock of the instance is set ahead and back.
func (i *instance) assertSkewed(ctx context.Context, t *testing.T) {
	t.Helper()
	right, ahead := false, false
	for deadline := time.Now().Add(10 * clockPeriod); !right || !ahead; {
		if time.Now().After(deadline) {
			t.Fatalf("the clock of instance %d is right: %v, and %v ahead: %v; want both, in turns", i.index, right, clockSkew, ahead)
		}
		r := i.send(ctx, "GET", "/healthz", nil)
		date, err := time.Parse(time.RFC1123, r.date)
		if r.err != nil || err != nil {
			t.Fatalf("the clock of instance %d: %v, %v", i.index, r.err, err)
		}
		off := date.Sub(r.done)
		right = right || off.Abs() < time.Minute
		ahead = ahead || (off-clockSkew).Abs() < time.Minute
		if err := wait(ctx, clockPeriod/8); err != nil {
			t.Fatal(err)
		}
	}
}

// recordTimed records hides that end when the test is over, by half of clockSkew.
func (w *world) recordTimed() {
	w.t.Helper()
	until := time.Now().Add(*chaosDuration + clockSkew/2).UTC().Format(time.RFC3339)
	for n := range timedHides {
		path := fmt.Sprintf("/v1/users/%s/hides/%d?until=%s", timedUser, n, until)
		if err := w.instances[0].send(w.t.Context(), "PUT", path, nil).ok(new(any)); err != nil {
			w.t.Fatalf("record a hide that ends: %v", err)
		}
	}
}

// checkTimed has each instance list them: none has ended.
func (w *world) checkTimed(ctx context.Context) {
	for _, i := range w.instances {
		listed, err := i.lists(ctx, timedUser)
		if err != nil || len(listed) != timedHides {
			w.tally.violatedf("clock", "instance %d lists %d of %d hides that have not ended, error %v", i.index, len(listed), timedHides, err)
		}
	}
}

const (
	timedUser  = "timed"
	timedHides = 40
)
