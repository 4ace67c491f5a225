package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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
	User   string    `json:"user,omitzero"`   // who has it; "": the user who was asked about
	Target string    `json:"target,omitzero"` // "": the user who was asked about
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: no end
}

// List reads from the ledger up to limit of the user's activities of the named kind, newest first.
// limit is 1 to [MaxListed]. cursor is "" for the first part, and then the Next of the part before.
// Errors are an [*InvalidError] or an [*UnavailableError].
func (r *Recorder) List(
	ctx context.Context, user, kind, cursor string, limit int,
) (Listing, error) {
	return r.list(ctx, user, kind, cursor, limit, false)
}

// Phrases reads from the ledger up to limit phrases that the user has of a kind, newest first.
// Those that have ended, but are not removed yet, are among them: their keys are still in the page.
// Errors are an [*UnavailableError], or that of ctx.
func (r *Recorder) Phrases(
	ctx context.Context, user string, k *Kind, limit int,
) (phrases []string, err error) {
	q := ledger.ListQuery{Hash: r.userHash(user), Owner: user, Kind: k.Name, Limit: limit}
	rows, _, err := r.listOwned(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", k.Plural, err)
	}
	for i := range rows {
		phrases = append(phrases, rows[i].Target)
	}
	return phrases, nil
}

// Incoming is [Recorder.List] for activities of others with the user. The kind must target users.
//
// For a one-way kind without Fanout, the ledger has no index by time: the list is in the order of a
// hash. Incoming then looks at [ledger.MaxLooked] activities of all such kinds with the user. A
// Listing may so have fewer than limit items, even none, and still a Next.
func (r *Recorder) Incoming(
	ctx context.Context, user, kind, cursor string, limit int,
) (Listing, error) {
	return r.list(ctx, user, kind, cursor, limit, true)
}

// listed returns the kind of a list.
func (ks *Kinds) listed(kind string, incoming bool) (Kind, error) {
	k, ok := ks.Named(kind)
	switch {
	case !ok || !k.InLedger():
		return k, &InvalidError{
			Code:    CodeUnknownKind,
			Field:   fieldKind,
			Message: fmt.Sprintf("there is no list of kind %q", kind),
		}
	case incoming && k.Target != User:
		return k, &InvalidError{
			Code:    CodeUnsupportedOp,
			Field:   fieldKind,
			Message: k.Name + " does not target users",
		}
	default:
		return k, nil
	}
}

