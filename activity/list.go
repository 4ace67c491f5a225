package activity

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// MaxListed is the largest number of items in one [Listing].
const MaxListed = 1000

// Listing is a part of the list of a user's activities of one kind, newest first.
type Listing struct {
	Items []Item
	Next  string // cursor of the next part; "" at the end
}

// Item is one activity of a listing.
type Item struct {
	Target string    `json:"target"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: no end
}

// List reads from the ledger up to limit of the user's activities of the named kind, newest first.
// limit is 1 to [MaxListed]. cursor is "" for the first part, and then the Next of the part before.
// Errors are an [*InvalidError] or an [*UnavailableError].
func (r *Recorder) List(ctx context.Context, user, kind, cursor string, limit int) (Listing, error) {
	k, ok := r.kinds.Named(kind)
	if !ok || !k.InLedger() {
		return Listing{}, &InvalidError{Code: CodeUnknownKind, Field: fieldKind, Message: fmt.Sprintf("there is no list of kind %q", kind)}
	}
	if err := CheckID(user, "user"); err != nil {
		return Listing{}, err
	}
	if limit < 1 || limit > MaxListed {
		return Listing{}, &InvalidError{Code: CodeOutOfRange, Field: "limit", Message: fmt.Sprintf("%d is not in 1 to %d", limit, MaxListed)}
	}
	before, err := parseCursor(cursor)
	if err != nil {
		return Listing{}, err
	}
	rows, err := ask(ctx, r, func() ([]ledger.Row, error) {
		return r.ledger.List(ctx, ledger.ListQuery{
			Hash:   r.userHash(user),
			Owner:  user,
			Kind:   k.Name,
			Limit:  limit + 1,
			Before: before,
			Now:    r.pages.Now(),
		})
	})
	if err != nil {
		return Listing{}, fmt.Errorf("list %s: %w", k.Plural, err)
	}
	listing := Listing{Items: make([]Item, 0, len(rows))}
	if len(rows) > limit {
		rows = rows[:limit]
		listing.Next = cursorAfter(rows[limit-1])
	}
	for _, row := range rows {
		listing.Items = append(listing.Items, Item{Target: row.Target, Since: row.Since, Until: row.Until})
	}
	return listing, nil
}

// cursorAfter returns the cursor of the part that follows row. It is opaque to callers.
func cursorAfter(row ledger.Row) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(row.Since.UnixMicro(), 10) + " " + row.Target))
}

func parseCursor(cursor string) (*ledger.Row, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // no position: from the start
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	since, target, found := strings.Cut(string(raw), " ")
	micros, numErr := strconv.ParseInt(since, 10, 64)
	if err != nil || !found || numErr != nil || CheckID(target, "cursor") != nil {
		return nil, &InvalidError{Code: CodeInvalidCursor, Field: "cursor", Message: "the cursor is not one that a list returned"}
	}
	return &ledger.Row{Since: time.UnixMicro(micros).UTC(), Target: target}, nil
}
