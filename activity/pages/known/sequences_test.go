package known

import (
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// learn raises the required sequence to what the ledger has, whether or not the write is in flight.
// It reports news only of other processes' writes.
func TestLearn(t *testing.T) {
	for _, c := range []struct {
		name                    string
		known, required, at     uint64
		wantKnown, wantRequired uint64
		news                    bool
	}{
		{"of others", 5, 5, 6, 6, 6, true},
		{"known", 6, 6, 6, 6, 6, false},
		{"own, in flight", 7, 6, 7, 7, 7, false},
		{"older than the own write in flight", 8, 6, 7, 8, 7, false},
		{"older than required", 8, 8, 7, 8, 8, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSequences(1).Of(0)
			s.Known.Raise(c.known)
			s.Required.Raise(c.required)
			news := s.Learn(c.at)
			known, required := s.Known.Load(), s.Required.Load()
			if known != c.wantKnown || required != c.wantRequired || news != c.news {
				t.Errorf("known %d, required %d, news %v: want %d, %d, %v",
					known, required, news, c.wantKnown, c.wantRequired, c.news)
			}
		})
	}
}

// What a transaction finds, and did not change, is required if it is news: another process made it.
func TestReceive(t *testing.T) {
	for _, c := range []struct {
		name                string
		known, required, at uint64
		changed             bool
		want                uint64
	}{
		{"a change", 5, 5, 6, true, 5},
		{"nothing, after a change of others", 5, 5, 6, false, 6},
		{"nothing, after an own change in flight", 6, 5, 6, false, 5},
		{"nothing, as known", 5, 5, 5, false, 5},
	} {
		s := newSequences(1).Of(0)
		s.Known.Raise(c.known)
		s.Required.Raise(c.required)
		s.Receive(c.at, c.changed)
		if known, required := s.Known.Load(), s.Required.Load(); known != c.at || required != c.want {
			t.Errorf("%s: known %d, required %d: want %d, %d", c.name, known, required, c.at, c.want)
		}
	}
}

// Sequences never decrease, and concurrent updates are not lost.
func TestSequencesRise(t *testing.T) {
	all := newSequences(2)
	for _, page := range []uint32{1, 4, 7, 1<<25 - 1, ledger.DedicatedPages, ledger.DedicatedPages + 7} {
		var group sync.WaitGroup
		for n := range uint64(8) {
			group.Go(func() {
				s := all.Of(page)
				for i := range uint64(1000) {
					s.Stored.Raise(i*8 + n)
					if stored := s.Stored.Load(); stored < i*8+n {
						t.Errorf("page %d stored at %d, then at %d", page, i*8+n, stored)
					}
				}
				s.Stored.Raise(n)
				s.left.Raise(n)
			})
		}
		group.Wait()
		if s := all.Of(page); s.Stored.Load() != 7999 || s.left.Load() != 7 || s.Known.Load() != 0 {
			t.Errorf("page %d stored at %d, left at %d, known %d", page, s.Stored.Load(), s.left.Load(), s.Known.Load())
		}
	}
	if s := all.Of(0); s.Stored.Load() != 0 {
		t.Errorf("another page stored at %d", s.Stored.Load())
	}
}

// What failed is not required, nor what failed after it. What came before it is.
func TestFail(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *Sequence)
		want uint64
	}{
		{"one", func(s *Sequence) { s.Fail(7) }, 6},
		{"two", func(s *Sequence) { s.Fail(7); s.Fail(8) }, 6},
		{"two, the later one first", func(s *Sequence) { s.Fail(8); s.Fail(7) }, 7},
		{"with others between", func(s *Sequence) { s.Fail(7); s.Fail(10) }, 6},
		{"the first is in the page since", func(s *Sequence) { s.Fail(7); s.Stored.Raise(7); s.Fail(9) }, 8},
		{"the first is required since", func(s *Sequence) { s.Fail(7); s.Learn(7); s.Fail(9) }, 8},
		{"required already", func(s *Sequence) { s.Learn(7); s.Fail(7) }, 7},
	} {
		s := newSequences(1).Of(0)
		s.Required.Raise(3)
		c.do(s)
		if got := s.Required.Load(); got != c.want {
			t.Errorf("%s: required %d, want %d", c.name, got, c.want)
		}
	}
}
