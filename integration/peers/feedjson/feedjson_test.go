package feedjson

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	posts    = 500
	bodies   = 64
	dropEach = 20
)

// body is the n-th feed: that of BenchmarkServed in internal/httpapi, but for who is blocked.
func body(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"viewer":"u1","posts":[`)
	for i := range posts {
		at := n*posts + i
		fmt.Fprintf(&b, `{"id":"p%d","author":"u%d"`, 70_000_000_000+at, 50_000_000+at)
		if i%4 == 1 {
			fmt.Fprintf(&b, `,"actors":["u%d","u%d"]`, 60_000_000+at, 61_000_000+at)
		}
		b.WriteString("},")
	}
	return []byte(strings.TrimSuffix(b.String(), ",") + "]}")
}

func answerTo(r *request) *answer {
	a := &answer{Degraded: []string{}}
	for i, p := range r.Posts {
		if i%dropEach == 0 {
			a.Dropped = append(a.Dropped, dropped{p.ID, "block", p.Author})
			continue
		}
		a.Posts = append(a.Posts, kept{p.ID})
	}
	return a
}

// TestLibraries finds every library right on what is sound, and says what it takes that is not.
func TestLibraries(t *testing.T) {
	bad := [][2]string{
		{"a name twice", `{"viewer":"1","viewer":"2"}`},
		{"an unknown name", `{"viewer":"1","x":2}`},
		{"another case", `{"Viewer":"1"}`},
		{"bad UTF-8", "{\"viewer\":\"\xff\"}"},
		{"half a surrogate", `{"viewer":"\ud800"}`},
		{"a control character", "{\"viewer\":\"\x01\"}"},
		{"a null", `{"viewer":null}`},
		{"more behind", `{"viewer":"1"} {}`},
	}
	var want request
	all := libraries()
	if err := all[0].read(body(0), &want); err != nil || len(want.Posts) != posts {
		t.Fatal(err)
	}
	written, err := all[0].write(answerTo(&want))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		var got request
		if err := l.read(body(0), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads %.300v, %v", l.name, got, err)
		}
		if l.write != nil {
			if text, err := l.write(answerTo(&want)); err != nil || !bytes.Equal(bytes.TrimSpace(text), written) {
				t.Errorf("%s writes %.300s, %v", l.name, text, err)
			}
		}
		var takes []string
		for _, b := range bad {
			if l.read([]byte(b[1]), new(request)) == nil {
				takes = append(takes, b[0])
			}
		}
		t.Logf("%-24s takes %s", l.name, strings.Join(takes, ", "))
	}
}

// BenchmarkLibraries has all of them take turns, in rounds, and prints medians of the CPU of the process, collection of
// garbage with it.
func BenchmarkLibraries(b *testing.B) {
	const round = 64
	all := libraries()
	var texts [bodies][]byte
	var answers [bodies]*answer
	for n := range texts {
		texts[n] = body(n)
		var r request
		if err := all[0].read(texts[n], &r); err != nil {
			b.Fatal(err)
		}
		answers[n] = answerTo(&r)
	}
	type figure struct {
		read, write             []time.Duration
		readBytes, readAllocs   uint64
		writeBytes, writeAllocs uint64
	}
	figures := make([]figure, len(all))
	for b.Loop() {
		for i, l := range all {
			f := &figures[i]
			var took time.Duration
			took, f.readBytes, f.readAllocs = measure(b, round, func(n int) error {
				return l.read(texts[n%bodies], new(request))
			})
			f.read = append(f.read, took)
			if l.write == nil {
				continue
			}
			took, f.writeBytes, f.writeAllocs = measure(b, round, func(n int) error {
				_, err := l.write(answers[n%bodies])
				return err
			})
			f.write = append(f.write, took)
		}
	}
	b.ReportMetric(0, "ns/op")
	fmt.Println()
	fmt.Println("| | read, us | allocations | KB | write, us | allocations | KB |\n|---|---|---|---|---|---|---|")
	for i, l := range all {
		f := figures[i]
		line := []string{l.name, us(f.read), strconv.FormatUint(f.readAllocs, 10), kb(f.readBytes), "", "", ""}
		if f.write != nil {
			copy(line[4:], []string{us(f.write), strconv.FormatUint(f.writeAllocs, 10), kb(f.writeBytes)})
		}
		fmt.Println("| " + strings.Join(line, " | ") + " |")
	}
}

func us(d []time.Duration) string {
	slices.Sort(d)
	return strconv.FormatFloat(float64(d[len(d)/2].Nanoseconds())/1000, 'f', 0, 64)
}

func kb(bytes uint64) string { return strconv.FormatUint((bytes+500)/1000, 10) }

// measure returns what one call costs, of many.
func measure(b *testing.B, calls int, call func(n int) error) (cpu time.Duration, bytes, allocs uint64) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := used(b)
	for n := range calls {
		if err := call(n); err != nil {
			b.Fatal(err)
		}
	}
	cpu = (used(b) - start) / time.Duration(calls)
	runtime.ReadMemStats(&after)
	return cpu, (after.TotalAlloc - before.TotalAlloc) / uint64(calls), (after.Mallocs - before.Mallocs) / uint64(calls)
}

func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
