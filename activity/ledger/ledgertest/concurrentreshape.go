package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// concurrentReshapes has homes cut and joined while others record, move users out and in, and take snapshots. What was acknowledged is there
// in the end, each row in the one page where its user is; every page was raised one by one.
func (s suite) concurrentReshapes(t *testing.T) {
	const writers, calls, users = 4, 60, 32
	url := s.fresh(t)
	handles := []*ledger.Ledger{open(t, url, ledger.Options{Pages: 4})}
	if handles[0].Shared() {
		handles = append(handles, open(t, url, ledger.Options{}), open(t, url, ledger.Options{}))
	}
	var receipts receipts
	var rows [writers]map[key]bool // that each has recorded
	var wg, others sync.WaitGroup
	ended := make(chan struct{})
	for w := range writers {
		random := rand.New(rand.NewPCG(17, uint64(w)))
		l := handles[w%len(handles)]
		rows[w] = map[key]bool{}
		wg.Go(func() {
			for range calls {
				changes := mine(w, users, random)
				receipt, err := recordEither(l, changes, random.IntN(2) == 0)
				if err != nil {
					t.Error(err)
					return
				}
				receipts.add(receipt)
				for _, c := range changes {
					for _, r := range c.Rows {
						rows[w][keyOf(r)] = !c.Remove
					}
				}
			}
		})
	}
	var reshaped, changed atomic.Int64
	for g := range 3 {
		random := rand.New(rand.NewPCG(19, uint64(g)))
		l := handles[(g+1)%len(handles)]
		others.Go(func() {
			for n := 0; n < 8 || !isClosed(ended); n++ {
				receipt, err := s.reshapeSome(url, l, random)
				switch soon := new(ledger.TooSoonError); {
				case err == nil:
					reshaped.Add(1)
					receipts.add(receipt)
				case errors.Is(err, ledger.ErrChanged):
					changed.Add(1)
				case !errors.As(err, &soon):
					t.Error(err)
					return
				}
			}
		})
		others.Go(func() {
			for n := 0; n < 8 || !isClosed(ended); n++ {
				move := []func(context.Context, uint64) (ledger.Receipt, error){l.MoveOut, l.MoveIn}[n%2]
				receipt, err := move(t.Context(), userHash(7*g, users))
				if err != nil {
					t.Error(err)
					return
				}
				receipts.add(receipt)
			}
		})
	}
	wg.Wait()
	close(ended)
	others.Wait()
	if reshaped.Load() == 0 {
		t.Error("nothing was ever reshaped")
	}
	t.Logf("%d reshapes, %d plans that were too late", reshaped.Load(), changed.Load())
	all := map[key]bool{}
	for _, some := range rows {
		maps.Copy(all, some)
	}
	maps.DeleteFunc(all, func(_ key, is bool) bool { return !is })
	checkPlaces(t, handles[0], all)
	receipts.check(t, handles[0])
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// userHash spreads users over all hashes.
func userHash(user, users int) uint64 { return uint64(user%users) * (^uint64(0) / uint64(users-1)) }

// mine are changes of rows that nobody else changes.
func mine(writer, users int, random *rand.Rand) []ledger.Change {
	changes := make([]ledger.Change, 1+random.IntN(4))
	for i := range changes {
		changes[i].Remove = random.IntN(3) == 0
		for range 1 + random.IntN(3) {
			user := random.IntN(users)
			changes[i].Rows = append(changes[i].Rows, ledger.Row{
				Hash: userHash(user, users), Owner: fmt.Sprint("u", user), Kind: "block", Target: fmt.Sprint(writer, "-", random.IntN(3)), Since: at(0),
			})
		}
	}
	return changes
}

func recordEither(l *ledger.Ledger, changes []ledger.Change, prepared bool) (ledger.Receipt, error) {
	if !prepared {
		return l.Record(context.Background(), at(0), changes)
	}
	p, err := l.Prepare(changes)
	if err != nil {
		return ledger.Receipt{}, err
	}
	return l.RecordPrepared(context.Background(), at(0), p)
}

// reshapeSome asks for some number of pages, and reshapes some home to what is asked for then.
func (s suite) reshapeSome(url string, l *ledger.Ledger, random *rand.Rand) (ledger.Receipt, error) {
	if err := l.SetCut(context.Background(), 1<<random.IntN(6)); err != nil {
		return ledger.Receipt{}, err
	}
	if s.age != nil {
		if err := s.age(url); err != nil {
			return ledger.Receipt{}, err
		}
	}
	plan, err := l.PlanReshape(context.Background(), uint32(random.IntN(4)))
	if err != nil {
		return ledger.Receipt{}, err
	}
	if len(plan.Sources) > 0 && random.IntN(2) == 0 {
		page := plan.Sources[random.IntN(len(plan.Sources))]
		_, standing, err := l.Snapshot(context.Background(), page)
		if err != nil {
			return ledger.Receipt{}, err
		}
		plan.Expect = map[uint32]uint64{page: standing.Sequence}
	}
	return l.Reshape(context.Background(), plan)
}

// checkPlaces has each row be where its user is, and nowhere else.
func checkPlaces(t *testing.T, l *ledger.Ledger, rows map[key]bool) {
	t.Helper()
	homes, err := l.Homes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := staleView{homes: map[uint32]ledger.Home{}}
	pages := map[uint32]bool{}
	for _, h := range homes {
		v.homes[h.Number] = h
		for _, r := range h.Ranges {
			pages[r.Page] = true
		}
		for _, o := range h.Owners {
			pages[o.Page] = true
		}
	}
	for home := range l.Identity().Pages {
		pages[home] = true
	}
	found := map[key]bool{}
	for page := range pages {
		held, _ := snapshot(t, l, page)
		for _, r := range held {
			if want, _ := v.page(l.Identity().Page(r.Hash), r.Hash); want != page {
				t.Errorf("page %d holds %v, whose user is on page %d", page, r, want)
			}
			if found[keyOf(r)] {
				t.Errorf("%v is there twice", r)
			}
			found[keyOf(r)] = true
		}
	}
	if !maps.Equal(found, rows) {
		t.Errorf("there are %v, want %v", found, rows)
	}
}

// receipts are those of several goroutines.
type receipts struct {
	mu  sync.Mutex
	all []ledger.Receipt
}

func (r *receipts) add(receipt ledger.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, receipt)
}

