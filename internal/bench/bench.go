// Package bench measures feed checks, writes and fan-outs, for the command "feedfilter debug
// bench", and makes the data on which tools/peers compares other ways to keep activities.
// Compared calls take turns in one run.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

const (
	feedSize    = 500
	usualUser   = 100 // activities of a user, on average
	fanoutKinds = 2   // block and blocked-by
)

// Config configures [Run].
type Config struct {
	Store   favfilter.Store       // empty
	Redis   redis.UniversalClient // of the store; nil: the pages are in this process
	Dir     string                // directory of the ledger
	Entries int                   // see NewPopulation
	// Duration is about how long a row is measured.
	Duration time.Duration
}

// row is a call, and the number of keys that it looks up or writes.
type row struct {
	name string
	keys int
	call Call
}

// Run fills the store, measures, and prints a table. It leaves the data in the store.
func Run(ctx context.Context, c Config, out io.Writer) (err error) {
	people, err := NewPopulation(max(3, c.Entries/usualUser), c.Entries, 1)
	if err != nil {
		return err
	}
	pages := NumberFor(people.Entries())
	subject, err := OpenSubject(ctx, SubjectConfig{
		Store: c.Store,
		File:  filepath.Join(c.Dir, "bench.db"),
		Pages: pages,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	for _, all := range []iter.Seq[activity.Activity]{people.Activities(), people.Seen()} {
		if err := subject.Record(ctx, all); err != nil {
			return err
		}
	}
	checks := subject.checks(people.Feeds(feedSize))
	rows := []row{
		{"feed check of 500 candidates", feedSize * KeysPerCandidate, checks},
		{"write of one activity", 1, subject.writes(people)},
		{"fan-out to 10,000 viewers", feed.MaxViewers * fanoutKinds, subject.fanouts(people)},
	}
	if c.Redis != nil {
		rows = append([]row{{"PING", 0, Ping(c.Redis)}}, rows...)
	}
	calls := make([]Call, len(rows))
	for i, r := range rows {
		calls[i] = r.call
	}
	samples, err := Interleave(ctx, c.Duration*time.Duration(len(calls)), calls...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(
		out, "%d CPUs, %s/%s, %s\n%d activities of %d users on %d pages, ledger in SQLite\n\n%s",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		people.Entries(), people.Users(), pages, table(rows, samples, c.Redis != nil),
	)
	return err
}

// table returns the figures as text. If the first row is a PING, it is the unit.
func table(rows []row, samples []Samples, pinged bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %10s %10s %8s %7s\n", "", "median, us", "p99, us", "x PING", "keys")
	for i, r := range rows {
		ratio := "-"
		if pinged {
			ratio = fmt.Sprintf("%.2f", micros(samples[i].Median())/micros(samples[0].Median()))
		}
		fmt.Fprintf(&b, "%-28s %10.1f %10.1f %8s %7d\n",
			r.name, micros(samples[i].Median()), micros(samples[i].Quantile(0.99)), ratio, r.keys)
	}
	return b.String()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (s *Subject) checks(feeds []*Feed) Call {
	return Call{Name: "a feed check", Do: func(ctx context.Context, round int) error {
		return s.Check(ctx, feeds[round%len(feeds)], nil)
	}}
}

func (s *Subject) writes(p *Population) Call {
	return Call{Name: "a write", Do: func(ctx context.Context, round int) error {
		_, err := s.Recorder.Record(ctx, []activity.Activity{
			{User: UserID(round % p.Users()), Kind: Hide, Target: "w" + strconv.Itoa(round)},
		})
		return err
	}}
}

func (s *Subject) fanouts(p *Population) Call {
	viewers := make([]string, feed.MaxViewers)
	for i := range viewers {
		viewers[i] = UserID(i)
	}
	return Call{Name: "a fan-out", Do: func(ctx context.Context, round int) error {
		post := feed.Post{Author: UserID(p.Viewers[round%len(p.Viewers)])}
		_, err := feed.Fanout(ctx, s.Recorder, feed.FanoutRequest{Post: post, Viewers: viewers})
		return err
	}}
}
