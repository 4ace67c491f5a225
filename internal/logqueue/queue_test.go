package logqueue_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/internal/logqueue"
)

// valve takes lines while it is open, and blocks while it is shut.
type valve struct {
	mu    sync.Mutex
	gate  chan struct{} // nil: the valve is open
	text  bytes.Buffer
	calls int
	fail  func(call int) error // nil: no call fails
}

func (v *valve) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gate = make(chan struct{})
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.gate)
	v.gate = nil
}

func (v *valve) Write(line []byte) (int, error) {
	v.mu.Lock()
	gate := v.gate
	v.mu.Unlock()
	if gate != nil {
		<-gate
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls++
	if v.fail != nil {
		if err := v.fail(v.calls); err != nil {
			return 0, err
		}
	}
	return v.text.Write(line)
}

func (v *valve) called() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.calls
}

func (v *valve) lines() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Split(strings.TrimSuffix(v.text.String(), "\n"), "\n")
}

func gap(n uint64) []byte { return fmt.Appendf(nil, "gap %d\n", n) }

func config(v *valve) logqueue.Config {
	return logqueue.Config{Out: v, Lines: 3, Bytes: 1 << 10, Patience: time.Second, Gap: gap}
}

func put(t *testing.T, q *logqueue.Queue, line string) {
	t.Helper()
	if n, err := q.Write([]byte(line + "\n")); n != len(line)+1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func wantLines(t *testing.T, v *valve, want ...string) {
	t.Helper()
	if got := v.lines(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// When Write returns, the line is written, and the caller may reuse its memory.
func TestWrite(t *testing.T) {
	v := &valve{}
	q := logqueue.New(config(v))
	line := []byte("a\n")
	for range 3 {
		if _, err := q.Write(line); err != nil {
			t.Error(err)
		}
		line[0]++
	}
	wantLines(t, v, "a", "b", "c")
	if q.Behind() || q.Dropped() != 0 || q.Close(0) != 0 {
		t.Errorf("behind: %v, dropped: %d", q.Behind(), q.Dropped())
	}
}

// Only the first line waits for its patience. Lines over the limit are dropped until the queue is
// empty, so that there is one gap.
func TestStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, behind := &valve{}, 0
		c := config(v)
		c.OnBehind = func() { behind++ }
		q := logqueue.New(c)
		v.shut()
		start := time.Now()
		put(t, q, "1")
		if took := time.Since(start); took != time.Second || !q.Behind() {
			t.Errorf("the first line took %v", took)
		}
		for i := range 4 {
			put(t, q, fmt.Sprint(i+2))
		}
		q.Put([]byte("always\n"))
		put(t, q, "6")
		if took := time.Since(start); took != time.Second || q.Dropped() != 3 || behind != 1 {
			t.Errorf("%v, %d dropped, behind %d times", took, q.Dropped(), behind)
		}
		v.open()
		synctest.Wait()
		wantLines(t, v, "1", "2", "3", "always", "gap 3")
		put(t, q, "7")
		wantLines(t, v, "1", "2", "3", "always", "gap 3", "7")
		if q.Behind() || q.Dropped() != 3 || q.Close(0) != 0 {
			t.Errorf("behind: %v, dropped: %d", q.Behind(), q.Dropped())
		}
	})
}

// A slow reader delays callers only once.
func TestBehindUntilEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan []byte)
		c := config(nil)
		c.Out = writerFunc(func(line []byte) (int, error) {
			slow <- line
			return len(line), nil
		})
		q := logqueue.New(c)
		start := time.Now()
		put(t, q, "1")
		put(t, q, "2")
		<-slow
		synctest.Wait()
		put(t, q, "3")
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		<-slow
		<-slow
		synctest.Wait()
		if q.Behind() {
			t.Error("the queue is behind with nothing to write")
		}
	})
}

type writerFunc func(line []byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }

func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &valve{}
		c := config(v)
		c.Bytes = 6
		q := logqueue.New(c)
		v.shut()
		put(t, q, "longer than all the room") // an empty queue takes any line
		put(t, q, "a")
		v.open()
		synctest.Wait()
		v.shut()
		put(t, q, "12")
		put(t, q, "34")
		put(t, q, "5")
		v.open()
		synctest.Wait()
		wantLines(t, v, "longer than all the room", "gap 1", "12", "34", "gap 1")
	})
}

