package ledgertest

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// changes returns the pages that Changed reports, with their sequences.
func changes(t tester, l *ledger.Ledger, since ledger.Cursor) (map[uint32]uint64, ledger.Progress) {
	t.Helper()
	sequences := map[uint32]uint64{}
	pages, progress := standings(t, l, since)
	for page, s := range pages {
		sequences[page] = s.Sequence
	}
	return sequences, progress
}

// standings returns the pages that Changed reports, with their states.
func standings(t tester, l *ledger.Ledger, since ledger.Cursor) (map[uint32]ledger.PageState, ledger.Progress) {
	t.Helper()
	pages := map[uint32]ledger.PageState{}
	progress, err := l.Changed(context.Background(), since, func(page uint32, s ledger.PageState) error {
		pages[page] = s
		return nil
	})
	if err != nil {
		t.Fatalf("Changed: %v", err)
	}
	return pages, progress
}

// changed reports more pages than one read returns, while other calls read and write the ledger.
func (s suite) changed(t *testing.T) {
	const pages = 10_000
	l := s.make(t, 16384)
	want := map[uint32]uint64{}
	var adds []ledger.Change
	for page := range uint32(pages) {
		row := block(0, "a")
		row.Hash = uint64(page) << 50
		adds = append(adds, add(row))
		want[page] = 1
	}
	record(t, l, adds...)
	record(t, l, remove(adds[7].Rows[0]))
	want[7] = 2

	got := map[uint32]uint64{}
	_, err := l.Changed(t.Context(), "", func(page uint32, s ledger.PageState) error {
		_, again := got[page]
		got[page] = s.Sequence
		if page%3000 == 1 && !again {
			record(t, l, remove(adds[page].Rows[0]))
			checkPage(t, l, page, nil, s.Sequence+1)
			want[page] = s.Sequence + 1
		}
		return nil
	})
	for page, sequence := range got {
		if sequence != want[page] && (page%3000 != 1 || sequence != want[page]-1) {
			t.Errorf("page %d at %d, want %d", page, sequence, want[page])
		}
	}
	if err != nil || len(got) != pages {
		t.Errorf("%d pages, %v, want %d", len(got), err, pages)
	}
	stop := errors.New("enough")
	calls := 0
	_, err = l.Changed(t.Context(), "", func(uint32, ledger.PageState) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("error %v after %d calls, want that of each after 1", err, calls)
	}
}

// changedSince continues from one call to the next.
func (s suite) changedSince(t *testing.T) {
	l := s.make(t, 16)
	poll := func(since ledger.Cursor, want map[uint32]uint64) ledger.Cursor {
		t.Helper()
		got, progress := changes(t, l, since)
		if !maps.Equal(got, want) {
			t.Errorf("changed since %q: %v, want %v", since, got, want)
		}
		return progress.Next
	}
	next := poll("", map[uint32]uint64{})
	record(t, l, remove(block(9, "never there"))) // changes nothing
	next = poll(next, map[uint32]uint64{})
	record(t, l, add(block(3, "a")), remove(block(9, "never there")), add(block(4, "a")))
	first := poll(next, map[uint32]uint64{3: 1, 4: 1})
	poll(first, map[uint32]uint64{})
	record(t, l, add(until(block(3, "a"), at(9)))) // no change of the page
	poll(first, map[uint32]uint64{})
	record(t, l, add(block(4, "b")))
	record(t, l, add(block(4, "c")))
	second := poll(first, map[uint32]uint64{4: 3})
	poll(second, map[uint32]uint64{})
	poll(next, map[uint32]uint64{3: 1, 4: 3}) // from an earlier point
	poll("", map[uint32]uint64{3: 1, 4: 3})
}

// changedSetBack continues from points that the ledger has not reached, as after a restore.
func (s suite) changedSetBack(t *testing.T) {
	l := s.make(t, 16)
	record(t, l, add(block(3, "a")))
	for _, since := range []ledger.Cursor{"1099511627776", "9223372036854775807", "1/", "1/3", "1/a:b:c", "x"} {
		if got, _ := changes(t, l, since); !maps.Equal(got, map[uint32]uint64{3: 1}) {
			t.Errorf("changed since %q: %v, want all pages", since, got)
		}
	}
}

