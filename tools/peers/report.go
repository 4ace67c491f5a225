package main

import (
	"fmt"
	"io"
	"strings"
)

// pingRow is the name of the PING, with which all peers are compared, in tables and charts.
const pingRow = "PING"

// report is the result of a run. Times are in microseconds.
type report struct {
	Machine string        `json:"machine"`
	Server  string        `json:"server"`
	Data    string        `json:"data"`
	Noise   []string      `json:"noise"`
	Sizes   []int         `json:"sizes"` // numbers of candidates of the feeds
	Pings   []float64     `json:"pings"` // medians, by Sizes
	PingCPU cpu           `json:"ping_cpu"`
	Peers   []*result     `json:"peers"`
	Growth  *growthReport `json:"growth,omitzero"`
	Wire    *wireReport   `json:"wire,omitzero"`
	// PingsPerSecond is the number of PINGs that 16 goroutines make per second, by the size of the
	// feeds with which they take turns.
	PingsPerSecond map[int]float64 `json:"pings_per_second"`
}

// figure is a time, and its ratio to a PING of the same run.
type figure struct {
	Micros float64 `json:"us"`
	XPing  float64 `json:"x_ping"`
	P99    float64 `json:"p99_us"`
}

// cpu is the CPU time of a call; -1 if it was not measured.
type cpu struct {
	Server float64 `json:"server_us"`
	Client float64 `json:"client_us"`
}

// result holds the figures of one peer.
type result struct {
	Name      string          `json:"name"`
	Word      string          `json:"word"` // -skip leaves the peer out by this word
	Absent    string          `json:"absent,omitzero"`
	Times     map[int]figure  `json:"times"` // times of a feed check, by candidates
	CPU       cpu             `json:"cpu"`   // CPU time of a feed check of 500
	PerSecond map[int]float64 `json:"per_second"`
	Write     figure          `json:"write"`
	WriteMany figure          `json:"write_100"`
	Bytes     float64         `json:"bytes"` // per activity; 0: uses the data of another peer
	Wrong     float64         `json:"wrong"` // share of clean candidates that are dropped
	Stuck     *float64        `json:"stuck"` // share of removals without effect; nil: no removal
	Load      float64         `json:"load_seconds"`
}

// write writes the tables.
func (r *report) write(w io.Writer) error {
	switch {
	case r.Wire != nil:
		return r.writeWire(w)
	case r.Growth != nil:
		return r.writeGrowth(w)
	default:
		return r.writeText(w)
	}
}

func (r *report) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\nServer: %s.\nData: %s.\n\n", r.Machine, r.Server, r.Data)
	b.WriteString("Feed checks, x PING (medians, taking turns), and what one of 500 candidates uses of CPU:\n\n")
	head := []string{"", "50", "200", "500", "1,000", "CPU of Redis", "of the client"}
	table(&b, [][]string{head, r.pingCells()}, r.Peers, (*result).checkCells)
	fmt.Fprintf(&b, "\nFeed checks a second of %d goroutines, and how many times as many ours are:\n\n", goroutines)
	r.writeThroughput(&b)
	b.WriteString("\nWrites, x PING, and memory:\n\n")
	head = []string{"", "one write", "100 keys", "B an activity", "clean candidates dropped", "removals that do not take"}
	table(&b, [][]string{head}, r.Peers, (*result).writeCells)
	writeNoise(&b, r.Noise)
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes a table: the given rows, and then a row for each item of all.
func table[T any](b *strings.Builder, rows [][]string, all []T, cells func(T) []string) {
	for _, one := range all {
		rows = append(rows, cells(one))
	}
	writeTable(b, rows)
}

// micros writes a time, or "-" if it is unknown.
func micros(us float64) string {
	if us < 0 {
		return "-"
	}
	return significant(us) + " us"
}

func (r *report) pingCells() []string {
	cells := []string{pingRow}
	for _, us := range r.Pings {
		cells = append(cells, micros(us))
	}
	return append(cells, micros(r.PingCPU.Server), micros(r.PingCPU.Client))
}

// heads returns the first cells of a table's first two rows, with room for that many columns.
func (*report) heads(columns int) (head, pings []string) {
	return append(make([]string, 0, 1+columns), ""), append(make([]string, 0, 1+columns), pingRow)
}

// writeThroughput writes feed checks per second, and the ratio of our rate to each peer's.
func (r *report) writeThroughput(b *strings.Builder) {
	ours := r.find(ourWord)
	head, pings := r.heads(2 * len(feedSizes()))
	for _, n := range feedSizes() {
		head = append(head, significant(float64(n)), "ours")
		pings = append(pings, significant(r.PingsPerSecond[n]), "")
	}
	rows := append(make([][]string, 0, 2+len(r.Peers)), head, pings)
	for _, p := range r.Peers {
		cells := []string{p.Name}
		for i, n := range feedSizes() {
			switch {
			case p.Absent != "" && i == 0:
				cells = append(cells, p.Absent, "")
			case p.Absent != "":
				cells = append(cells, "", "")
			case ours == nil || p == ours:
				cells = append(cells, significant(p.PerSecond[n]), "")
			default:
				cells = append(cells, significant(p.PerSecond[n]), significant(ours.PerSecond[n]/p.PerSecond[n])+" x")
			}
		}
		rows = append(rows, cells)
	}
	writeTable(b, rows)
}

func (p *result) checkCells() []string {
	cells := []string{p.Name}
	if p.Absent != "" {
		return append(cells, p.Absent, "", "", "", "", "")
	}
	for _, n := range feedSizes() {
		cells = append(cells, significant(p.Times[n].XPing))
	}
	return append(cells, micros(p.CPU.Server), micros(p.CPU.Client))
}

func (p *result) writeCells() []string {
	if p.Absent != "" {
		return []string{p.Name, p.Absent, "", "", "", ""}
	}
	bytes, stuck := "as above", "cannot be removed"
	if p.Bytes > 0 {
		bytes = significant(p.Bytes)
	}
	if p.Stuck != nil {
		stuck = percent(*p.Stuck)
	}
	return []string{
		p.Name, significant(p.Write.XPing), significant(p.WriteMany.XPing), bytes, percent(p.Wrong), stuck,
	}
}

func percent(share float64) string { return significant(100*share) + " %" }

// find returns the peer with that word, or nil.
func (r *report) find(word string) *result {
	for _, p := range r.Peers {
		if p.Word == word {
			return p
		}
	}
	return nil
}
