package main

import (
	"fmt"
	"slices"
	"strings"
)

// millis writes microseconds as milliseconds.
func millis(us float64) string { return significant(us / 1000) }

// write writes the tables of -load.
func (l *loadReport) write(b *strings.Builder) {
	number := significant
	fmt.Fprintf(b, "\nThe service at rest: %s ms of CPU a second, %s MiB of memory.\n", millis(l.IdleCPU), number(l.IdleRSS/(1<<20)))
	fmt.Fprintf(b, "\nClosed loop: each connection asks again once it is answered, or %v after a refusal. Feeds of %d candidates.\n\n",
		backOff, wireSize)
	head := []string{
		"", "connections", "feeds/s", "refused/s", "degraded/s", "failed/s", "p50, ms", "p99, ms", "p99.9, ms",
		"CPU of the service, us a feed", "its memory, MiB",
	}
	table(b, [][]string{head}, l.Closed, loadResult.cells)
	b.WriteString("\n")
	for _, way := range loadWays() {
		var rows []loadResult
		for _, row := range l.Closed {
			if row.Name == way.name {
				rows = append(rows, row)
			}
		}
		fmt.Fprintf(b, "Knee, %s: %d connections. More of them get less than a tenth more feeds a second.\n", way.name, knee(rows))
	}
	b.WriteString("\nOpen loop: feeds are asked for at a fixed rate. Latency counts from when a feed was due.\n")
	fmt.Fprintf(b, "There are up to %d connections.\n\n", openConnections)
	head[1] = "offered/s"
	table(b, [][]string{head}, l.Open, loadResult.cells)
	for _, row := range slices.Concat(l.Closed, l.Open) {
		if row.Error != "" {
			fmt.Fprintf(b, "\nA failure, %s over %d connections: %s\n", row.Name, row.Connections, row.Error)
		}
	}
	fmt.Fprintf(b, "\nCPU of the service for a feed, %d goroutines, medians of %d rounds:\n\n", goroutines, wireRounds)
	table(b, [][]string{{"", "candidates", "us"}}, l.Sizes, func(s sizeCPUResult) []string {
		return []string{s.Name, number(float64(s.Candidates)), number(s.CPU)}
	})
}

func (r loadResult) cells() []string {
	number := significant
	load := float64(r.Connections)
	if r.Offered > 0 {
		load = r.Offered
	}
	return []string{
		r.Name, number(load), number(r.PerSecond), number(r.Refused), number(r.Degraded), number(r.Failed),
		millis(r.P50), millis(r.P99), millis(r.P999), number(r.CPU), number(r.RSS / (1 << 20)),
	}
}