// changedAhead compares the database's clock with this process's, which are the same here, during a
// slow call.
func (s suite) changedAhead(t *testing.T) {
	l := s.make(t, 16)
	record(t, l, add(block(3, "a")), add(block(4, "a")))
	var answer time.Duration
	began := time.Now()
	progress, err := l.Changed(t.Context(), "", func(page uint32, _ ledger.PageState) error {
		if answer == 0 {
			answer = time.Since(began)
		}
		for time.Since(began) < 10*answer {
			if _, err := l.Sequence(t.Context(), page); err != nil {
				return err
			}
		}
		return nil
	})
	ahead := progress.Clock.Sub(progress.At)
	if off := ahead.Abs(); err != nil || off > answer+time.Millisecond || off > 0 && !l.Shared() {
		t.Errorf("the clock is %v ahead, want at most the %v of the first answer, error %v", ahead, answer, err)
	}
	if at := progress.At.Sub(began); at < 0 || at > answer {
		t.Errorf("the clock was read %v after the call began, want at most the %v of the first answer", at, answer)
	}
}

// truth is the highest committed sequence of each page, as writers know it.
type truth struct {
	mu        sync.Mutex
	sequences map[uint32]uint64
}

func (committed *truth) note(receipt ledger.Receipt) {
	committed.mu.Lock()
	defer committed.mu.Unlock()
	for _, p := range receipt.Pages {
		if p.Sequence > 0 {
			committed.sequences[p.Page] = max(committed.sequences[p.Page], p.Sequence)
		}
	}
}

func (committed *truth) now() map[uint32]uint64 {
	committed.mu.Lock()
	defer committed.mu.Unlock()
	return maps.Clone(committed.sequences)
}

// write records changes and moves users from several goroutines. It closes written when all of them
// have ended.
func (committed *truth) write(t *testing.T, handles []*ledger.Ledger, calls int) (written chan struct{}) {
	t.Helper()
	const writers = 6
	var wg sync.WaitGroup
	for g := range writers {
		random := rand.New(rand.NewPCG(7, uint64(g)))
		l := handles[g%len(handles)]
		wg.Go(func() {
			for range calls {
				receipt, err := l.Record(t.Context(), at(0), randomChanges(random.IntN))
				if err != nil {
					t.Error(err)
					return
				}
				committed.note(receipt)
			}
		})
	}
	for user := range 2 {
		l, hash := handles[user%len(handles)], block(14+user, "").Hash
		wg.Go(func() {
			for range calls / 4 {
				for _, dedicate := range []bool{true, false} {
					receipt, err := l.Move(t.Context(), hash, dedicate)
					if err != nil {
						t.Error(err)
						return
					}
					committed.note(receipt)
				}
			}
		})
	}
	written = make(chan struct{})
	go func() { wg.Wait(); close(written) }()
	return written
}

// concurrentChanged only polls with Changed, while others record. Each poll must report
// everything that was committed before it began.
func (s suite) concurrentChanged(t *testing.T) { s.changedAmong(t, 40) }

func (s suite) concurrentChangedLong(t *testing.T) { s.changedAmong(t, 160) }

func (s suite) changedAmong(t *testing.T, calls int) {
	t.Helper()
	handles := s.handles(t, 16)
	committed := truth{sequences: map[uint32]uint64{}}
	written := committed.write(t, handles, calls)
	defer func() { <-written }()

	l := handles[len(handles)-1]
	known := map[uint32]uint64{}
	next := ledger.Cursor("")
	for more := true; more; {
		select {
		case <-written:
			more = false
		default:
		}
		before := committed.now()
		got, progress := changes(t, l, next)
		for page, sequence := range got {
			if sequence < known[page] {
				t.Errorf("page %d at %d after %d", page, sequence, known[page])
			}
			known[page] = sequence
		}
		next = progress.Next
		for page, sequence := range before {
			if known[page] < sequence {
				t.Fatalf("page %d known at %d, want at least %d, which was committed before the poll", page, known[page], sequence)
			}
		}
	}
	if want := committed.now(); !maps.Equal(known, want) {
		t.Errorf("known %v, want %v", known, want)
	}
}
