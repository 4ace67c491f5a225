package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestLongPostgresMovesDisturbed cuts off and kills a server while users move, homes are reshaped, and rows are
// recorded: every row that was acknowledged is in one page, which is its user's.
func TestLongPostgresMovesDisturbed(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	url := s.Schema()
	const writers, users = 3, 4
	hash := func(user int) uint64 { return uint64(user) << 61 }
	r := &recording{progress: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	detached := context.WithoutCancel(ctx)
	var acknowledged [writers]map[ledger.Row]bool
	var wg sync.WaitGroup
	for w := range writers {
		l := open(t, url, ledger.Options{Pages: 2})
		acknowledged[w] = map[ledger.Row]bool{}
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				row := ledger.Row{
					Hash: hash(i % users), Owner: fmt.Sprint("u", i%users), Kind: "block",
					Target: fmt.Sprint("t", w, "-", i), Since: time.UnixMicro(int64(i)).UTC(),
				}
				if _, err := l.Record(detached, time.Now(), []ledger.Change{{Rows: []ledger.Row{row}}}); err == nil {
					acknowledged[w][row] = true
				}
			}
		})
	}
	mover := open(t, url, ledger.Options{})
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			move := mover.MoveOut
			if i/users%2 == 1 {
				move = mover.MoveIn
			}
			if _, err := move(detached, hash(i%users)); err == nil {
				select {
				case r.progress <- struct{}{}:
				default:
				}
			}
		}
	})
	shaper := open(t, url, ledger.Options{})
	reshapes := 0
	wg.Go(func() {
		for i := 0; ctx.Err() == nil || reshapes < 4; i++ {
			_ = ageReshapes(url) //nolint:contextcheck // as everywhere
			if reshape(detached, shaper, []uint32{8, 1, 4, 2}[i%4]) == nil {
				reshapes++
			}
		}
	})
	for range 2 {
		r.await(t, 4*users)
		execute(t, raw(t, s.URL()), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'feedfilter'`)
		r.await(t, 4*users)
		s.Kill()
		s.Restart()
	}
	r.await(t, 4*users)
	cancel()
	wg.Wait()
	l := open(t, url, ledger.Options{})
	placed := checkPlaces(t, l)
	for _, rows := range acknowledged {
		for row := range rows {
			if !placed[row] {
				t.Errorf("%v was acknowledged and is nowhere", row)
			}
		}
	}
}

// checkPlaces sees to it that each page has rows of its users alone, and returns all rows.
func checkPlaces(t *testing.T, l *ledger.Ledger) map[ledger.Row]bool {
	t.Helper()
	homes, err := l.Homes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pageOf := func(hash uint64) uint32 {
		page := l.Identity().Page(hash)
		for _, h := range homes {
			for _, r := range h.Ranges {
				if h.Number == l.Identity().Page(hash) && r.Least <= hash {
					page = r.Page
				}
			}
		}
		for _, h := range homes {
			for _, o := range h.Owners {
				if o.Hash == hash {
					page = o.Page
				}
			}
		}
		return page
	}
	placed := map[ledger.Row]bool{}
	_, err = l.Changed(t.Context(), "", func(page uint32, s ledger.Standing) error {
		rows, at, err := l.Snapshot(t.Context(), page)
		if err != nil || at != s {
			t.Errorf("page %d at %v, %v, and at %v", page, at, err, s)
		}
		for _, row := range rows {
			want := pageOf(row.Hash)
			if page != want || placed[row] {
				t.Errorf("page %d has %v, of page %d, in another one before: %v", page, row, want, placed[row])
			}
			placed[row] = true
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return placed
}
