package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// The wall clock of one instance is right for clockPeriod, then clockSkew ahead for clockPeriod, in
// turns.
const (
	clockSkew   = 10 * time.Minute
	clockPeriod = 4 * time.Second
)

// skewedOnce builds the command once, when the first test calls skewedCommand.
//
//nolint:gochecknoglobals // one build for all tests
var skewedOnce = sync.OnceValues(buildSkewed)

// skewedCommand returns the path of a command whose wall clock is alternately right and ahead. Its
// monotonic clock is right.
func skewedCommand(t *testing.T) string {
	t.Helper()
	binary, err := skewedOnce()
	if err != nil {
		t.Fatalf("build the command with a skewed clock: %v", err)
	}
	return binary
}

// buildSkewed builds the command with a changed time package. All files that the compiler reads
// have the same path and content in each run, so a later run finds the packages in the build cache.
func buildSkewed() (binary string, err error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOCACHE").Output() //nolint:noctx // go test bounds it
	if err != nil {
		return "", err
	}
	paths := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(paths) != 2 {
		return "", fmt.Errorf("go env GOROOT GOCACHE: %q", out)
	}
	dir := filepath.Join(paths[1], "feedfilter-skewed-"+runtime.Version())
	root := filepath.Join(dir, "goroot") // go refuses overlays of the module cache, where downloaded toolchains are
	if err := keepLink(root, paths[0]); err != nil {
		return "", err
	}
	overlay, err := writeOverlay(dir, filepath.Join(root, "src", "time", "time.go"))
	if err != nil {
		return "", err
	}
	binary = filepath.Join(filepath.Dir(command), "feedfilter-skewed")
	build := exec.Command(filepath.Join(root, "bin", "go"), buildArgs(binary, "-overlay", overlay)...) //nolint:noctx // go test bounds it
	build.Env = append(os.Environ(), "GOROOT="+root, "GOTOOLCHAIN=local")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
}

// writeOverlay writes a changed time.go and an overlay that replaces the original. It returns the
// path of the overlay.
func writeOverlay(dir, source string) (overlay string, err error) {
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		return "", fmt.Errorf("%s: time.Now is not as it was: the overlay has to be adapted", source)
	}
	other := strings.Replace(string(text), now, now+
		fmt.Sprintf("\tif mono/%d%%2 == 0 {\n\t\tsec += %d\n\t}\n", clockPeriod, int(clockSkew.Seconds())), 1)
	replacement := filepath.Join(dir, "time.go")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: replacement}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, errors.Join(keepFile(replacement, other), keepFile(overlay, string(replace)))
}

// keepFile writes a file unless it has that text. Other processes may call it at the same time.
func keepFile(path, text string) error {
	if is, err := os.ReadFile(path); err == nil && string(is) == text {
		return nil
	}
	return replaceWith(path, func(temporary string) error { return os.WriteFile(temporary, []byte(text), 0o600) })
}

// keepLink makes a symbolic link unless it exists. Other processes may call it at the same time.
func keepLink(path, target string) error {
	if is, err := os.Readlink(path); err == nil && is == target {
		return nil
	}
	return replaceWith(path, func(temporary string) error { return os.Symlink(target, temporary) })
}

// replaceWith calls create for a temporary path, and renames that file to path, so that it is never
// incomplete.
func replaceWith(path string, create func(temporary string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := fmt.Sprint(path, ".", os.Getpid())
	if err := create(temporary); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// assertSkewed fails the test unless the wall clock of the instance is sometimes right and
// sometimes ahead.
func (i *instance) assertSkewed(ctx context.Context, t *testing.T) {
	t.Helper()
	right, ahead := false, false
	for deadline := time.Now().Add(10 * clockPeriod); !right || !ahead; {
		if time.Now().After(deadline) {
			t.Fatalf("the clock of instance %d was right: %v, was %v ahead: %v; want both", i.index, right, clockSkew, ahead)
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

// recordTimed records hides that end half of clockSkew after the test. An instance must not end
// them early because its clock is ahead. It also records the activity of mutedForever.
func (w *world) recordTimed() {
	w.t.Helper()
	until := time.Now().Add(*chaosDuration + clockSkew/2).UTC().Format(time.RFC3339)
	var lines []batchLine
	for n := range timedHides {
		lines = append(lines, batchLine{User: timedUser, Kind: "hide", Target: fmt.Sprint(n), Op: "add", Until: until})
	}
	lines = append(lines, batchLine{User: mutedForever, Kind: "domain-mute", Target: "d", Op: "add"})
	err := w.instances[0].send(w.t.Context(), "POST", "/v1/activities", map[string]any{"activities": lines}).ok(new(any))
	if err != nil {
		w.t.Fatalf("record hides that end: %v", err)
	}
}

// checkTimed checks that every instance lists all hides of recordTimed.
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