// check has every page be raised from one to the next, up to where it stands; by a move, which is told of more than once if it was made already, at least once.
func (r *receipts) check(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	raised, told := map[uint32][]uint64{}, map[uint32]map[uint64]bool{}
	for _, receipt := range r.all {
		for _, p := range receipt.Pages {
			if told[p.Page] == nil {
				told[p.Page] = map[uint64]bool{}
			}
			told[p.Page][p.Sequence] = true
			if len(p.Added)+len(p.Removed) > 0 {
				raised[p.Page] = append(raised[p.Page], p.Sequence)
			}
		}
		for hash, placed := range receipt.Placed {
			for _, page := range append(placed.Left, placed.Page, l.Identity().Page(hash)) {
				if !slices.ContainsFunc(receipt.Pages, func(p ledger.PageChange) bool { return p.Page == page }) {
					t.Errorf("page %d of user %d is not in %+v", page, hash, receipt.Pages)
				}
			}
		}
	}
	stands, _ := standings(t, l, "")
	for page, s := range stands {
		for n := range s.Sequence {
			if !told[page][n+1] {
				t.Errorf("page %d stands at %d; nobody was told of %d", page, s.Sequence, n+1)
			}
		}
		delete(told[page], 0)
		if n := len(told[page]); uint64(n) != s.Sequence {
			t.Errorf("page %d stands at %d; its receipts are of %d sequences", page, s.Sequence, n)
		}
		slices.Sort(raised[page])
		if n := len(raised[page]); n != len(slices.Compact(raised[page])) {
			t.Errorf("page %d was raised to the same sequence twice: %v", page, raised[page])
		}
	}
}
