package pages

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// replicaTimeout is how long a replica may take before the store is asked.
	replicaTimeout = 200 * time.Millisecond
	// replicaPause is how long a replica is not used after a failure.
	replicaPause = time.Second
)

// loadNearest loads a page if ids begin with one, and others: from the replica if there is one and
// its page may be used, otherwise from the store. Only the store is asked for versions.
//
// A page with the sequence want has every required write, wherever it is read. While the required
// sequence is unknown, because the ledger cannot be asked, loadNearest skips the replica: its pages
// may lack acknowledged writes.
func (r *Pages) loadNearest(
	ctx context.Context, page bool, at position, want uint64, ids []favfilter.PageID, v *versions,
) (loaded []favfilter.Loaded, replica bool, err error) {
	if r.replica == nil || !at.known || len(ids) == 0 || r.elapsed() < r.replicaAfter.Load() {
		loaded, err = r.loadWithin(ctx, patience(r.isLarge(at.page)), ids, v)
		return loaded, false, err
	}
	limited, cancel := context.WithTimeout(ctx, replicaTimeout)
	loaded, err = r.replica.Load(limited, ids)
	cancel()
	if err == nil && (!page || r.fault(ctx, at.page, want, statusOf(loaded[0])) == "") {
		r.stats.fromReplica.Add(1)
		if r.uncopied.worked(r.elapsed()) {
			r.log.InfoContext(ctx, "replicas can be read again")
		}
		return loaded, true, nil
	}
	if err != nil && ctx.Err() == nil {
		if r.uncopied.failed(r.elapsed()) {
			r.log.WarnContext(ctx, "a replica cannot be read: feeds come from the primary", "error", err)
		}
		r.replicaAfter.Store(r.elapsed() + int64(replicaPause))
	}
	r.stats.pastReplica.Add(1)
	loaded, err = r.loadWithin(ctx, patience(r.isLarge(at.page)), ids, v)
	return loaded, false, err
}
