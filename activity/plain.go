package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// plainPages is the default number of pages of a filter without a ledger.
	plainPages = 16384
	// plainKeys is the number of keys that each of these pages is created for. A page takes any
	// number.
	plainKeys = 512
	// keepInterval is how often keepFilter checks that the store still records how the filter was
	// made.
	keepInterval = time.Second
)

// PlainConfig configures a [Plain].
type PlainConfig struct {
	_ struct{} // fields are named

	// Store holds one filter, and nothing else.
	Store favfilter.Store
	// Pages is the number of pages of a new filter, a power of two. 0: as many as the filter in the
	// store has, or 16384 for a new one.
	Pages uint32
	// Kinds are the kinds of activities, none with a limit. Default: BuiltinKinds().
	Kinds *Kinds

	// FalsePositiveRate is as in [Config].
	FalsePositiveRate float64

	// Persist makes the store's contents durable, for a store that writes its changes to disk
	// later. Record calls it. Default: a no-op.
	Persist func(context.Context) error

	// Now is the clock that decides when activities are recorded. Default: time.Now.
	Now    func() time.Time
	Logger *slog.Logger // default: discards
}

// Plain implements [Activities] without a ledger: the pages are the only copy of every kind. An
// activity that is reported as present, rightly or by a false positive, is not recorded again. An
// undo may be [Stuck]. Data that the store loses is lost. A Plain is safe for concurrent use.
type Plain struct {
	reader

	filter  *favfilter.Filter
	persist func(context.Context) error
	looking sync.Mutex // held while pages are read for the survey
	next    uint32     // next page to read for the survey
}

// OpenPlain returns a Plain. It opens the filter that the store holds with that filter's seed and
// number of pages. If the store holds none, OpenPlain creates one with a random seed and c.Pages
// pages.
//
// Errors wrap [favfilter.ErrMismatch] if the store holds another filter, or a [*NoLedgerError] if a
// kind has a limit.
func OpenPlain(ctx context.Context, c PlainConfig) (*Plain, error) {
	common := Config{FalsePositiveRate: c.FalsePositiveRate, Kinds: c.Kinds, Persist: c.Persist, Logger: c.Logger}
	common.setDefaults()
	if err := checkRate(common.FalsePositiveRate); err != nil {
		return nil, fmt.Errorf("open a filter without a ledger: %w", err)
	}
	for _, k := range common.Kinds.All() {
		if k.Limit > 0 {
			return nil, fmt.Errorf("open a filter without a ledger: kind %q: %w", k.Name, &NoLedgerError{"a limit"})
		}
	}
	p := &Plain{
		reader: reader{
			storage: &storage{
				lifecycle: newLifecycle(ctx), store: c.Store, now: c.Now, log: common.Logger, survey: newSurvey(),
				keyRate: common.FalsePositiveRate / float64(common.Kinds.lookups()),
			},
			kinds: common.Kinds,
			rate:  common.FalsePositiveRate,
		},
		persist: common.Persist,
	}
	if p.now == nil {
		p.now = time.Now
	}
	if err := p.openFilter(ctx, c); err != nil {
		return nil, fmt.Errorf("open a filter without a ledger: %w", err)
	}
	if err := p.openWindows(nil); err != nil {
		return nil, fmt.Errorf("open a filter without a ledger: %w", err)
	}
	p.ended.Go(func() { p.every(keepInterval, p.keepFilter) })
	return p, nil
}

// openFilter opens the filter that the store holds, or creates it. If several processes create one
// at once, the first one wins, and the others open its filter.
func (p *Plain) openFilter(ctx context.Context, c PlainConfig) error {
	for tries := 3; ; tries-- {
		identity, err := plainIdentity(ctx, c)
		if err != nil {
			return err
		}
		p.identity = identity
		p.filter, err = favfilter.Open(ctx, c.Store, favfilter.Config{
			Capacity:          plainKeys * int(identity.Pages),
			FalsePositiveRate: p.keyRate,
			Pages:             identity.Pages,
			Seed:              identity.Seed,
			PageBy:            ownerOf,
			Hash:              hashOf,
		})
		if !errors.Is(err, favfilter.ErrMismatch) || tries == 0 {
			return err
		}
	}
}

