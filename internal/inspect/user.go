package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// User is the state of a user's page and windows, and of the user's keys there.
type User struct {
	User      string         `json:"user"`
	Hash      string         `json:"hash"`
	Slot      uint32         `json:"slot"` // hash slot of the user's pages and windows in the store
	Page      uint32         `json:"page"`
	Dedicated bool           `json:"dedicated"`
	Counts    map[string]int `json:"counts"` // nil without a ledger
	Keys      int            `json:"keys"`
	PageHolds int            `json:"page_holds"`
	Lacks     map[string]int `json:"lacks"`
	PageState string         `json:"page_state"`
	PageKeys  uint32         `json:"page_keys"`
	PageUsers int            `json:"page_users"` // with keys in the page; 0 without a ledger
	// FeedBytes is the number of bytes that a feed of the user reads from the store: the bits of
	// the page and of the windows. A large page is read once, and again after each change.
	FeedBytes int      `json:"feed_bytes"`
	Windows   []Window `json:"windows"`
}

// Window is the size of a user's window of one kind.
type Window struct {
	Kind  string `json:"kind"`
	Parts int    `json:"parts"` // parts that have keys
	Keys  int    `json:"keys"`
	Bytes int    `json:"bytes"` // bytes that a feed reads
}

// ReadUser reads the page and the windows of a user, and compares the user's keys in the ledger
// with what the page reports. It changes nothing, and reads as much as
// [pages.Inspector.InspectPage].
// Errors are an [*activity.InvalidError], an [*activity.UnavailableError], or that of ctx.
func ReadUser(ctx context.Context, a activity.Activities, user string) (*User, error) {
	if err := activity.CheckID(user, "user"); err != nil {
		return nil, err
	}
	in, err := a.Inside().InspectUser(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("inspect a user: %w", err)
	}
	identity := a.Inside().Identity()
	hash := pages.UserHash(identity.Seed, user)
	u := &User{
		User:      user,
		Hash:      fmt.Sprintf("%016x", hash),
		Slot:      ledger.Identity{Pages: identity.Pages}.Slot(hash),
		Page:      in.Number,
		Dedicated: in.Dedicated,
		Counts:    in.User.Keys,
		Lacks:     in.User.Lacks,
		PageState: in.State,
		PageKeys:  in.Status.Header.Count,
	}
	for kind, keys := range in.User.Keys {
		u.Keys += keys
		u.PageHolds += keys - in.User.Lacks[kind]
	}
	if in.Ledger != nil {
		u.PageUsers = in.Ledger.Users
	}
	if in.Page != nil {
		bits, _ := in.Page.Encode()
		u.FeedBytes = len(bits)
	}
	if err := u.readWindows(ctx, a); err != nil {
		return nil, fmt.Errorf("inspect a user: %w", err)
	}
	return u, nil
}

// readWindows reads the windows of the user.
func (u *User) readWindows(ctx context.Context, a activity.Activities) error {
	for _, k := range a.Kinds().All() {
		if k.InLedger() {
			continue
		}
		window, err := a.Window(ctx, k, u.User)
		if err != nil {
			return err
		}
		w := Window{Kind: k.Name, Keys: window.Keys(), Bytes: window.Bytes()}
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
