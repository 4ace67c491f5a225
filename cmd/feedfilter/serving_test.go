package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCloseWithin checks that the process ends with an error if a part of it does not close.
func TestCloseWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := &running{lines: &heldLines{to: &log}}
		hangs := make(chan struct{})
		r.onClose(func() error {
			<-hangs
			return nil
		})
		if _, err := r.lines.Write([]byte("held\n")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := r.closeWithin(8 * time.Second); err == nil || time.Since(start) != 8*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if log.String() != "held\n" {
			t.Errorf("logged: %q", &log)
		}
		close(hangs)
		if err := r.closeWithin(8 * time.Second); err != nil {
			t.Error(err)
		}
	})
}

// TestReserveHeap checks that there is a reserve, unless the environment configures the garbage
// collector.
func TestReserveHeap(t *testing.T) {
	for _, c := range []struct {
		gogc, limit string
		want        int
	}{{"", "", 32 << 20}, {"100", "", 0}, {"", "1GiB", 0}, {"off", "1GiB", 0}} {
		t.Setenv("GOGC", c.gogc)
		t.Setenv("GOMEMLIMIT", c.limit)
		if got := len(reserveHeap()); got != c.want {
			t.Errorf("GOGC=%s GOMEMLIMIT=%s: %d bytes, want %d", c.gogc, c.limit, got, c.want)
		}
	}
}
