package sizing

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

const (
	barWidth  = 50
	noteWidth = 100
)

// WriteText writes the plan as a table, a chart of bars and notes, in ASCII, for people.
func (p *Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	in := &p.Input
	fmt.Fprintf(&b, "%s users, %s activities each, %s feeds a second of %s candidates, false positives %s %%\n",
		count(in.Users), count(in.ActivitiesPerUser), count(in.FeedsPerSecond), count(float64(in.Candidates)), short(100*in.FalsePositiveRate))
	fmt.Fprintf(&b, "--pages %d: %s keys a page on average, up to %s on 99 %% of them; 99 %% of feed checks read up to %s\n\n",
		in.Pages, count(math.Round(p.KeysPerPage)), count(p.KeysPage99), size(p.FeedRead99))
	p.table(&b)
	for _, c := range []struct {
		title string
		value func(Way) (float64, string)
	}{
		{"Memory", func(w Way) (float64, string) { return w.Memory, size(w.Memory) }},
		{"Cost a month, cluster", func(w Way) (float64, string) {
			if w.Cluster == nil {
				return 0, "-"
			}
			return w.Cluster.USDMonth, dollars(w.Cluster.USDMonth)
		}},
	} {
		b.WriteString("\n" + c.title + "\n")
		p.bars(&b, c.value)
	}
	b.WriteString("\nAssumed\n")
	for _, note := range p.Notes {
		b.WriteString(wrap("  - ", note, noteWidth))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes a row for each figure and a column for each way.
func (p *Plan) table(b *strings.Builder) {
	in := &p.Input
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name string, cell func(Way) string) {
		var nameSb54 strings.Builder
		for _, w := range p.Ways {
			nameSb54.WriteString("\t" + cell(w))
		}
		name += nameSb54.String()
		_, _ = io.WriteString(out, name+"\n") // into text, which takes everything
	}
	row("", func(w Way) string { return w.Name })
	row("memory", func(w Way) string { return size(w.Memory) })
	row("  bytes an activity", func(w Way) string {
		if w.PerActivity == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", w.PerActivity)
	})
	row("  bytes a key", func(w Way) string {
		if w.PerActivity == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", w.PerActivity/(1+in.TwoWay))
	})
	row("can undo", func(w Way) string { return map[bool]string{true: "yes", false: "no"}[w.Undo] })
	row("a feed check", func(Way) string { return "" })
	row("  bytes to Redis", func(w Way) string { return size(w.FeedRequest) })
	row("  bytes from Redis", func(w Way) string { return size(w.FeedReply) })
	row("  CPU of Redis", func(w Way) string { return short(w.FeedCPU) + " us" })
	clusterRows(row)
	row("serverless", func(Way) string { return "" })
	row("  ECPU a feed check", func(w Way) string { return short(w.Serverless.FeedECPU) })
	row("  a month", func(w Way) string { return dollars(w.Serverless.USDMonth) })
	_ = out.Flush()
	for line := range strings.Lines(text.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// clusterRows are the rows on the nodes.
func clusterRows(row func(name string, cell func(Way) string)) {
	cluster := func(name string, cell func(*Fleet) string) {
		row(name, func(w Way) string {
			if w.Cluster == nil {
				return "-"
			}
			return cell(w.Cluster)
		})
	}
	row("cluster", func(w Way) string {
		if w.Cluster == nil {
			return w.NoCluster
		}
		return w.Cluster.Node
	})
	cluster("  shards x nodes", func(f *Fleet) string { return fmt.Sprintf("%d x %d", f.Shards, f.Nodes/f.Shards) })
	cluster("  set by", func(f *Fleet) string { return f.Limit })
	cluster("  fullest shard, memory", func(f *Fleet) string { return percent(f.Memory) })
	cluster("  a shard, CPU", func(f *Fleet) string { return percent(f.CPU) })
	cluster("  a shard, network in/out", func(f *Fleet) string { return short(f.GbitIn) + "/" + short(f.Gbit) + " Gbit/s" })
	cluster("  a month", func(f *Fleet) string { return dollars(f.USDMonth) })
}

// bars writes a bar for each way, as long as its value.
func (p *Plan) bars(b *strings.Builder, value func(Way) (float64, string)) {
	most := 0.0
	for _, w := range p.Ways {
		v, _ := value(w)
		most = max(most, v)
	}
	for _, w := range p.Ways {
		v, text := value(w)
		length := 0
		if v > 0 {
			length = max(1, int(math.Round(v/most*barWidth)))
		}
		fmt.Fprintf(b, "  %-13s %s %s\n", w.Name, strings.Repeat("#", length), text)
	}
}

// wrap is the text in lines of so many characters, the first after lead, the others as far in.
func wrap(lead, text string, width int) string {
	var b strings.Builder
	line := strings.TrimRight(lead, " ")
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(lead)-1)
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// count is a number with commas, and up to two digits after the point.
func count(n float64) string {
	text := fmt.Sprintf("%.2f", n)
	whole, rest, _ := strings.Cut(text, ".")
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	if rest = strings.TrimRight(rest, "0"); rest != "" {
		b.WriteString("." + rest)
	}
	return b.String()
}

// short is a number to three digits, without an exponent unless it is tiny.
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

func dollars(n float64) string { return "$" + count(math.Round(n)) }

// size is a number of bytes with its unit.
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
