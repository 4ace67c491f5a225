package feed_test

import (
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/ratetest"
)

// lists compares what everybody has, in pages of any size.
func (l *life) lists() {
	l.Helper()
	for user := range l.model.accounts {
		for _, k := range l.Kinds().All() {
			if !k.InLedger() {
				continue
			}
			items := []activity.Item{}
			for cursor, limit := "", 1+l.rng.IntN(50); ; {
				part, err := l.List(l.Context(), user, k.Name, cursor, limit)
				must(l, err)
				items = append(items, part.Items...)
				if cursor = part.Next; cursor == "" {
					break
				}
			}
			if want := l.model.list(user, k.Name, l.now()); !slices.Equal(items, want) {
				l.Fatalf("%s of %s: %v, want %v", k.Plural, user, items, want)
			}
		}
	}
}

// forgetsWhatIsOver checks that activities that have ended leave the ledger by themselves, and then
// the pages. Feeds that are not exact report them no more often than activities that never were
// recorded.
func (l *life) forgetsWhatIsOver() {
	l.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		rows, err := l.ledger.Ended(l.Context(), l.now(), 1)
		must(l, err)
		if len(rows) == 0 {
			break
		}
		if time.Now().After(deadline) {
			l.Fatal("what has ended is not removed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	over := l.model.forgetOver(l.now())
	// To undo it again changes nothing, and waits for who is on the way to the pages.
	for batch := range slices.Chunk(over, 1000) {
		outcomes, err := l.Record(l.Context(), batch)
		must(l, err)
		for i, o := range outcomes {
			if o != activity.Unchanged {
				l.Fatalf("%+v: %v", batch[i], o)
			}
		}
	}
	found := 0
	for _, a := range over {
		k, _ := l.Kinds().Named(a.Kind)
		v, err := l.View(l.Context(), a.User, []activity.Kind{k})
		must(l, err)
		if l.model.state(k, a.User, a.Target, l.now()) == absent && v.Check(0, a.Target) != activity.None {
			found++
		}
	}
	keys := float64(2 * len(over)) // at most two are looked up for each
	l.Logf("%d of %d that were over are found, once forgotten", found, len(over))
	if most := ratetest.Most(keys * l.keyRate()); found > most {
		l.Errorf("%d of %d activities that were over are still found, %d may be", found, len(over), most)
	}
}

// keyRate is the share of absent keys that may be found in a page, and windowRate in a window. A
// candidate is looked up under five keys in pages and in two windows. Pages and windows each have
// half of the rate.
func (l *life) keyRate() float64    { return l.rate / 2 / 5 }
func (l *life) windowRate() float64 { return l.rate / 2 / 2 }

// windowsEnd checks that everything shown or recorded stays in its window for the window's length.
// After one part more, it is gone.
func (l *life) windowsEnd() {
	l.Helper()
	var there, gone, found int
	for user, account := range l.model.accounts {
		v, err := l.View(l.Context(), user, l.Kinds().All())
		must(l, err)
		for i, k := range l.Kinds().All() {
			for id := range account.windows[k.Name] {
				has := v.Check(i, id) != activity.None
				switch s := l.model.state(k, user, id, l.now()); {
				case s == live && !has:
					l.Fatalf("%s %s %s, and that is missed", user, k.Name, id)
				case s == live:
					there++
				case s == absent:
					gone++
					if has {
						found++
					}
				}
			}
		}
	}
	l.Logf("windows: %d in time, %d of %d found that are past it", there, found, gone)
	if most := ratetest.Most(float64(gone) * l.windowRate()); found > most {
		l.Errorf("%d of %d are found in windows that are past, %d may be", found, gone, most)
	}
}

// report checks the counts; those of a thorough run show that everything was tried.
func (l *life) report(thorough bool) {
	l.Helper()
	s := l.Stats()
	l.Logf("%d lookups of exact feeds, %d asked of the ledger, %d false; %d of %d clean posts dropped, %d late; %d spared; %d ended; rebuilds %v",
		l.exact, s.Confirmed, s.FalsePositives, l.wrong, l.clean, l.late, l.spared, s.Ended, s.Rebuilds)
	if most := ratetest.Most(float64(l.clean) * l.rate); l.wrong > most {
		l.Errorf("%d of %d clean posts dropped, %d may be at a rate of %g", l.wrong, l.clean, most, l.rate)
	}
	if thorough && l.rate == 0.5 && (s.FalsePositives == 0 || l.spared == 0) {
		l.Error("there was too little to try this")
	}
}
