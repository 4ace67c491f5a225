package activity

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// UserInside describes a user's page and windows, and the user's keys there.
type UserInside struct {
	User      string
	Hash      uint64 // places the user
	Slot      uint32 // number of the hash slot in the store that has all pages and windows of the user
	Page      uint32 // the user's page
	Dedicated bool   // the page is dedicated to the user

	// Keys is the ledger's number of the user's keys by kind; nil without a ledger. Other sides of
	// two-way kinds count under their own names.
	Keys  map[string]int
	Total int            // of Keys
	Holds int            // of these, the keys that the page reports: all, unless it is at fault
	Lacks map[string]int // the other keys, by kind

	Inside  *PageInside // the user's page
	Windows []UserWindow
	// FeedBytes is what a feed of the user reads from the store: the bits of the page and of the
	// windows. If the page is Probed, a feed reads only the bits that it looks for, and FeedBytes
	// is that of the windows alone.
	FeedBytes int
	Probed    bool
}

// UserWindow describes a user's window of one kind.
type UserWindow struct {
	Kind  string
	Pages int // existing parts
	Keys  int // estimate: a post seen twice may count twice
	Bytes int // bytes that a feed reads
}

// InspectUser returns the page and the windows of a user, and compares the user's keys in the
// ledger with what the page reports. It changes nothing, and reads as much as
// [Recorder.InspectPage]. Errors are an [*InvalidError], an [*UnavailableError], or that of ctx.
func (r *Recorder) InspectUser(ctx context.Context, user string) (*UserInside, error) {
	if err := CheckID(user, "user"); err != nil {
		return nil, err
	}
	u, err := r.inspectUser(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("inspect a user: %w", err)
	}
	return u, nil
}

func (r *Recorder) inspectUser(ctx context.Context, user string) (*UserInside, error) {
	u := r.newUserInside(user)
	inside, rows, err := r.readUserPage(ctx, u.Hash)
	if err != nil {
		return nil, err
	}
	u.Probed = r.isLarge(inside.Number)
	u.put(inside)
	if err := r.compare(ctx, inside, rows); err != nil {
		return nil, err
	}
	if err := r.compareUser(ctx, u, rows); err != nil {
		return nil, err
	}
	return u, r.inspectWindows(ctx, u)
}

func (r *reader) newUserInside(user string) *UserInside {
	u := &UserInside{User: user, Hash: userHash(r.identity.Seed, user), Lacks: make(map[string]int)}
	u.Slot = r.slotOf(u.Hash)
	return u
}

// put sets the page of the user.
func (u *UserInside) put(inside *PageInside) {
	u.Page, u.Dedicated, u.Inside = inside.Number, inside.Dedicated, inside
	if inside.Page != nil && !u.Probed {
		u.FeedBytes = bitsBytes(inside.Page)
	}
}

// readUserPage reads the page of a user. If the user moves to another page meanwhile, it follows.
func (r *Recorder) readUserPage(ctx context.Context, hash uint64) (*PageInside, []ledger.Row, error) {
	since := r.recent()
	for range maxLooks {
		at := r.keepUp(ctx, hash, since)
		inside, rows, err := r.readSettled(ctx, at.page)
		if err != nil && !errors.Is(err, ErrNoPage) {
			return nil, nil, err
		}
		place, failed := r.ledger.Place(ctx, hash)
		if failed != nil {
			return nil, nil, unavailable("ledger", failed)
		}
		if err == nil && place.Page == at.page {
			return inside, rows, nil
		}
		since = r.elapsed()
	}
	return nil, nil, unavailable("ledger", errMoved)
}

// compareUser counts the user's rows among those of the page.
func (r *Recorder) compareUser(ctx context.Context, u *UserInside, rows []ledger.Row) error {
	u.Keys = make(map[string]int)
	for i := range rows {
		if rows[i].Owner != u.User {
			continue
		}
		keys, err := r.hashes(ctx, rows[i:i+1])
		if err != nil {
			return unavailable("ledger", err)
		}
		u.Keys[rows[i].Kind] += len(keys)
		u.Total += len(keys)
		if n := lacking(u.Inside.Page, keys); n > 0 {
			u.Lacks[rows[i].Kind] += n
		} else {
			u.Holds += len(keys)
		}
	}
	return nil
}

// inspectWindows reads the windows of a user.
func (r *reader) inspectWindows(ctx context.Context, u *UserInside) error {
	for _, k := range r.kinds.All() {
		if k.InLedger() {
			continue
		}
		parts, err := r.partsSeen(ctx, k, u.Hash)
		if err != nil {
			return err
		}
		w := UserWindow{Kind: k.Name}
		for _, part := range parts {
			if part.Page != nil {
				w.Pages++
				w.Keys += int(part.Page.Header().Count)
				w.Bytes += bitsBytes(part.Page)
			}
		}
		u.FeedBytes += w.Bytes
		u.Windows = append(u.Windows, w)
	}
	return nil
}

// bitsBytes returns the length of the string that a feed reads of a page.
func bitsBytes(page *favfilter.Page) int {
	raw, _ := page.Encode()
	return len(raw)
}
