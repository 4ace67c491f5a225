package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

const (
	processFeed  = 500
	processUsers = 50
	// tenHashes is a rate at which a key sets ten bits: 2^-15 for each key of a candidate.
	tenHashes = KeysPerCandidate * 1.0 / (1 << 15)
)

// Process holds feeds of 500 candidates, and a subject whose pages are in this process: one page of
// 4,000 entries, ten bits per key.
type Process struct {
	Subject *Subject
	People  *Population
	Feeds   []*Feed

	drops []activity.Kind
}

// OpenProcess opens a Process, with a ledger in dir.
func OpenProcess(ctx context.Context, dir string, seed uint64) (p *Process, err error) {
	p = &Process{}
	if p.People, err = NewPopulation(processUsers, pageEntries, seed); err != nil {
		return nil, err
	}
	p.Subject, err = OpenSubject(ctx, SubjectConfig{
		Store: &favfilter.Memory{}, File: filepath.Join(dir, "process.db"), Pages: 1, FalsePositiveRate: tenHashes,
	})
	if err != nil {
		return nil, err
	}
	if _, _, err = p.Subject.Record(ctx, p.People.Activities()); err == nil {
		err = p.Subject.RecordSeen(ctx, p.People)
	}
	if err != nil {
		return nil, errors.Join(err, p.Subject.Close())
	}
	p.Feeds = p.People.Feeds(processFeed)
	for _, k := range p.Subject.Recorder.Kinds().All() {
		if k.Effect == activity.Drop {
			p.drops = append(p.drops, k)
		}
	}
	return p, nil
}

// Keys returns a [Call] of a feed check without its answer: it builds, hashes and tests the keys of
// a whole feed.
func (p *Process) Keys() Call {
	return Call{Name: "keys in process", Do: func(ctx context.Context, round int) error {
		return lookUp(ctx, p.Subject.Recorder, p.drops, p.Feeds[round%len(p.Feeds)])
	}}
}

// process measures feeds of 500 with pages in this process.
func (s *suite) process(ctx context.Context) (err error) {
	p, err := OpenProcess(ctx, s.Dir, s.Seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Subject.Close()) }()
	keys, err := perKey(ctx, s.Duration, p.Keys())
	if err != nil {
		return err
	}
	whole, err := perKey(ctx, s.Duration, checkCall(p.Subject, p.Feeds, processFeed))
	if err != nil {
		return err
	}
	s.add(
		Row{Name: "in process, a key built, hashed and tested, 10 bits", Value: keys.ns, Unit: "ns"}.Against(Goal{Limit: 18}),
		Row{Name: "  allocations a key", Value: keys.allocations / (processFeed * KeysPerCandidate), Unit: "/key"},
		Row{Name: "  allocations a feed of 500", Value: keys.allocations, Unit: "/feed"},
		Row{Name: "in process, whole feed check of 500, a key", Value: whole.ns, Unit: "ns"},
		Row{Name: "  allocations a feed check of 500", Value: whole.allocations, Unit: "/feed"},
	)
	return nil
}

// lookUp tests all keys of the candidates of f.
func lookUp(ctx context.Context, r *activity.Recorder, kinds []activity.Kind, f *Feed) error {
	view, err := r.View(ctx, f.Viewer, kinds)
	if err != nil {
		return err
	}
	if len(view.Find((*candidates)(&f.Posts), 0, len(f.Posts), len(kinds))) == 0 {
		return fmt.Errorf("nothing was found for viewer %s, who has done something", f.Viewer)
	}
	return nil
}

// candidates are the posts of a feed.
type candidates []feed.Post

// Hash implements [activity.Candidates].
func (all *candidates) Hash(to *activity.Hashes, facet activity.Facet, from, until int) {
	for n := from; n < until; n++ {
		to.Add(all.IDs(n, facet))
	}
}

// IDs implements [activity.Candidates].
func (all *candidates) IDs(n int, facet activity.Facet) (first string, others []string) {
	if facet == activity.User {
		return (*all)[n].Author, nil
	}
	return (*all)[n].ID, nil
}

// keyCost is the cost of a feed of processFeed candidates.
type keyCost struct{ ns, allocations float64 }

func perKey(ctx context.Context, d time.Duration, c Call) (keyCost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	samples, err := Interleave(ctx, d, c)
	if err != nil {
		return keyCost{}, err
	}
	runtime.ReadMemStats(&after)
	return keyCost{
		ns:          float64(samples[0].Median()) / (processFeed * KeysPerCandidate),
		allocations: float64(after.Mallocs-before.Mallocs) / float64(len(samples[0])+1),
	}, nil
}
