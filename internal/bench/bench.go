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
	feedSize       = 500
	usualUser      = 100 // activities of a user, on average
	maxFalseDrops  = 0.01
	fanoutKinds    = 2 // block and blocked-by
	nanosPerMicros = float64(time.Microsecond)
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

// Row is the cost of one call.
type Row struct {
	Name   string  `json:"name"`
	Keys   int     `json:"keys"` // that a call looks up or writes
	Median float64 `json:"median_us"`
	P99    float64 `json:"p99_us"`
	XPing  float64 `json:"x_ping,omitzero"` // Median divided by PING's
}

// Report is the result of a run.
type Report struct {
	Machine string `json:"machine"`
	Data    string `json:"data"`
	Rows    []Row  `json:"rows"`
}

// Run fills the store and measures, and leaves the data in the store. It fails if a feed shows what
// its viewer must not see.
func Run(ctx context.Context, c Config) (r *Report, err error) {
	people, err := NewPopulation(max(3, c.Entries/usualUser), c.Entries, 1)
	if err != nil {
		return nil, err
	}
	pages := NumberFor(people.Entries())
	subject, err := OpenSubject(ctx, SubjectConfig{Store: c.Store, File: filepath.Join(c.Dir, "bench.db"), Pages: pages})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	for _, all := range []iter.Seq[activity.Activity]{people.Activities(), people.Seen()} {
		if err := subject.Record(ctx, all); err != nil {
			return nil, err
		}
	}
	feeds := people.Feeds(feedSize)
	if err := verify(ctx, subject, feeds); err != nil {
		return nil, err
	}
	rows := []Row{
		{Name: "feed check of 500 candidates", Keys: feedSize * KeysPerCandidate}, {Name: "write of one activity", Keys: 1},
		{Name: "fan-out to 10,000 viewers", Keys: feed.MaxViewers * fanoutKinds},
	}
	calls := []Call{subject.checks(feeds), subject.writes(people), subject.fanouts(people)}
	if c.Redis != nil {
		rows, calls = append([]Row{{Name: "PING"}}, rows...), append([]Call{Ping(c.Redis)}, calls...)
	}
	samples, err := Interleave(ctx, c.Duration*time.Duration(len(calls)), calls...)
	if err != nil {
		return nil, err
	}
	for i, s := range samples {
		rows[i].Median, rows[i].P99 = float64(s.Median())/nanosPerMicros, float64(s.Quantile(0.99))/nanosPerMicros
		if c.Redis != nil {
			rows[i].XPing = rows[i].Median / rows[0].Median
		}
	}
	return &Report{
		Machine: fmt.Sprintf("%d CPUs, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
		Data:    fmt.Sprintf("%d activities of %d users on %d pages, ledger in SQLite", people.Entries(), people.Users(), pages),
		Rows:    rows,
	}, nil
}

// verify returns an error if a feed keeps what must be dropped, or drops much more.
func verify(ctx context.Context, s *Subject, feeds []*Feed) error {
	dropped, wrong := make([]bool, feedSize), 0
	for _, f := range feeds {
		if err := s.Check(ctx, f, dropped); err != nil {
			return err
		}
		missed, falsely := f.Wrong(dropped)
		if missed > 0 {
			return fmt.Errorf("%d candidates were kept that viewer %s must not see", missed, f.Viewer)
		}
		wrong += falsely
	}
	if all := len(feeds) * feedSize; float64(wrong) > maxFalseDrops*float64(all) {
		return fmt.Errorf("%d of %d candidates were dropped wrongly", wrong, all)
	}
	return nil
}

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
		author := UserID(p.Viewers[round%len(p.Viewers)])
		_, err := feed.Fanout(ctx, s.Recorder, feed.FanoutRequest{Post: feed.Post{Author: author}, Viewers: viewers})
		return err
	}}
}

// WriteText writes the report as a table.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n%-28s %10s %10s %8s %7s\n", r.Machine, r.Data, "", "median, us", "p99, us", "x PING", "keys")
	for _, row := range r.Rows {
		ratio := "-"
		if row.XPing > 0 {
			ratio = fmt.Sprintf("%.2f", row.XPing)
		}
		fmt.Fprintf(&b, "%-28s %10.1f %10.1f %8s %7d\n", row.Name, row.Median, row.P99, ratio, row.Keys)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
