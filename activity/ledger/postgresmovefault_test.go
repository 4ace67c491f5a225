package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestLongPostgresMovesDisturbed kills a server and cuts connections while users get and lose
// dedicated pages, the number of pages grows, and rows are recorded. Each acknowledged row must
// be on one page, which is the page of its user.
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
	turn := make(chan struct{})
	mover := open(t, url, ledger.Options{})
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := mover.Move(detached, hash(i%users), i/users%2 == 0); err == nil {
				select {
				case r.progress <- struct{}{}:
				default:
				}
			}
			if i%(2*users) == 0 {
				select {
				case turn <- struct{}{}:
				default:
				}
			}
		}
	})
	grower := open(t, url, ledger.Options{})
	wg.Go(func() {
		for pages := uint32(2); pages <= 1<<10 && (ctx.Err() == nil || pages < 8); pages *= 2 {
			for _, step := range []func() error{
				func() error { return grower.BeginLayout(detached, 2*pages) },
				func() error { return grower.SwitchLayout(detached, 2*pages) },
				func() error { return grower.LeaveLayout(detached, pages) },
			} {
				select {
				case <-turn:
				case <-ctx.Done():
				}
				err := step()
				for err != nil {
					err = step()
				}
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
				t.Errorf("acknowledged row %v is on no page", row)
			}
		}
	}
}

// checkPlaces checks that each page only has rows of its users, and returns all rows.
func checkPlaces(t *testing.T, l *ledger.Ledger) map[ledger.Row]bool {
	t.Helper()
	stood := map[uint32]ledger.PageState{}
	progress, err := l.Changed(t.Context(), "", func(page uint32, s ledger.PageState) error {
		stood[page] = s
		return nil
	})
	if err != nil || progress.Layouts.Current < 8 || progress.Layouts != (ledger.Layouts{Current: progress.Layouts.Current}) {
		t.Fatalf("layouts %+v, %v", progress.Layouts, err)
	}
	placed := map[ledger.Row]bool{}
	for page, s := range stood {
		rows, at, err := l.Snapshot(t.Context(), page)
		if gone := errors.Is(err, ledger.ErrGone); gone && page >= ledger.DedicatedPages && s.Left == s.Sequence {
			continue
		}
		if err != nil || at != s {
			t.Errorf("page %d at %v, %v, and at %v", page, at, err, s)
		}
		for _, row := range rows {
			want, has := progress.Owners[row.Hash]
			if !has {
				want = l.Identity().PageIn(progress.Layouts.Current, row.Hash)
			}
			if page != want || placed[row] {
				t.Errorf("page %d has %v, of page %d, in another one before: %v", page, row, want, placed[row])
			}
			placed[row] = true
		}
	}
	return placed
}
