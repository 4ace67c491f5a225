package sizing

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/feedfilter/feedfilter/activity"
)

// WriteText writes the plan as tables and notes, in ASCII, for people.
func (p *Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	in := &p.Input
	fmt.Fprintf(&b, "%s users, %s activities each, %s feeds a second of %s candidates, false positives %s %%\n",
		count(in.Users), count(in.ActivitiesPerUser), count(in.FeedsPerSecond), count(float64(in.Candidates)), short(100*in.FalsePositiveRate))
	fmt.Fprintf(&b, "--pages %d: %s keys a page on average, up to %s on 99 %% of them; 99 %% of feed checks read up to %s\n\n",
		in.Pages, count(math.Round(p.KeysPerPage)), count(p.KeysPage99), size(p.FeedRead99))
	p.table(&b)
	p.beside(&b)
	b.WriteString("\nAssumed\n")
	for _, note := range p.Notes {
		b.WriteString("  - " + note + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// beside writes the resources besides Redis.
func (p *Plan) beside(b *strings.Builder) {
	l, s := &p.Ledger, &p.Service
	fmt.Fprintf(b, "\nPostgreSQL, estimated: %s rows, %s on disk\n", count(math.Round(l.Rows)), size(l.Bytes))
	fmt.Fprintf(b, "  rows                   %s\n  indexes                %s\n", size(l.Table), size(l.Indexes))
	fmt.Fprintf(b, "\nservice, estimated: %s cores in all, half busy\n", short(s.Cores))
	fmt.Fprintf(b, "  CPU of a feed          %s us; by JSON %s us, and %s cores\n",
		short(s.FeedCPU), short(s.FeedCPUJSON), short(s.CoresJSON))
	fmt.Fprintf(b, "  memory of a process    %s, of which %s for what it knows of pages; %s when it is full\n",
		size(s.Memory), size(s.Known), size(s.MemoryFull))
}

// table writes a row per figure and a column per way.
func (p *Plan) table(b *strings.Builder) {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name string, cell func(Way) string) {
		cells := append(make([]string, 0, 1+len(p.Ways)), name)
		for _, w := range p.Ways {
			cells = append(cells, cell(w))
		}
		_, _ = io.WriteString(out, strings.Join(cells, "\t")+"\n") // never fails: text is in memory
	}
	perActivity := func(keys float64) func(w Way) string {
		return func(w Way) string { return strconv.FormatFloat(w.PerActivity/keys, 'f', 1, 64) }
	}
	cluster := func(name string, cell func(*Fleet) string) {
		row(name, func(w Way) string {
			if w.Cluster == nil {
				return "-"
			}
			return cell(w.Cluster)
		})
	}
	row("", func(w Way) string { return w.Name })
	row("memory", func(w Way) string { return size(w.Memory) })
	row("  bytes an activity", perActivity(1))
	row("  bytes a key", perActivity(1+p.Input.TwoWay))
	row("can undo", func(w Way) string { return map[bool]string{true: "yes", false: "no"}[w.Undo] })
	row("a feed check", func(Way) string { return "" })
	row("  bytes to Redis", func(w Way) string { return size(w.FeedRequest) })
	row("  bytes from Redis", func(w Way) string { return size(w.FeedReply) })
	row("  CPU of Redis", func(w Way) string { return short(w.FeedCPU) + " us" })
	row("  ECPU if serverless", func(w Way) string { return short(w.FeedECPU) })
	row("nodes of "+count(p.Input.NodeGiB)+" GiB", func(w Way) string { return w.NoCluster })
	cluster("  shards x nodes", func(f *Fleet) string { return fmt.Sprintf("%d x %d", f.Shards, f.Nodes/f.Shards) })
	cluster("  set by", func(f *Fleet) string { return f.Limit })
	cluster("  fullest shard, memory", func(f *Fleet) string { return percent(f.Memory) })
	cluster("  a shard, CPU", func(f *Fleet) string { return percent(f.CPU) })
	cluster("  a shard, reads a second", func(f *Fleet) string { return count(math.Round(f.Reads)) })
	cluster("  a shard, network in/out", func(f *Fleet) string { return short(f.GbitIn) + "/" + short(f.Gbit) + " Gbit/s" })
	_ = out.Flush()
	for line := range strings.Lines(text.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// notes returns the assumptions and omissions of the plan.
func (p *Plan) notes() []string {
	in := &p.Input
	notes := []string{
		fmt.Sprintf("%g %% of the activities are two-way; what a user has is spread by %g times the mean.", 100*in.TwoWay, in.Spread),
		"Pages were just rebuilt, with room for a twentieth more keys. Those that grew take less.",
		fmt.Sprintf("%.0f %% of a node is left to the server, %.0f %% of the rest is used. Cores are %.0f %% busy.",
			100*reserved, 100*in.Fill, 100*cpuTarget),
		"PostgreSQL: rows in random order, indexes as they grow, no dead rows. The write-ahead log and backups are extra.",
		"Service: estimated from 2 cores of one machine, with 500,000 activities. A full process has 512 requests in progress.",
		"Feed checks alone: writes, the scrub, replication, snapshots and TLS are extra.",
	}
	if k, ok := in.window(); ok {
		notes = append(notes, p.windowNotes(k)...)
	}
	if in.NodeGbit == 0 {
		notes = append(notes, "Not checked: what a node's network can move (--node-gbit).")
	}
	var unsized []string
	for _, k := range in.Kinds.All() {
		if !k.InLedger() && (k.Name != activity.Seen || in.SeenPerDay == 0) {
			unsized = append(unsized, k.Name)
		}
	}
	if len(unsized) > 0 {
		notes = append(notes, "Not sized, since nothing says how much of it there is: "+strings.Join(unsized, ", ")+".")
	}
	return notes
}

// windowNotes returns the assumptions about seen posts.
func (p *Plan) windowNotes(k activity.Kind) []string {
	most, parts := k.Most, float64(partsOf(k))
	if most == 0 {
		most = activity.DefaultMost
	}
	notes := []string{fmt.Sprintf("Windows of seen posts are at the middle of a part. At its end they have %.0f %% more keys.",
		100*0.5/(parts+0.5))}
	if p.Forgotten >= 0.0005 {
		notes = append(notes, fmt.Sprintf("feedfilter keeps the last %s posts that a user has seen. "+
			"It forgets %s %% of the posts of all users early; the other ways keep them.", count(float64(most)), short(100*p.Forgotten)))
	}
	return notes
}

// count formats a number with commas and at most two decimals.
func count(n float64) string {
	whole, rest, _ := strings.Cut(strconv.FormatFloat(n, 'f', 2, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest = strings.TrimRight(rest, "0"); rest != "" {
		return whole + "." + rest
	}
	return whole
}

// short formats a number with three digits, without an exponent unless it is tiny.
func short(n float64) string {
	switch {
	case n >= 100:
		return count(math.Round(n))
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	case n >= 1:
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprintf("%.2g", n)
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// size formats a number of bytes with a unit.
func size(n float64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := 0
	for n /= 1024; n >= 1023.95 && i < len(units)-1; i++ {
		n /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", n, units[i])
}
