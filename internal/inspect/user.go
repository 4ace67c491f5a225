package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
)

// UserInside describes a user's page and windows, and the user's keys there.
type UserInside struct {
	User      string
	Hash      uint64 // hash of the user's id, which determines the slot
	Slot      uint32 // number of the hash slot in the store that has all pages and windows of the user
	Page      uint32 // the user's page
	Dedicated bool   // the page is dedicated to the user

	pages.UserKeysInside

	Inside  *pages.PageInside // the user's page
	Windows []UserWindow
	// FeedBytes is the number of bytes that a feed of the user reads from the store: the bits of
	// the page and of the windows. A large page is read once, and again after each change.
	FeedBytes int
}

// UserWindow describes a user's window of one kind.
type UserWindow struct {
	Kind  string
	Parts int // parts that have keys
	Keys  int
	Bytes int // bytes that a feed reads
}

// ReadUser reads the page and the windows of a user, and compares the user's keys in the ledger
// with what the page reports. It changes nothing, and reads as much as [pages.Pages.InspectPage].
// Errors are an [*activity.InvalidError], an [*activity.UnavailableError], or that of ctx.
func ReadUser(ctx context.Context, a activity.Activities, user string) (*UserInside, error) {
	if err := activity.CheckID(user, "user"); err != nil {
		return nil, err
	}
	identity := a.Inside().Identity()
	u := &UserInside{User: user, Hash: pages.UserHash(identity.Seed, user)}
	u.Slot = ledger.Identity{Pages: identity.Pages}.Slot(u.Hash)
	inside, own, err := a.Inside().InspectUser(ctx, user)
	if err == nil {
		u.UserKeysInside = own
		u.put(inside)
		err = u.readWindows(ctx, a)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect a user: %w", err)
	}
	return u, nil
}

// put sets the page of the user.
func (u *UserInside) put(inside *pages.PageInside) {
	u.Page, u.Dedicated, u.Inside = inside.Number, inside.Dedicated, inside
	if inside.Page != nil {
		u.FeedBytes = bitsBytes(inside.Page)
	}
}

// readWindows reads the windows of the user.
func (u *UserInside) readWindows(ctx context.Context, a activity.Activities) error {
	for _, k := range a.Kinds().All() {
		if k.InLedger() {
			continue
		}
		window, err := a.Window(ctx, k, u.User)
		if err != nil {
			return err
		}
		w := UserWindow{Kind: k.Name, Keys: window.Keys(), Bytes: window.Bytes()}
		last := time.Time{}
		for _, run := range window.Runs() {
			if !run.Before.Equal(last) {
				w.Parts++
			}
			last = run.Before
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
