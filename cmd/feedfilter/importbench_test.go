//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// populationFile writes a file with the activities of a population, users mixed.
func populationFile(b *testing.B, users, entries int) (name string, lines int) {
	b.Helper()
	p, err := bench.NewPopulation(users, entries, 1)
	must(b, err)
	name = filepath.Join(b.TempDir(), "population.ndjson")
	file, err := os.Create(name)
	must(b, err)
	w := bufio.NewWriter(file)
	for a := range p.Activities() {
		_, _ = fmt.Fprintf(w, `{"user":"%s","kind":"%s","target":"%s"}`+"\n", a.User, a.Kind, a.Target) // Flush tells
		lines++
	}
	must(b, w.Flush())
	must(b, file.Close())
	return name, lines
}

// BenchmarkImportPopulation imports 500,000 activities into new data: it reads and records them,
// and builds all pages. It reports the CPU time of this process, which varies less than the rate on
// a busy machine.
func BenchmarkImportPopulation(b *testing.B) {
	file, lines := populationFile(b, 5_000, 550_000)
	run := func(name string, flags ...func(b *testing.B) string) {
		b.Run(name, func(b *testing.B) {
			var args []string
			for _, flag := range flags {
				args = append(args, flag(b))
			}
			cpu, took := time.Duration(0), time.Duration(0)
			for b.Loop() {
				dir := b.TempDir()
				before := ownCPU(b)
				start := time.Now()
				importFile(b, dir, file, args)
				took += time.Since(start)
				cpu += ownCPU(b) - before
			}
			all := float64(lines * b.N)
			b.ReportMetric(all/took.Seconds(), "activities/s")
			b.ReportMetric(float64(cpu.Microseconds())/all, "us-cpu/activity")
		})
	}
	postgres := func(b *testing.B) string {
		b.Helper()
		return "--ledger=" + pgtest.Start(b, "fsync=on", "shared_buffers=128MB").Schema()
	}
	redis := func(b *testing.B) string {
		b.Helper()
		return "--redis=" + redistest.Start(b).URL()
	}
	run("sqlite")
	run("sqlite and redis", redis)
	run("postgres", postgres)
	run("postgres and redis", postgres, redis)
}

// BenchmarkSync makes a list of a million activities equal to files: one that adds all, the same
// one again, and one that differs in a tenth. It reports the seconds and the memory of each.
func BenchmarkSync(b *testing.B) {
	const n = 1_000_000
	dir := b.TempDir()
	write := func(name string, from int) string {
		var text strings.Builder
		for i := from; i < from+n; i++ {
			fmt.Fprintf(&text, "%x@instance%d.example\n", i*2654435761, i%5000)
		}
		name = filepath.Join(dir, name)
		writeFile(b, name, text.String())
		return name
	}
	first, second := write("first.csv", 0), write("second.csv", n/20)
	run := func(name, kind string, flags func(b *testing.B) []string) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				args := append([]string{"import", "--sync", "--user=list", "--kind=" + kind, "--log-level=error"}, flags(b)...)
				for _, step := range [][2]string{{"add", first}, {"same", first}, {"tenth", second}} {
					cmd := exec.CommandContext(b.Context(), "feedfilter", append(args, step[1])...)
					start := time.Now()
					must(b, cmd.Run())
					b.ReportMetric(time.Since(start).Seconds(), "s-"+step[0])
					usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
					b.ReportMetric(float64(usage.Maxrss>>10), "MiB-"+step[0])
				}
			}
		})
	}
	sqlite := func(b *testing.B) []string {
		b.Helper()
		return []string{"--data-dir", b.TempDir()}
	}
	run("sqlite", "hide", sqlite)
	run("sqlite, two-way", "block", sqlite)
	run("service on sqlite", "hide", func(b *testing.B) []string {
		b.Helper()
		return []string{"--server", "http://" + serve(b, "--data-dir", b.TempDir()).addr()}
	})
	run("postgres and redis", "hide", func(b *testing.B) []string {
		b.Helper()
		postgres := pgtest.Start(b, "fsync=on", "shared_buffers=128MB").Schema()
		return []string{"--data-dir", b.TempDir(), "--ledger", postgres, "--redis", redistest.Start(b).URL()}
	})
}

// ownCPU returns the CPU time that this process has used.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// importFile runs the command in this process, so that it can be profiled.
func importFile(b *testing.B, dir, file string, args []string) {
	b.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(b, err)
	defer null.Close()
	args = append([]string{"import", "--data-dir", dir, file}, args...)
	must(b, execute(b.Context(), args, stdio{null, null, null}))
}
