package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// These are the words of rows with which others are compared.
const (
	setsWord     = "sets"
	protobufWord = "protobuf"
)

// wireReport holds the costs of feed checks for an application. Times are in microseconds.
type wireReport struct {
	Rows []*wireResult `json:"rows"`
	Seen []seenResult  `json:"seen,omitzero"`
	Load *loadReport   `json:"load,omitzero"`
}

// wireFigures are the figures of a row: feeds per second of 16 goroutines, the CPU time per feed at
// that rate, and the latency with one goroutine.
type wireFigures struct {
	PerSecond float64 `json:"per_second"`
	Client    float64 `json:"client_cpu_us"`
	Service   float64 `json:"service_cpu_us"`
	Redis     float64 `json:"redis_cpu_us"`
	Whole     float64 `json:"cpu_us"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
}

// wireResult holds the figures of one row.
type wireResult struct {
	wireFigures

	Name   string  `json:"name"`
	Word   string  `json:"word"`
	Absent string  `json:"absent,omitzero"`
	Bytes  float64 `json:"bytes"` // memory of Redis per activity
	Wrong  float64 `json:"wrong"` // share of clean candidates that are dropped
}

// medians returns the median of each figure.
func medians(rounds []wireFigures) wireFigures {
	of := func(figure func(wireFigures) float64) float64 {
		all := make([]float64, len(rounds))
		for i, round := range rounds {
			all[i] = figure(round)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return wireFigures{
		PerSecond: of(func(f wireFigures) float64 { return f.PerSecond }),
		Client:    of(func(f wireFigures) float64 { return f.Client }),
		Service:   of(func(f wireFigures) float64 { return f.Service }),
		Redis:     of(func(f wireFigures) float64 { return f.Redis }),
		Whole:     of(func(f wireFigures) float64 { return f.Whole }),
		P50:       of(func(f wireFigures) float64 { return f.P50 }),
		P99:       of(func(f wireFigures) float64 { return f.P99 }),
	}
}

// find returns the row with that word, or nil.
func (r *wireReport) find(word string) *wireResult {
	for _, row := range r.Rows {
		if row.Word == word {
			return row
		}
	}
	return nil
}

// writeWire writes the tables of -wire or -load.
func (r *report) writeWire(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\nServer: %s.\nData: %s.\n", r.Machine, r.Server, r.Data)
	if r.Wire.Load != nil {
		r.Wire.Load.write(&b)
	} else {
		r.Wire.writeRows(&b)
		r.Wire.writeSeen(&b)
	}
	writeNoise(&b, r.Noise)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *wireReport) writeRows(b *strings.Builder) {
	fmt.Fprintf(b, "\nFeeds of %d candidates. Feeds a second and CPU: %d goroutines; latency: one. Medians of %d rounds.\n\n",
		wireSize, goroutines, wireRounds)
	head := []string{
		"", "feeds/s", "x sets", "CPU, us", "x sets", "of the client", "service", "Redis", "p50, us", "p99, us",
		"B an activity", "dropped wrongly",
	}
	table(b, [][]string{head}, r.Rows, r.cells)
}

func (r *wireReport) cells(row *wireResult) []string {
	if row.Absent != "" {
		return []string{row.Name, row.Absent, "", "", "", "", "", "", "", "", "", ""}
	}
	number := significant
	cells := []string{
		row.Name, number(row.PerSecond), "", number(row.Whole), "",
		number(row.Client), number(row.Service), number(row.Redis), number(row.P50), number(row.P99), "", "",
	}
	if row.Word == "" { // a PING checks nothing
		return cells
	}
	sets := r.find(setsWord)
	cells[2], cells[4] = number(row.PerSecond/sets.PerSecond), number(row.Whole/sets.Whole)
	cells[10], cells[11] = number(row.Bytes), percent(row.Wrong)
	return cells
}