// Lines that cannot be written are dropped. A line with their number precedes the next line.
func TestErrors(t *testing.T) {
	v := &valve{fail: func(call int) error {
		if call >= 2 && call <= 4 {
			return errors.New("no space left")
		}
		return nil
	}}
	q := logqueue.New(config(v))
	for i := range 6 {
		put(t, q, fmt.Sprint(i+1))
	}
	wantLines(t, v, "1", "gap 3", "5", "6")
	if q.Dropped() != 3 || q.Behind() {
		t.Errorf("%d dropped", q.Dropped())
	}
}

// With Retry, no line is lost, and lines keep their order.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		v := &valve{fail: func(int) error {
			if full {
				return errors.New("no space left")
			}
			return nil
		}}
		c := config(v)
		c.Retry = 10 * time.Second
		q := logqueue.New(c)
		start := time.Now()
		put(t, q, "1")
		put(t, q, "2")
		if took := time.Since(start); took != time.Second || !q.Behind() || v.called() != 1 {
			t.Errorf("%v, %d calls", took, v.called())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if v.called() != 2 {
			t.Errorf("%d calls", v.called())
		}
		v.mu.Lock()
		full = false
		v.mu.Unlock()
		q.TryNow()
		synctest.Wait()
		wantLines(t, v, "1", "2")
		if q.Behind() || q.Dropped() != 0 {
			t.Errorf("behind: %v, %d dropped", q.Behind(), q.Dropped())
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &valve{}
		q := logqueue.New(config(v))
		v.shut()
		put(t, q, "1")
		put(t, q, "2")
		go func() { // the reader continues in time
			time.Sleep(time.Second)
			v.open()
		}()
		start := time.Now()
		if left := q.Close(time.Minute); left != 0 || time.Since(start) != time.Second {
			t.Errorf("%d left after %v", left, time.Since(start))
		}
		put(t, q, "3")
		wantLines(t, v, "1", "2")

		v = &valve{}
		q = logqueue.New(config(v))
		v.shut()
		put(t, q, "1")
		put(t, q, "2")
		start = time.Now()
		if left := q.Close(time.Minute); left != 2 || time.Since(start) != time.Minute {
			t.Errorf("%d left after %v", left, time.Since(start))
		}
		v.open() // ends the goroutine
	})
}

// Close ends the retries of a line.
func TestCloseEndsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &valve{fail: func(int) error { return errors.New("no space left") }}
		c := config(v)
		c.Retry = time.Second
		q := logqueue.New(c)
		put(t, q, "1")
		put(t, q, "2")
		if left := q.Close(time.Minute); left != 2 {
			t.Errorf("%d left", left)
		}
		synctest.Wait()
		if q.Dropped() != 2 {
			t.Errorf("%d dropped", q.Dropped())
		}
	})
}

// With concurrent writers and a reader that stalls at times, lines are complete, each writer's
// lines are in order, and missing lines are counted.
func TestManyWriters(t *testing.T) {
	v := &valve{}
	c := config(v)
	c.Lines, c.Patience = 50, time.Microsecond
	q := logqueue.New(c)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 500 {
				if w == 0 && i%100 == 0 {
					v.shut()
				}
				put(t, q, fmt.Sprintf("line %d %d", w, i))
				if w == 0 && i%100 == 50 {
					v.open()
				}
			}
		})
	}
	all.Wait()
	if left := q.Close(time.Minute); left != 0 {
		t.Errorf("%d left", left)
	}
	next := make([]int, 8)
	lines, told := 0, 0
	for _, line := range v.lines() {
		var w, i, n int
		if _, err := fmt.Sscanf(line, "gap %d", &n); err == nil {
			told += n
			continue
		}
		if _, err := fmt.Sscanf(line, "line %d %d", &w, &i); err != nil || i < next[w] {
			t.Fatalf("%q: %v, want %d or more", line, err, next[w])
		}
		next[w] = i + 1
		lines++
	}
	if lines+told != 4000 || q.Dropped() != uint64(told) || told == 0 {
		t.Errorf("%d lines, a gap of %d, %d dropped", lines, told, q.Dropped())
	}
}
