package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	manyKeys = 100
	// rebuildKeys is the number of keys in the rebuilt page.
	rebuildKeys = 5000
)

// KeyRate returns the false-positive rate of a key in a page, at the default rate of a candidate.
func KeyRate() float64 { return activity.BuiltinKinds().Rates(0.001).Key }

// fill records the population, and returns the rows for bytes per activity and for the rate.
func (s *suite) fill(ctx context.Context, store favfilter.Store) ([]Row, error) {
	const bytesName, bytesUnit = "bytes an activity, all overhead in", "B"
	memory := func() (int64, error) {
		if s.Server != nil {
			return s.Server.Memory(ctx)
		}
		if m, ok := store.(*favfilter.Memory); ok {
			return int64(m.Bytes()), nil
		}
		return 0, ErrUnknown
	}
	if s.Server != nil {
		spare, err := s.Open(Filters(s.Filter)[1])
		if err != nil {
			return nil, err
		}
		if err := Warm(ctx, *s.Server, spare); err != nil {
			return nil, err
		}
	}
	before, unknownBefore := memory()
	n, took, err := s.subject.Record(ctx, s.people.Activities())
	if err != nil {
		return nil, err
	}
	after, unknownAfter := memory()
	if err := s.subject.RecordSeen(ctx, s.people); err != nil {
		return nil, err
	}
	bytes := unknown(bytesName, bytesUnit, "not reported")
	if errors.Join(unknownBefore, unknownAfter) == nil {
		bytes = Row{Name: bytesName, Value: float64(after-before) / float64(s.people.Entries()), Unit: bytesUnit}
	}
	return []Row{
		bytes.Against(Goal{Limit: 2.6}),
		Row{Name: "import, with SQLite", Value: float64(n) / took.Seconds(), Unit: "activities/s"}.Against(Goal{Limit: 150_000, Least: true}),
	}, nil
}

// Warm loads the scripts on the server and opens connections, whose memory does not depend on the
// number of activities. It writes to page 0 of the store.
func Warm(ctx context.Context, server Server, store favfilter.Store) error {
	w := &writer{store: store, id: favfilter.PageID{Number: 0}, keys: 1}
	for range minRounds {
		if err := errors.Join(w.prepare(ctx, 0), w.write(ctx, 0)); err != nil {
			return err
		}
	}
	if _, err := store.Peek(ctx, []favfilter.PageID{w.id}); err != nil {
		return err
	}
	_, err := Parallel(ctx, time.Millisecond, goroutines, server.Ping())
	return err
}

// writes measures writes to a page, and one activity including its ledger commit.
func (s *suite) writes(ctx context.Context) error {
	store, err := s.Open(Filters(s.Filter)[1])
	if err != nil {
		return err
	}
	hides := 0
	record := Call{Name: "one activity, its ledger commit included", Do: func(ctx context.Context, _ int) error {
		hides++
		_, err := s.subject.Recorder.Record(ctx, []activity.Activity{
			{User: UserID(hides % s.people.Users()), Kind: Hide, Target: "w" + strconv.Itoa(hides)},
		})
		return err
	}}
	calls := []Call{Write("one write", store, 0, 1), Write("100 keys on one page", store, 1, manyKeys), record}
	ping, samples, err := s.interleave(ctx, s.Duration, calls...)
	if err != nil {
		return err
	}
	for i, goal := range []float64{1.4, 2.3, 0} {
		row := timed(calls[i].Name, samples[i].Median(), ping)
		if goal > 0 && s.Server != nil {
			row = row.Against(Goal{Limit: goal, OfPing: true})
		}
		s.add(row)
	}
	return nil
}

// build measures how fast pages are built from keys and stored, as in an import into an empty
// filter.
func (s *suite) build(ctx context.Context) error {
	store, err := s.Open(Filters(s.Filter)[1])
	if err != nil {
		return err
	}
	shape, err := favfilter.ShapeFor(pageEntries*5/4, KeyRate())
	if err != nil {
		return err
	}
	w := &writer{store: store, id: favfilter.PageID{Number: 2}}
	var buf []byte
	first := favfilter.HashStart(1, "hide:Uu1000001_P")
	keys := 0
	call := Call{Name: "import into pages", Do: func(ctx context.Context, round int) error {
		w.sequence = uint64(round + 1)
		page, err := favfilter.NewPage(w.header(shape))
		if err != nil {
			return err
		}
		for range pageEntries {
			keys++
			buf = strconv.AppendInt(append(buf[:0], 'p'), int64(10_000_000_000+keys), 10)
			page.Insert(first.With(favfilter.HashKeyBytes(1, buf)))
		}
		_, err = store.Replace(ctx, favfilter.Replacement{ID: w.id, Page: page, Newer: true})
		return err
	}}
	start := time.Now()
	if _, err := Repeat(ctx, s.Duration, call); err != nil {
		return err
	}
	s.add(Row{
		Name:  "import, pages alone: keys hashed, pages made and put in place",
		Value: float64(keys) / time.Since(start).Seconds(), Unit: "activities/s",
	}.Against(Goal{Limit: 1e6, Least: true}))
	return nil
}

// rebuild measures how long a feed waits when its page is missing: the page is read from the
// ledger, built and stored.
func (s *suite) rebuild(ctx context.Context) (err error) {
	store, err := s.Open(Filters(s.Filter)[2])
	if err != nil {
		return err
	}
	subject, err := OpenSubject(ctx, SubjectConfig{Store: store, File: filepath.Join(s.Dir, "rebuild.db"), Pages: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	_, _, err = subject.Record(ctx, func(yield func(activity.Activity) bool) {
		for i := range rebuildKeys {
			if !yield(activity.Activity{User: UserID(i % 50), Kind: Hide, Target: HiddenID(i%50, i/50)}) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	hide, _ := subject.Recorder.Kinds().Named(Hide)
	samples, err := Interleave(ctx, s.Duration, Call{
		Name: "rebuild",
		Before: func(ctx context.Context, _ int) error {
			loaded, err := store.Load(ctx, []favfilter.PageID{{Number: 0}})
			if err != nil {
				return err
			}
			_, err = store.Replace(ctx, favfilter.Replacement{ID: favfilter.PageID{Number: 0}, Seen: loaded[0].Version})
			return err
		},
		Do: func(ctx context.Context, _ int) error {
			view, err := subject.Recorder.View(ctx, UserID(0), []activity.Kind{hide})
			if err == nil && view.Page().Keys != rebuildKeys {
				err = fmt.Errorf("the page has %d keys of %d", view.Page().Keys, rebuildKeys)
			}
			return err
		},
	})
	if err != nil {
		return err
	}
	s.add(Row{
		Name: "rebuild of a page of 5,000, read from SQLite", Value: inMicros(samples[0].Median()) / 1000, Unit: "ms",
	}.Against(Goal{Limit: 5}))
	return nil
}
