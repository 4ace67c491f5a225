package main

import (
	"math"
	"runtime/debug"
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

// TestReserveHeap checks that there is a reserve, unless GOGC is set or the memory limit is low.
func TestReserveHeap(t *testing.T) {
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	for _, c := range []struct {
		gogc  string
		limit int64
		want  int
	}{{"", math.MaxInt64, 32 << 20}, {"100", math.MaxInt64, 0}, {"", 512 << 20, 32 << 20}, {"", 255 << 20, 0}, {"off", 1 << 30, 0}} {
		t.Setenv("GOGC", c.gogc)
		debug.SetMemoryLimit(c.limit)
		if got := len(reserveHeap()); got != c.want {
			t.Errorf("GOGC=%s, limit of %d bytes: %d bytes, want %d", c.gogc, c.limit, got, c.want)
		}
	}
}
