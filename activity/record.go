package activity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
)

const (
	// minYear and maxYear are the first and the last year that a time may be in.
	minYear, maxYear = 1, 9999
	// maxAhead is how far in the future an activity may begin, since clocks differ.
	maxAhead = time.Hour
)

// Activity is one thing that a user does.
type Activity struct {
	User   string // id of the user who does it
	Kind   string // name or plural of the kind
	Target string // id of a user or a post
	Remove bool   // undo the activity

	// Since is when the activity was done, for lists and explanations. It is kept to the
	// microsecond. Zero: now. For kinds with a window, it is the time from which the activity is kept
	// for the window. An activity that would be forgotten already changes nothing.
	Since time.Time

	// Until is when the activity ends by itself, kept to the microsecond. Zero: it has no end. Only
	// for kinds that the ledger keeps.
	Until time.Time
}

// Check returns an [*InvalidError] if a can never be recorded.
func (ks *Kinds) Check(a Activity) error {
	_, err := ks.Canonical(a)
	return err
}

// check returns the kind of a, or an [*InvalidError] if a can never be recorded with any fold.
func (ks *Kinds) check(a Activity) (Kind, error) {
	k, ok := ks.Named(a.Kind)
	switch {
	case !ok:
		return k, &InvalidError{
			Code:    CodeUnknownKind,
			Field:   fieldKind,
			Message: fmt.Sprintf("there is no kind %q", a.Kind),
		}
	case a.Remove && !k.InLedger():
		return k, &InvalidError{
			Code:    CodeUnsupportedOp,
			Field:   "op",
			Message: fmt.Sprintf("%s cannot be removed: it ends by itself", k.Name),
		}
	case !a.Since.IsZero() && a.Remove:
		return k, &InvalidError{
			Code:    CodeUnsupportedOp,
			Field:   "since",
			Message: "only an activity that is added has a beginning",
		}
	case !a.Until.IsZero() && (a.Remove || !k.InLedger()):
		return k, &InvalidError{
			Code:    CodeUnsupportedOp,
			Field:   "until",
			Message: "only an activity that is added, and that the ledger keeps, has an end",
		}
	case a.Until.UTC().Year() > maxYear:
		return k, &InvalidError{Code: CodeOutOfRange, Field: "until", Message: "past the year 9999"}
	case a.Since.UTC().Year() < minYear:
		return k, &InvalidError{Code: CodeOutOfRange, Field: "since", Message: "before the year 1"}
	}
	if err := CheckID(a.User, "user"); err != nil {
		return k, err
	}
	if err := CheckID(a.Target, "target"); err != nil {
		return k, err
	}
	if k.Target == User && a.User == a.Target {
		return k, &InvalidError{
			Code:    CodeSelfBlock,
			Field:   "target",
			Message: fmt.Sprintf("a user cannot %s themselves", k.Name),
		}
	}
	return k, nil
}

// timely returns Ended or Early if a cannot be recorded now, and otherwise Unchanged.
func (a Activity) timely(now time.Time) Outcome {
	switch {
	case !a.Until.IsZero() && !a.Until.After(now):
		return Ended
	case a.Since.After(now.Add(maxAhead)):
		return Early
	default:
		return Unchanged
	}
}

// MaxIDBytes is the length of the longest id.
const MaxIDBytes = ledger.MaxIDBytes

// IsPlainID reports whether id is valid and of printable ASCII, as nearly all ids are. It is faster
// than [CheckID].
func IsPlainID(id string) bool { return ledger.IsPlain(id) }

// CheckID returns an [*InvalidError] unless id is 1 to [MaxIDBytes] bytes of UTF-8 without control
// characters. field names the id in the error.
func CheckID(id, field string) error {
	if err := ledger.CheckID(id); err != nil {
		return &InvalidError{Code: CodeInvalidID, Field: field, Message: "the id " + err.Error()}
	}
	return nil
}

// Outcome is the result of recording or undoing one activity.
type Outcome uint8

