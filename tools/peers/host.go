package main

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// host is the testing.TB with which this program calls the packages that start servers for tests.
// end runs its Cleanup functions. Only one goroutine may use it.
type host struct {
	testing.TB // nil; the methods that are not defined below are not used

	ctx      context.Context //nolint:containedctx // Context returns it
	cleanups []func()
	failed   error // the last error of Errorf
}

// stop is what Fatalf panics with.
type stop struct{ error }

func (*host) Helper() {}

func (h *host) Context() context.Context { return h.ctx }

func (h *host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }

func (*host) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (h *host) Errorf(format string, args ...any) { h.failed = fmt.Errorf(format, args...) }

func (*host) Fatalf(format string, args ...any) { panic(stop{fmt.Errorf(format, args...)}) }

func (*host) Skipf(format string, args ...any) { panic(stop{fmt.Errorf(format, args...)}) }

func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "feedfilter-peers-")
	if err != nil {
		h.Fatalf("%v", err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// guarded calls do, and returns the error of a Fatalf in it.
func guarded(do func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			err = r.error
		default:
			panic(r)
		}
	}()
	return do()
}

// end runs the cleanup functions, the last first.
func (h *host) end() error {
	for len(h.cleanups) > 0 {
		last := h.cleanups[len(h.cleanups)-1]
		h.cleanups = h.cleanups[:len(h.cleanups)-1]
		last()
	}
	return h.failed
}
