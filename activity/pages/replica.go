package pages

import (
	"context"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// replicaTimeout is how long a replica may take before the store is asked.
	replicaTimeout = 200 * time.Millisecond
	// replicaPause is how long a replica is not used after a failure.
	replicaPause = time.Second
)

// loadReplica reads pages and versions from the replica, if there is one and its pages may be used.
//
// A page with the lowest sequence has every required write, wherever it is read. While the required
// sequence is unknown, because the ledger cannot be asked, loadReplica does nothing: the replica's
// pages may lack acknowledged writes.
func (r *reader) loadReplica(
	ctx context.Context, all []reading, ids, compared []favfilter.PageID,
) (loaded []favfilter.Loaded, versions []favfilter.Version, ok bool) {
	if r.replica == nil || len(ids)+len(compared) == 0 || r.life.elapsed() < r.replicaAfter.Load() ||
		slices.ContainsFunc(all, func(p reading) bool { return p.pending && !p.at.known }) {
		return nil, nil, false
	}
	limited, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	loaded, versions, err := r.replica.Load(limited, ids, compared...)
	if err == nil && r.sound(ctx, all, loaded) {
		if r.replicaOutage.worked(r.life.elapsed()) {
			r.storage.log.InfoContext(ctx, "replicas can be read again")
		}
		return loaded, versions, true
	}
	if err != nil && ctx.Err() == nil {
		if r.replicaOutage.failed(r.life.elapsed()) {
			r.storage.log.WarnContext(ctx, "a replica cannot be read: feeds come from the primary", "error", err)
		}
		r.replicaAfter.Store(r.life.elapsed() + int64(replicaPause))
	}
	r.storage.stats.pastReplica.Add(1)
	return nil, nil, false
}

// sound reports whether all pages may be used, held ones included: loaded are those of the pending
// pages that are not held, in order.
func (r *reader) sound(ctx context.Context, all []reading, loaded []favfilter.Loaded) bool {
	for i := range all {
		p := &all[i]
		if !p.pending {
			continue
		}
		st := favfilter.Status{}
		if p.held.page != nil {
			st.Header = p.held.page.Header()
		} else {
			st, loaded = statusOf(loaded[0]), loaded[1:]
		}
		if r.poller.fault(ctx, p.at.page, p.want, st) != "" {
			return false
		}
	}
	return true
}