func (r *Recorder) list(
	ctx context.Context, user, kind, cursor string, limit int, incoming bool,
) (Listing, error) {
	k, err := r.kinds.listed(kind, incoming)
	if err != nil {
		return Listing{}, err
	}
	if err := CheckID(user, "user"); err != nil {
		return Listing{}, err
	}
	if limit < 1 || limit > MaxListed {
		return Listing{}, &InvalidError{
			Code:    CodeOutOfRange,
			Field:   "limit",
			Message: fmt.Sprintf("%d is not in 1 to %d", limit, MaxListed),
		}
	}
	of := listOf{user, k.Name, incoming}
	before, err := of.row(cursor)
	if err != nil {
		return Listing{}, err
	}
	q := ledger.ListQuery{
		Hash:   r.userHash(user),
		Owner:  user,
		Kind:   k.Name,
		Limit:  limit + 1,
		Before: before,
		Now:    r.pages.Now(),
	}
	read := r.listOwned
	if incoming {
		if q.Kind = k.Mirror(); q.Kind == "" {
			q.Kind, read = k.Name, r.listNaming
		}
	}
	rows, next, err := read(ctx, q)
	if err != nil {
		return Listing{}, fmt.Errorf("list %s: %w", k.Plural, err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		next = &rows[limit-1]
	}
	listing := Listing{Items: make([]Item, 0, len(rows))}
	if next != nil {
		listing.Next = of.after(next)
	}
	for _, row := range rows {
		item := Item{Target: row.Target, Since: row.Since, Until: row.Until}
		if incoming {
			item.User, item.Target = item.Target, ""
		}
		listing.Items = append(listing.Items, item)
	}
	return listing, nil
}

// listOwned reads rows of the user, newest first.
func (r *Recorder) listOwned(
	ctx context.Context, q ledger.ListQuery,
) (rows []ledger.Row, next *ledger.Row, err error) {
	rows, err = ask(r, func() ([]ledger.Row, error) { return r.ledger.List(ctx, q) })
	return rows, nil, err
}

// listNaming reads rows that name the user. Each has its owner as its target. next is the last row
// that was looked at, if there are more.
func (r *Recorder) listNaming(
	ctx context.Context, q ledger.ListQuery,
) (rows []ledger.Row, next *ledger.Row, err error) {
	if q.Before != nil {
		q.Before.Hash, q.Before.Owner = r.userHash(q.Before.Target), q.Before.Target
	}
	rows, err = ask(r, func() (rows []ledger.Row, err error) {
		rows, next, err = r.ledger.ListNaming(ctx, q)
		return rows, err
	})
	for i := range rows {
		rows[i].Target = rows[i].Owner
	}
	if next != nil {
		next.Target = next.Owner
	}
	return rows, next, err
}

// Get reads from the ledger the user's activity of the named kind with target; nil: there is none.
// Errors are an [*InvalidError] or an [*UnavailableError].
func (r *Recorder) Get(ctx context.Context, user, kind, target string) (*Item, error) {
	k, err := r.inLedger(kind)
	if err != nil {
		return nil, err
	}
	a, err := r.kinds.Canonical(Activity{User: user, Kind: k.Name, Target: target})
	if invalid, ok := errors.AsType[*InvalidError](err); ok && invalid.Code == CodeSelfBlock {
		return nil, nil //nolint:nilnil // nobody has one with themselves
	}
	if err != nil {
		return nil, err
	}
	of := []ledger.Item{{Kind: k.Name, Target: a.Target}}
	if other := k.Fold.Other(target); other != "" {
		of = append(of, ledger.Item{Kind: k.Name, Target: other})
	}
	found, err := r.lookup(ctx, r.userHash(user), user, of, r.pages.Now())
	if err != nil {
		return nil, fmt.Errorf("get a %s: %w", k.Name, err)
	}
	return cmp.Or(found[of[0]], found[of[len(of)-1]]), nil
}

// MaxPreviewed is the largest number of targets of one [Recorder.Preview].
const MaxPreviewed = 10_000

// Preview is the result that recording activities of one kind would have.
type Preview struct {
	New     int // distinct targets that would be recorded
	Present int // distinct targets that are recorded already
	// Total is the number of activities that the user would then have, if all new ones fit. It
	// counts those that are recorded up to [MaxCounted], or to Limit if that is more.
	Total int
	Limit uint32 // of the kind; 0: no limit
	Over  bool   // some new activities would be refused, as Total exceeds Limit
}

// Preview returns the result that recording an activity of the named kind with each of the targets
// would have. It changes nothing. The kind must be one that the ledger keeps; there may be 1 to
// [MaxPreviewed] targets. Errors are an [*UnavailableError] or an [*InvalidError]. The latter's
// field is "kind", "user", "targets", or a single target, such as "targets[3]".
func (r *Recorder) Preview(
	ctx context.Context, user, kind string, targets []string,
) (Preview, error) {
	if len(targets) < 1 || len(targets) > MaxPreviewed {
		return Preview{}, &InvalidError{
			Code:    CodeOutOfRange,
			Field:   "targets",
			Message: fmt.Sprintf("%d targets, not 1 to %d", len(targets), MaxPreviewed),
		}
	}
	k, err := r.inLedger(kind)
	if err != nil {
		return Preview{}, err
	}
	items := make([]ledger.Item, 0, len(targets))
	distinct := make(map[string]bool, len(targets))
	for i, target := range targets {
		a, err := r.kinds.Canonical(Activity{User: user, Kind: k.Name, Target: target})
		if err != nil {
			return Preview{}, ofTarget(i, err)
		}
		if !distinct[a.Target] {
			distinct[a.Target] = true
			items = append(items, ledger.Item{Kind: k.Name, Target: a.Target})
		}
	}
	found, err := r.lookup(ctx, r.userHash(user), user, items, r.pages.Now())
	if err != nil {
		return Preview{}, fmt.Errorf("preview %s: %w", k.Plural, err)
	}
	has, err := r.countRows(ctx, user, max(MaxCounted, int(k.Limit)), k.Name)
	if err != nil {
		return Preview{}, fmt.Errorf("preview %s: %w", k.Plural, err)
	}
	p := Preview{New: len(items) - len(found), Present: len(found), Limit: k.Limit}
	p.Total = has[k.Name] + p.New
	p.Over = k.Limit > 0 && p.New > 0 && p.Total > int(k.Limit)
	return p, nil
}

// inLedger returns the named kind, if the ledger keeps it.
func (r *Recorder) inLedger(kind string) (Kind, error) {
	switch k, ok := r.kinds.Named(kind); {
	case !ok:
		return k, &InvalidError{
			Code:    CodeUnknownKind,
			Field:   fieldKind,
			Message: fmt.Sprintf("there is no kind %q", kind),
		}
	case !k.InLedger():
		return k, &InvalidError{
			Code:    CodeUnsupportedOp,
			Field:   fieldKind,
			Message: k.Name + " is not in the ledger: it has a window",
		}
	default:
		return k, nil
	}
}

// ofTarget renames the field of an error of [Kinds.Canonical] to the i-th target.
func ofTarget(i int, err error) error {
	invalid, ok := err.(*InvalidError) //nolint:errorlint // Canonical wraps nothing
	if !ok || invalid.Field != "target" {
		return err
	}
	return &InvalidError{
		Code:    invalid.Code,
		Field:   "targets[" + strconv.Itoa(i) + "]",
		Message: invalid.Message,
	}
}

// MaxCounted is where [Recorder.Counts] stops.
const MaxCounted = 100_000

// Counts returns the number of the user's activities of each kind that the ledger keeps. A
// kind without activities has 0, and one with more than [MaxCounted] has that number. Activities of
// others with the user cost nothing. Errors are an [*InvalidError] or an [*UnavailableError].
func (r *Recorder) Counts(ctx context.Context, user string) (map[string]int, error) {
	if err := CheckID(user, "user"); err != nil {
		return nil, err
	}
	var kinds []string
	for _, k := range r.kinds.All() {
		if k.InLedger() {
			kinds = append(kinds, k.Name)
		}
	}
	counts, err := r.countRows(ctx, user, MaxCounted, kinds...)
	if err != nil {
		return nil, fmt.Errorf("count activities: %w", err)
	}
	return counts, nil
}

// countRows returns the number of the user's rows of each kind, up to most.
func (r *Recorder) countRows(
	ctx context.Context, user string, most int, kinds ...string,
) (map[string]int, error) {
	q := ledger.CountQuery{
		Hash:  r.userHash(user),
		Owner: user,
		Kinds: kinds,
		Now:   r.pages.Now(),
		Most:  most,
	}
	return ask(r, func() (map[string]int, error) { return r.ledger.Counts(ctx, q) })
}
