package main

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
)

// ours is this project: feed.Filter over a ledger in SQLite and pages in Redis.
type ours struct {
	subject *bench.Subject
	spare   favfilter.Store // a filter that only write uses
}

func openOurs(ctx context.Context, r *run) (*ours, error) {
	store, err := redisstore.New(r.client, "peers")
	if err != nil {
		return nil, err
	}
	spare, err := redisstore.New(r.client, "peers-w")
	if err != nil {
		return nil, err
	}
	subject, err := bench.OpenSubject(ctx, bench.SubjectConfig{
		Store: store, File: r.dir + "/ledger.db", Pages: bench.NumberFor(r.people.Entries()), FalsePositiveRate: r.rate,
	})
	if err != nil {
		return nil, err
	}
	r.host.Cleanup(func() { _ = subject.Close() })
	return &ours{subject, spare}, nil
}

func (o *ours) load(ctx context.Context, p *bench.Population) error {
	return o.subject.Record(ctx, p.Activities())
}

func (o *ours) loadSeen(ctx context.Context, p *bench.Population) error {
	return o.subject.Record(ctx, p.Seen())
}

func (o *ours) check(ctx context.Context, f *bench.Feed, dropped []bool) error {
	return o.subject.Check(ctx, f, dropped)
}

func (o *ours) write(keys int) bench.Call {
	return writePages(fmt.Sprintf("%d keys on a page", keys), o.spare, uint32(keys%16), keys)
}

func (o *ours) unhide(ctx context.Context, f *bench.Feed) error {
	all := make([]activity.Activity, len(f.Posts))
	for i, p := range f.Posts {
		all[i] = activity.Activity{User: f.Viewer, Kind: bench.Hide, Target: p.ID, Remove: true}
	}
	_, err := o.subject.Recorder.Record(ctx, all)
	return err
}
