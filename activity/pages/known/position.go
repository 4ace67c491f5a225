package known

import (
	"context"
	"errors"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Position is the page on which a reader looks for a user, and how to judge that page.
type Position struct {
	User uint64 // hash
	Page uint32
	// Left is the sequence with which a user last left the page, as far as is known. If the page
	// has another one, the user's keys may have moved to a dedicated page.
	Left uint64
	// Known reports whether the process's view of the ledger is current. If it is not, and Err is
	// nil, the ledger cannot be reached, and the page in the store is trusted.
	Known bool
	// Err is why the view is not current, although the ledger can be reached. The page in the store
	// must not be used: it may lack a write.
	Err error
}

// Recent returns the time up to which a reader that begins now has to know the ledger: a staleness
// bound ago.
func (k *Ledger) Recent() int64 { return k.life.Elapsed() - int64(k.options.Bound) }

// KeepUp makes sure that the process knows all commits before the given time that concern the pages
// of some users, and fills in where the users are.
//
// It waits for a poll if the last one is too old. If polls fail or take too long, it asks the
// ledger for the pages. Only if the ledger cannot be reached, pages in the store are trusted.
//
// The Err of a position is [ErrOverloaded] if too many requests wait for the ledger. It is an
// [*UnavailableError] if the ledger answers pings, but not the question. Other errors are
// lifecycle.ErrClosed and that of ctx.
func (k *Ledger) KeepUp(ctx context.Context, since int64, all ...*Position) {
	var err error
	now := k.pollUp(ctx, since)
	if now == Behind {
		if err = k.askPlaces(ctx, all); err == nil {
			return
		}
		if errors.Is(err, errUnreachable) {
			err = nil
		}
	}
	for _, at := range all {
		at.Page, at.Left = k.place(at.User) // after the poll, which may report a move
		at.Known, at.Err = now == Polled, err
	}
}

// place returns the page of a user, and the sequence with which a user last left that page.
//
// Another poll may report a move in between. A reader that has the old page, with the sequence of
// the move, would believe that it still has the user's keys. A poll applies places first
// ([poller.takePlaces]), so place looks again after it has read the sequence.
func (k *Ledger) place(user uint64) (page uint32, left uint64) {
	for {
		page = k.layout.PageOf(user)
		left = k.sequences.Of(page).left.Load()
		if k.layout.PageOf(user) == page {
			return page, left
		}
	}
}

// askPlaces asks the ledger where users are, in one question.
func (k *Ledger) askPlaces(ctx context.Context, all []*Position) error {
	users := make([]uint64, len(all))
	for i, at := range all {
		users[i] = at.User
	}
	places, err := ask(ctx, k, func(ctx context.Context) ([]ledger.Place, error) {
		return k.ledger.Places(ctx, users...)
	})
	if err != nil {
		return err
	}
	for i, place := range places {
		k.sequences.Of(place.Page).Learn(place.Sequence) // before others look for the user there
		if place.Page >= ledger.DedicatedPages {
			k.layout.Dedicate(users[i], place.Page)
		}
		*all[i] = Position{User: users[i], Page: place.Page, Left: place.Left, Known: true}
	}
	return nil
}