// keepFilter makes the store record how the filter was made, even after the store lost everything.
func (p *Plain) keepFilter() {
	ctx, cancel := context.WithTimeout(p.base, loadTimeout)
	defer cancel()
	err := p.filter.Keep(ctx)
	if errors.Is(err, favfilter.ErrMismatch) {
		p.log.ErrorContext(ctx, "the store holds another filter than the one that was opened: start again", "error", err)
		return
	}
	p.noteStore(ctx, err)
}

// plainIdentity returns the identity of the filter in the store, or that of a new one. It reads
// page 0; if that is lost, it reads the others.
func plainIdentity(ctx context.Context, c PlainConfig) (favfilter.Identity, error) {
	found, err := standingIdentity(ctx, c.Store, 1)
	if err == nil && found == nil {
		found, err = standingIdentity(ctx, c.Store, max(c.Pages, plainPages))
	}
	switch {
	case err != nil:
		return favfilter.Identity{}, err
	case found == nil:
		return favfilter.Identity{Seed: favfilter.RandomID(), Pages: cmp.Or(c.Pages, plainPages)}, nil
	case found.Incarnation != 0:
		return *found, fmt.Errorf("%w: with a ledger, opened without", favfilter.ErrMismatch)
	case c.Pages != 0 && c.Pages != found.Pages:
		return *found, fmt.Errorf("%w: with %d pages, opened with %d", favfilter.ErrMismatch, found.Pages, c.Pages)
	}
	return *found, nil
}

