package activity

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// replicaTimeout is how long a replica may take before the store is asked.
	replicaTimeout = 200 * time.Millisecond
	// replicaPause is how long one that failed is left alone.
	replicaPause = time.Second
)

// loadView loads what a View needs: from the replica if there is one and what it has may be used, which costs nothing
// more; else from the store, whose pages the replica's will become.
//
// A page at want has every write that has to be seen, wherever it is read. While it is not known what has to
// be, because the ledger cannot be asked, the replica is left out: it may lack what was acknowledged.
func (r *Recorder) loadView(
	ctx context.Context, v *View, number uint32, want uint64, parts []favfilter.PageID, known bool,
) (loaded []favfilter.Loaded, replica bool, err error) {
	if r.replica == nil || !known || len(parts) == 0 || r.elapsed() < r.replicaAfter.Load() {
		loaded, err = r.loadWithin(ctx, patience(r.isLarge(number)), parts)
		return loaded, false, err
	}
	limited, cancel := context.WithTimeout(ctx, replicaTimeout)
	loaded, err = r.replica.Load(limited, parts)
	cancel()
	if err == nil && (!v.ledger || r.fault(ctx, number, want, standing(loaded[0])) == "") {
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
	loaded, err = r.loadWithin(ctx, patience(r.isLarge(number)), parts)
	return loaded, false, err
}
