package activity

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Ledger is what a [Recorder] needs of a *ledger.Ledger; an interface so that
// tests can make each call fail.
//
//nolint:revive // the methods are documented where they are implemented
type Ledger interface {
	Identity() ledger.Identity
	Record(ctx context.Context, changes []ledger.Change) (ledger.Receipt, error)
	Snapshot(ctx context.Context, page uint32) ([]ledger.Row, uint64, error)
	Sequence(ctx context.Context, page uint32) (uint64, error)
	Sequences(ctx context.Context, each func(page uint32, sequence uint64) error) error
	List(ctx context.Context, q ledger.ListQuery) ([]ledger.Row, error)
	Ping(ctx context.Context) error
}

// Config is what a [Recorder] is made of.
type Config struct {
	_ struct{} // fields are named

	Ledger Ledger          // closed by the caller, after the Recorder
	Store  favfilter.Store // one filter, of this ledger alone
	Kinds  *Kinds          // default: BuiltinKinds()

	// FalsePositiveRate is the share of clean candidates that a feed check of one
	// author each may drop wrongly, 1e-8 to 0.5. Each of the keys tested for a
	// candidate gets an equal part of it. Default 0.001.
	FalsePositiveRate float64

	Now    func() time.Time // default: time.Now
	Logger *slog.Logger     // default: discards
}

const (
	// maxGroup is the most changes that share one ledger transaction.
	maxGroup = 10_000
	// maxSettling is the number of committed groups whose pages may be on their
	// way at once.
	maxSettling = 8
	// maxRebuilds is the number of pages made anew at once.
	maxRebuilds = 4
	// loadTimeout is how long a read of pages may take before the ledger is asked
	// instead.
	loadTimeout = time.Second
	// commitTimeout and pageTimeout bound what goes on without a caller to wait
	// for it: a transaction, and the pages of a group or one rebuild.
	commitTimeout = 10 * time.Second
	pageTimeout   = 10 * time.Second
)

// Recorder records activities: in the ledger first, then in the pages. It
// acknowledges a write when every page touched stands at the write's sequence,
// and from then on every [View] has it.
//
// Writes of concurrent callers share ledger transactions. A Recorder is safe for
// concurrent use.
type Recorder struct {
	ledger   Ledger
	store    favfilter.Store
	kinds    *Kinds
	identity favfilter.Identity // of the pages that the ledger backs
	keyRate  float64            // false-positive rate of one key

	windowShape favfilter.Shape

	now func() time.Time
	log *slog.Logger

	marks    watermarks
	queue    chan *write
	settling chan struct{} // counts groups on their way
	rebuilds rebuilds

	base   context.Context //nolint:containedctx // of work that outlives its callers; ends when Close is done
	stop   context.CancelFunc
	closed chan struct{}
	ended  sync.WaitGroup

	storeDown atomic.Bool // what was logged last

	mu   sync.Mutex
	tail map[uint32]chan struct{} // of the last group on its way to each page; closed when it is there
}

// Open returns a Recorder for the ledger and the store. It reads the sequence of
// every page from the ledger, so that pages the store holds from before are
// told apart from lost ones.
func Open(ctx context.Context, c Config) (*Recorder, error) {
	if c.FalsePositiveRate == 0 {
		c.FalsePositiveRate = 0.001
	}
	if c.Kinds == nil {
		c.Kinds = BuiltinKinds()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if !(c.FalsePositiveRate >= 1e-8 && c.FalsePositiveRate <= 0.5) {
		return nil, fmt.Errorf("open recorder: false-positive rate %g is not in 1e-8 to 0.5", c.FalsePositiveRate)
	}
	id := c.Ledger.Identity()
	r := &Recorder{
		ledger:   c.Ledger,
		store:    c.Store,
		kinds:    c.Kinds,
		identity: favfilter.Identity{Seed: id.Seed, Pages: id.Pages, Incarnation: id.Incarnation},
		keyRate:  c.FalsePositiveRate / float64(c.Kinds.lookups()),
		now:      c.Now,
		log:      c.Logger,
		marks:    newWatermarks(id.Pages),
		queue:    make(chan *write),
		settling: make(chan struct{}, maxSettling),
		rebuilds: newRebuilds(),
		closed:   make(chan struct{}),
		tail:     make(map[uint32]chan struct{}),
	}
	var err error
	if r.windowShape, err = favfilter.ShapeFor(windowCapacity, r.keyRate); err != nil {
		return nil, fmt.Errorf("open recorder: %w", err)
	}
	r.windowShape.Region = 0 // nothing is ever removed
	err = c.Ledger.Sequences(ctx, func(page uint32, sequence uint64) error {
		if page >= id.Pages {
			return fmt.Errorf("page %d of %d", page, id.Pages)
		}
		raise(&r.marks.required[page], sequence)
		raise(&r.marks.committed[page], sequence)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open recorder: read page sequences: %w", err)
	}
	r.base, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.ended.Go(r.commitLoop)
	return r, nil
}

// Close lets writes on their way finish, refuses new ones with [ErrClosed], and
// returns when nothing of the Recorder is running.
func (r *Recorder) Close() {
	r.mu.Lock()
	select {
	case <-r.closed:
	default:
		close(r.closed)
	}
	r.mu.Unlock()
	r.ended.Wait()
	r.rebuilds.close()
	r.stop()
}

// Kinds returns the kinds that the Recorder knows.
func (r *Recorder) Kinds() *Kinds { return r.kinds }

// Ready reports whether feeds can be answered, which takes the pages or the ledger, and
// returns an [*UnavailableError] for each of the two that is down.
func (r *Recorder) Ready(ctx context.Context) (ready bool, down []error) {
	ledgerErr := make(chan error, 1) // both at once: one that hangs leaves no time for the other
	go func() { ledgerErr <- r.ledger.Ping(ctx) }()
	_, storeErr := r.store.Load(ctx, []favfilter.PageID{{Number: 0}})
	if err := <-ledgerErr; err != nil {
		down = append(down, unavailable("ledger", err))
	}
	if storeErr != nil {
		down = append(down, unavailable("pages", storeErr))
	}
	return len(down) < 2, down
}

// lookups is the most keys that a feed check tests for one candidate.
func (ks *Kinds) lookups() int {
	n := 0
	for _, k := range ks.all {
		if k.Effect == Drop {
			n += k.lookups()
		}
	}
	return max(n, 1)
}

// pageOf places a user as the ledger does.
func (r *Recorder) pageOf(hash uint64) uint32 {
	return ledger.Identity{Pages: r.identity.Pages}.Page(hash)
}