// Outcomes.
const (
	// Unchanged: the activity was already there, or the call undoes one that was not there. For
	// kinds with a window a new activity is sometimes Unchanged, at the filter's false-positive
	// rate.
	Unchanged Outcome = iota
	// Changed: the activity was recorded, or undone.
	Changed
	// OverLimit: the user already has as many activities of the kind as its Limit allows. The
	// activity was not recorded.
	OverLimit
	// Stuck: the activity could not be undone, because there is no ledger, and its key shares all
	// its bits with other keys. The activity is still there.
	Stuck
	// Ended: Until is not in the future. The activity was not recorded.
	Ended
	// Early: Since is more than an hour in the future. The activity was not recorded.
	Early
)

func (o Outcome) String() string {
	names := [...]string{"unchanged", "changed", "over limit", "stuck", "ended", "early"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknownName
}

// Record records activities as if one after another, and returns the outcome of each.
//
// When Record returns nil, every activity that is Changed or Unchanged is durable, and visible to
// every [View] that begins afterwards. Otherwise the error decides:
//
//   - An [*InvalidError] means that nothing was changed. Its field is that of an activity, such as
//     "activities[3].target".
//   - [ErrOverloaded] means that nothing was changed.
//   - After an [*UnavailableError], or if ctx ends, each activity may or may not have taken effect,
//     but none by half. Call Record again with the same activities; repeating is safe.
//
// While the store is down, Record acknowledges activities that the ledger keeps once the staleness
// bound has passed since their commit.
func (r *Recorder) Record(ctx context.Context, activities []Activity) ([]Outcome, error) {
	return r.NewBatch().recordAll(ctx, activities)
}

// NewBatch returns an empty batch of activities to record.
func (r *Recorder) NewBatch() *Batch {
	return &Batch{r: &r.reader, check: r.kinds.Canonical, write: r.write}
}

func (r *Recorder) write(ctx context.Context, p *prepared) error {
	if len(p.rows) == 0 {
		return nil
	}
	written, err := r.pages.Write(ctx, r.changes(p))
	if err == nil {
		p.take(written)
	}
	return err
}

// Batch holds activities that were checked as they were added. Its methods must be called one at a
// time.
type Batch struct {
	r          *reader
	check      func(Activity) (Activity, error)             // see [Kinds.Canonical]
	write      func(ctx context.Context, p *prepared) error // records the activities that pages have
	activities []Activity
	others     map[int]string // by index of an activity to remove: see [Kinds.otherTarget]
}

// Add adds an activity. It returns an [*InvalidError] if the activity can never be recorded.
func (b *Batch) Add(a Activity) error {
	recorded, err := b.check(a)
	if err != nil {
		return err
	}
	if a.Remove {
		if other := b.r.kinds.otherTarget(a); other != "" {
			if b.others == nil {
				b.others = make(map[int]string)
			}
			b.others[len(b.activities)] = other
		}
	}
	b.activities = append(b.activities, recorded)
	return nil
}

// Activities returns the activities of the batch, as they are recorded. Nobody may change them.
func (b *Batch) Activities() []Activity { return b.activities }

// Record records the activities as [Recorder.Record] and [Plain.Record] do. The error is no
// [*InvalidError].
func (b *Batch) Record(ctx context.Context) ([]Outcome, error) {
	p := b.r.prepare(b)
	if err := b.write(ctx, p); err != nil {
		return nil, err
	}
	return b.r.finish(ctx, p)
}

// AddAll adds activities, none of them if one is invalid. The field of the [*InvalidError] is then
// that of an activity, such as "activities[3].target".
func (b *Batch) AddAll(activities []Activity) error {
	from := len(b.activities)
	b.activities = slices.Grow(b.activities, len(activities))
	for i, a := range activities {
		if err := b.Add(a); err != nil {
			b.activities = b.activities[:from]
			maps.DeleteFunc(b.others, func(at int, _ string) bool { return at >= from })
			return Within("activities["+strconv.Itoa(i)+"].", err)
		}
	}
	return nil
}

func (b *Batch) recordAll(ctx context.Context, activities []Activity) ([]Outcome, error) {
	if err := b.AddAll(activities); err != nil {
		return nil, err
	}
	return b.Record(ctx)
}

// prepared holds the activities of one call, checked, and their outcomes.
type prepared struct {
	activities []Activity
	at         time.Time // of the call
	outcomes   []Outcome // Ended or Early for those that cannot be recorded now
	rows       []int     // indexes of those that pages have, because the ledger keeps their kind
	others     map[int]string
	seen       seen.Batch
}

// row returns the activity of the n-th row. The second of two with one index removes what may be
// recorded under another target.
func (p *prepared) row(n int) Activity {
	i := p.rows[n]
	a := p.activities[i]
	if n > 0 && p.rows[n-1] == i {
		a.Target = p.others[i]
	}
	return a
}

// prepare sorts the activities of a batch by where they are recorded.
func (r *reader) prepare(b *Batch) *prepared {
	activities := b.activities
	p := &prepared{
		activities: activities,
		at:         r.source.Now(),
		outcomes:   make([]Outcome, len(activities)),
		others:     b.others,
	}
	for i, a := range activities {
		if p.outcomes[i] = a.timely(p.at); p.outcomes[i] != Unchanged {
			continue
		}
		if k, _ := r.kinds.Named(a.Kind); k.InLedger() {
			p.rows = append(p.rows, i)
			if p.others[i] != "" {
				p.rows = append(p.rows, i)
			}
		} else {
			r.addSeen(&p.seen, k, a, i)
		}
	}
	return p
}

// take notes the outcomes of the changes of rows.
func (p *prepared) take(w pages.Written) {
	for n, i := range p.rows {
		switch {
		case w.Refused[n]:
			p.outcomes[i] = OverLimit
		case w.Changed[n]:
			p.outcomes[i] = Changed
		}
	}
}

// finish records what belongs into windows, after everything else.
func (r *reader) finish(ctx context.Context, p *prepared) ([]Outcome, error) {
	fresh, err := p.seen.Write(ctx, p.at)
	for _, i := range fresh {
		p.outcomes[i] = Changed
	}
	if err != nil {
		return nil, pages.Unavailable("pages", err)
	}
	r.tally.record(p.activities, p.outcomes)
	return p.outcomes, nil
}

// changes returns the activities with rows as changes of the ledger. Their rows are side by side: a
// hundred thousand slices of one or two rows take twice as much memory.
func (r *Recorder) changes(p *prepared) []ledger.Change {
	changes := make([]ledger.Change, 0, len(p.rows))
	all := make([]ledger.Row, 0, 2*len(p.rows))
	for n := range p.rows {
		a := p.row(n)
		k, _ := r.kinds.Named(a.Kind)
		if a.Since.IsZero() {
			a.Since = p.at
		}
		from := len(all)
		all = r.appendRows(all, k, a)
		changes = append(
			changes, ledger.Change{Remove: a.Remove, Rows: all[from:len(all):len(all)], Limit: k.Limit},
		)
	}
	return changes
}

// appendRows appends the rows of an activity of the kind.
func (r *Recorder) appendRows(all []ledger.Row, k Kind, a Activity) []ledger.Row {
	own, mirror, mirrored := k.rows(a.User, a.Target)
	of := func(row row) ledger.Row {
		return ledger.Row{
			Hash:   r.ownerHash(&k, &row),
			Owner:  row.owner,
			Kind:   row.kind,
			Target: row.target,
			Since:  a.Since,
			Until:  a.Until,
		}
	}
	first := of(own)
	switch {
	case mirrored:
		return append(all, first, of(mirror))
	case k.Target == User: // the target has no row of its own
		first.Names, first.TargetHash = true, r.userHash(a.Target)
	}
	return append(all, first)
}