// standingIdentity returns the identity in the first page found among the first pages pages; nil if
// there is none.
func standingIdentity(ctx context.Context, store favfilter.Store, pages uint32) (*favfilter.Identity, error) {
	for from := uint32(0); from < pages; from += scrubChunk {
		var ids []favfilter.PageID
		for number := from; number < min(pages, from+scrubChunk); number++ {
			ids = append(ids, favfilter.PageID{Number: number})
		}
		statuses, err := store.Peek(ctx, ids)
		if err != nil {
			return nil, unavailable("pages", err)
		}
		for _, st := range statuses {
			switch {
			case st.Err != nil:
				return nil, unavailable("pages", st.Err)
			case st.Damage != nil:
				return nil, st.Damage
			case !st.Missing:
				return &st.Header.Identity, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // an empty store
}

// ownerOf returns the id of the user whose page holds the key.
func ownerOf(key string) string {
	_, rest, _ := strings.Cut(key, ":U")
	owner, _, _ := strings.Cut(rest, "_")
	return unescape(owner)
}

// keysOf returns the keys of an activity: one, or for a two-way kind two, in the pages of two
// users.
func keysOf(k Kind, a Activity) []string {
	keys := []string{string(appendEscaped(appendKeyStart(nil, k.Name, a.User, k.Target), a.Target))}
	if k.Reverse != "" {
		keys = append(keys, string(appendEscaped(appendKeyStart(nil, k.Reverse, a.Target, k.Target), a.User)))
	}
	return keys
}

// Record records activities as if one after another, and returns the outcome of each: [Stuck] for
// an undo that was not possible. When Record returns nil, every [View] that begins afterwards has
// the activities. Errors are as those of [Recorder.Record].
//
// Consecutive additions share a call of the store, and so do consecutive removals.
func (p *Plain) Record(ctx context.Context, activities []Activity) ([]Outcome, error) {
	at := p.now()
	for i, a := range activities {
		if err := p.check(a, at); err != nil {
			return nil, Within("activities["+strconv.Itoa(i)+"].", err)
		}
	}
	outcomes := make([]Outcome, len(activities))
	var inFilter []int
	var batch seen.Batch
	for i, a := range activities {
		if k, _ := p.kinds.Named(a.Kind); k.InLedger() {
			inFilter = append(inFilter, i)
		} else {
			p.addSeen(&batch, k, a, i)
		}
	}
	if err := p.recordAll(ctx, activities, inFilter, outcomes); err != nil {
		return nil, fmt.Errorf("record %d activities: %w", len(activities), unavailable("pages", err))
	}
	if err := p.recordSeen(ctx, &batch, at, outcomes); err != nil {
		return nil, err
	}
	p.stats.record(activities, outcomes)
	return outcomes, nil
}

// check also refuses activities that only a ledger can keep.
func (p *Plain) check(a Activity, at time.Time) error {
	if err := p.reader.check(a, at); err != nil {
		return err
	}
	if !a.Until.IsZero() || !a.Since.IsZero() {
		return &InvalidError{
			Code: CodeNoLedger, Field: "until", Message: (&NoLedgerError{"an activity with a time"}).Error(),
		}
	}
	return nil
}

// recordAll records the activities with the indexes of, in their order, and makes them durable.
func (p *Plain) recordAll(ctx context.Context, activities []Activity, of []int, outcomes []Outcome) error {
	for len(of) > 0 {
		remove := activities[of[0]].Remove
		n := 1
		for n < len(of) && activities[of[n]].Remove == remove {
			n++
		}
		if err := p.recordRun(ctx, activities, of[:n], remove, outcomes); err != nil {
			return err
		}
		of = of[n:]
	}
	// Nothing else could rebuild the pages.
	return p.persist(ctx)
}

func (p *Plain) recordRun(ctx context.Context, activities []Activity, of []int, remove bool, outcomes []Outcome) error {
	var keys []string
	var owner []int
	for _, i := range of {
		k, _ := p.kinds.Named(activities[i].Kind)
		for _, key := range keysOf(k, activities[i]) {
			keys = append(keys, key)
			owner = append(owner, i)
		}
	}
	change := p.filter.Add
	if remove {
		change = p.filter.Remove
	}
	results, err := change(ctx, keys...)
	if err != nil {
		return err
	}
	for n, result := range results {
		outcomes[owner[n]] = max(outcomes[owner[n]], plainOutcome(result))
	}
	// A key that is Stuck on one side must stay on the other side, too.
	var back []string
	for n, result := range results {
		if result == favfilter.Removed && outcomes[owner[n]] == Stuck {
			back = append(back, keys[n])
		}
	}
	if len(back) > 0 {
		_, err = p.filter.Add(ctx, back...)
	}
	return err
}

// plainOutcome returns the outcome of an activity, given that of one of its keys.
func plainOutcome(o favfilter.Outcome) Outcome {
	switch o {
	case favfilter.Added, favfilter.Removed:
		return Changed
	case favfilter.Stuck:
		return Stuck
	default:
		return Unchanged
	}
}

// View reads the user's activities of the given kinds, and those of two-way kinds that others have
// with the user. It takes one command to the store. It ignores ids: no page is too large to read.
//
// If the store is unavailable, View returns an [*UnavailableError]; if all kinds have a window, it
// returns a View in which they are degraded instead. Any other error is that of ctx.
func (p *Plain) View(
	ctx context.Context, user string, kinds []Kind, _ iter.Seq2[Target, string],
) (*View, error) {
	v := p.newView(user, kinds)
	v.number = p.slotOf(v.userHash)
	var ids []favfilter.PageID
	if v.ledger {
		ids = append(ids, favfilter.PageID{Number: v.number})
	}
	ids = p.appendWindows(ids, v)
	loaded, storeErr := p.load(ctx, ids)
	err := ctx.Err()
	switch {
	case err != nil:
	case storeErr != nil:
		p.stats.fromLedger.Add(1)
	case len(ids) > 0:
		p.stats.fromStore.Add(1)
	}
	if err == nil && v.ledger {
		if err = unavailable("pages", storeErr); err == nil {
			v.page, err = p.page(loaded[0])
		}
		loaded = loaded[1:]
	}
	if err != nil {
		return v, fmt.Errorf("read activities: %w", err)
	}
	v.take(ctx, loaded, storeErr)
	return v, nil
}

// page returns the page of a View; nil if it is empty.
func (p *Plain) page(l favfilter.Loaded) (*favfilter.Page, error) {
	switch {
	case l.Damage != nil:
		return nil, unavailable("pages", l.Damage)
	case l.Page == nil:
		return nil, nil //nolint:nilnil // no activities
	case l.Page.Header().Identity != p.identity:
		return nil, unavailable("pages", errors.New("the page is of another filter"))
	default:
		return l.Page, nil
	}
}

// Ready reports whether the store answers, with pages of this filter. If it does not, Ready returns
// one [*UnavailableError].
func (p *Plain) Ready(ctx context.Context) (ready bool, down []error) {
	loaded, err := p.store.Load(ctx, []favfilter.PageID{{Number: 0}})
	if err == nil {
		_, err = p.page(loaded[0])
	}
	if err != nil {
		return false, []error{unavailable("pages", err)}
	}
	return true, nil
}

// Stats returns the current counts.
func (p *Plain) Stats() Stats {
	s := p.stats.counts()
	s.PagesDown = p.storeDown.Load()
	s.SharedPages = int(p.identity.Pages)
	return s
}

// Survey yields every page in ascending order of number, as [Plain.Look] last observed it. It does
// not read the store.
func (p *Plain) Survey() iter.Seq[SurveyedPage] {
	return func(yield func(SurveyedPage) bool) {
		p.survey.eachShared(0, int(p.identity.Pages), time.Since(p.opened), yield)
	}
}

// SurveyTotals returns sums over all pages as last observed.
func (p *Plain) SurveyTotals() SurveyTotals {
	t := p.survey.sums()
	t.Pages = int(p.identity.Pages)
	return t
}

// Look observes up to most pages for Survey, those observed longest ago first. If another call is
// in progress, Look does nothing. Errors are an [*UnavailableError], or that of ctx.
func (p *Plain) Look(ctx context.Context, most int) error {
	if !p.looking.TryLock() {
		return nil
	}
	defer p.looking.Unlock()
	for most = min(most, int(p.identity.Pages)); most > 0; {
		var ids []favfilter.PageID
		for n := uint32(0); int(n) < min(most, scrubChunk); n++ {
			ids = append(ids, favfilter.PageID{Number: (p.next + n) % p.identity.Pages})
		}
		limited, cancel := context.WithTimeout(ctx, loadTimeout)
		statuses, err := p.store.Peek(limited, ids)
		cancel()
		if err != nil {
			return fmt.Errorf("look at pages: %w", unavailable("pages", err))
		}
		for i, st := range statuses {
			if st.Err == nil {
				p.survey.put(ids[i].Number, newGlance(p.stateAlone(st), st, time.Since(p.opened)), 0)
			}
		}
		p.next = (p.next + uint32(len(ids))) % p.identity.Pages
		most -= len(ids)
	}
	return nil
}

// InspectPage reads a page with its collision bitmap. Errors are [ErrNoPage], an
// [*UnavailableError], or that of ctx.
func (p *Plain) InspectPage(ctx context.Context, number uint32) (*PageInside, error) {
	if number >= p.identity.Pages {
		return nil, fmt.Errorf("inspect page %d: %w", number, ErrNoPage)
	}
	inside, err := p.readInside(ctx, number)
	if err != nil {
		return nil, fmt.Errorf("inspect page %d: %w", number, err)
	}
	return inside, nil
}

func (p *Plain) readInside(ctx context.Context, number uint32) (*PageInside, error) {
	id := favfilter.PageID{Number: number}
	loaded, err := p.loadWhole(ctx, id)
	if err != nil {
		return nil, err
	}
	return p.insideOf(number, id, loaded), nil
}

// InspectUser returns the page and the windows of a user. Errors are an [*InvalidError], an
// [*UnavailableError], or that of ctx.
func (p *Plain) InspectUser(ctx context.Context, user string) (*UserInside, error) {
	if err := CheckID(user, "user"); err != nil {
		return nil, err
	}
	u := p.newUserInside(user)
	inside, err := p.readInside(ctx, u.Slot)
	if err == nil {
		u.put(inside)
		err = p.inspectWindows(ctx, u)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect a user: %w", err)
	}
	return u, nil
}

// InspectKey returns the state of an activity bit by bit, in each page that has one of its keys.
// Errors are as those of [Recorder.InspectKey].
func (p *Plain) InspectKey(ctx context.Context, kind, user, target string) (*KeyInside, error) {
	return p.inspectKey(ctx, kind, user, target, func(s *KeySide) (*PageInside, error) {
		return p.readInside(ctx, p.slotOf(userHash(p.identity.Seed, s.Owner)))
	})
}
