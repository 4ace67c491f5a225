package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFindProgram(t *testing.T) {
	onPath, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("PATH", onPath)
	first, second := writeProgram(t, onPath, "one"), writeProgram(t, elsewhere, "two")
	absent := filepath.Join(elsewhere, "absent")
	if got := FindProgram(t, "ONE", "one", second); got != first {
		t.Errorf("found %s, want %s on the PATH", got, first)
	}
	if got := FindProgram(t, "TWO", "two", absent, second); got != second {
		t.Errorf("found %s, want %s, which is not on the PATH", got, second)
	}
}

func TestWithoutTheProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	const want = "THIS TEST NEEDS A SERVER, and there is none"
	for _, ci := range []string{"", "false", "0", "true", "1"} {
		t.Setenv("CI", ci)
		got := watch(t, func(tb testing.TB) { FindProgram(tb, "A SERVER", "absent", "/absent/too") })
		said, other := got.skip, got.fatal
		if ci == "true" || ci == "1" {
			said, other = other, said
		}
		if !strings.Contains(said, want) || !strings.Contains(said, "make deps") || other != "" {
			t.Errorf("with CI=%q: skipped with %q, failed with %q", ci, got.skip, got.fatal)
		}
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	tried := 0
	err := Await(t.Context(), "it is the third time", func(context.Context) error {
		tried++
		if tried < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || tried != 3 {
		t.Errorf("%v after %d attempts, want none after 3", err, tried)
	}
	ctx, cancel := context.WithCancel(t.Context())
	broken := errors.New("broken")
	err = Await(ctx, "it works", func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cancel()
		return broken
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, broken) || !strings.Contains(err.Error(), "it works") {
		t.Errorf("after its context ended: %v, want the context's error, what, and the last error of try", err)
	}
}

func TestServerLogKeepsItsEndAndNoticesReadiness(t *testing.T) {
	t.Parallel()
	l := newServerLog("Ready to accept connections")
	for i := range 2 * logTail / 10 {
		_, _ = fmt.Fprintf(l, "line %04d\n", i)
	}
	select {
	case <-l.ready:
		t.Fatal("ready before the server said so")
	default:
	}
	for _, piece := range []string{"* Ready to acc", "ept connections", " tcp\n"} {
		_, _ = fmt.Fprint(l, piece)
	}
	select {
	case <-l.ready:
	default:
		t.Error("not ready after the server said so")
	}
	tail := l.tail()
	if len(tail) != logTail || !strings.HasSuffix(tail, "connections tcp\n") {
		t.Errorf("kept %d bytes that end in %q, want the last %d", len(tail), tail[max(0, len(tail)-20):], logTail)
	}
}

func writeProgram(t *testing.T, dir, name string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// outcome records the result that a function sets on its test.
type outcome struct {
	testing.TB // the other methods

	fatal, skip string
}

// watch runs f with a recording test. FailNow or Skip in f does not end t.
func watch(t *testing.T, f func(testing.TB)) *outcome {
	t.Helper()
	o := &outcome{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(o)
	}()
	<-done
	return o
}

func (o *outcome) Fatalf(format string, args ...any) {
	o.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (o *outcome) Skipf(format string, args ...any) {
	o.skip = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
