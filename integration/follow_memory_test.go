package integration

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// TestLongFollowMemory follows transactions of a hundred thousand rows: the follower takes at most
// 200 MiB. They have a fifth of that under -short, and a million with at least ten minutes of
// chaos.duration.
func TestLongFollowMemory(t *testing.T) {
	t.Parallel()
	w := newFollowWorld(t, 1, "4096")
	w.limit = 20 * time.Minute
	follow, _ := w.processes[len(w.processes)-1].(*followCommand) // it started first
	peak := func() (kib int) {
		t.Helper()
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", follow.cmd.Process.Pid))
		must(t, err)
		found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
		if found == nil {
			t.Fatalf("no peak in %s", status)
		}
		kib, err = strconv.Atoi(string(found[1]))
		must(t, err)
		return kib
	}
	t.Logf("at rest: %d MiB", peak()>>10)
	rows := 100_000
	switch {
	case testing.Short():
		rows /= 5
	case *chaosDuration >= 10*time.Minute:
		rows *= 10
	}
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO blocks (blocker, blocked) SELECT n %% 50000, 100000 + n FROM generate_series(1, %d) n`, rows),
		`UPDATE blocks SET created_at = '2026-01-01'`,
		`DELETE FROM blocks`,
	} {
		w.exec(sql)
		start := time.Now()
		w.awaitPosition()
		t.Logf("%s: %v after its commit, peak %d MiB", sql, time.Since(start).Round(time.Second/10), peak()>>10)
	}
	if kib := peak(); kib > 200<<10 {
		t.Errorf("peak %d MiB", kib>>10)
	}
}
