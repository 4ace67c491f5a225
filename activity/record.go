package activity

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// maxYear is the last that a time may be in.
const maxYear = 9999

// Activity is one thing a user does.
type Activity struct {
	User   string // who: an id
	Kind   string // the name of a kind
	Target string // a user's or post's id
	Remove bool   // undoes it

	// Until is when the activity ends by itself, kept to the microsecond; zero: it
	// does not. Only for kinds that the ledger keeps.
	Until time.Time
}

// Check returns an [*InvalidError] if a can never be recorded.
func (ks *Kinds) Check(a Activity) error {
	k, ok := ks.Named(a.Kind)
	switch {
	case !ok:
		return &InvalidError{Code: CodeUnknownKind, Field: "kind", Message: fmt.Sprintf("there is no kind %q", a.Kind)}
	case a.Remove && !k.InLedger():
		return &InvalidError{Code: CodeUnsupportedOp, Field: "op", Message: fmt.Sprintf("%s cannot be removed: it ends by itself", k.Name)}
	case !a.Until.IsZero() && (a.Remove || !k.InLedger()):
		return &InvalidError{
			Code: CodeUnsupportedOp, Field: "until", Message: "only an activity that is added, and that the ledger keeps, has an end",
		}
	}
	if err := CheckID(a.User, "user"); err != nil {
		return err
	}
	if err := CheckID(a.Target, "target"); err != nil {
		return err
	}
	if k.Target == User && a.User == a.Target {
		return &InvalidError{Code: CodeSelfBlock, Field: "target", Message: fmt.Sprintf("a user cannot %s themselves", k.Name)}
	}
	return nil
}

// Record records activities as if one after another, and returns for each whether
// it changed anything: false for one that was there already, or to be undone and was
// not. For kinds with a window that answer is as good as the filter: now and then a
// new one counts as there already.
//
// When Record returns nil, every activity is durable and visible to every [View]
// made afterwards. An [*InvalidError],
// whose field is that of an activity, "activities[3].target", means that nothing was changed. After an
// [*UnavailableError], or if ctx ends, the activities are undecided: each may or may not have
// taken effect, none by half, and Record may be called again with the same. After
// [ErrOverloaded] nothing was changed.
//
// Without the store, activities that the ledger keeps are acknowledged once the
// staleness bound has passed since the ledger has them.
func (r *Recorder) Record(ctx context.Context, activities []Activity) ([]bool, error) {
	for i, a := range activities {
		if err := r.kinds.Check(a); err != nil {
			return nil, Within("activities["+strconv.Itoa(i)+"].", err)
		}
	}
	changed := make([]bool, len(activities))
	w := &write{ctx: ctx, done: make(chan struct{})}
	var inLedger []int
	var windows windowWrites
	at := r.now()
	for i, a := range activities {
		if !a.Until.IsZero() && (!a.Until.After(at) || a.Until.UTC().Year() > maxYear) {
			return nil, Within("activities["+strconv.Itoa(i)+"].", &InvalidError{
				Code: CodeOutOfRange, Field: "until", Message: "not in the future, or past the year 9999",
			})
		}
		k, _ := r.kinds.Named(a.Kind)
		if k.InLedger() {
			w.changes = append(w.changes, r.change(k, a, at))
			inLedger = append(inLedger, i)
		} else {
			r.addWindowWrite(&windows, k, a, i)
		}
	}
	if len(inLedger) > 0 {
		if err := r.write(ctx, w); err != nil {
			return nil, err
		}
		for n, i := range inLedger {
			changed[i] = w.changed[n]
		}
	}
	if err := r.recordWindows(ctx, windows, changed); err != nil {
		return nil, err
	}
	return changed, nil
}

// change is what an activity does to the ledger: one row, or for a two-way kind one
// on each side.
func (r *Recorder) change(k Kind, a Activity, at time.Time) ledger.Change {
	c := ledger.Change{Remove: a.Remove, Rows: make([]ledger.Row, 0, 2)}
	row := func(owner, kind, target string) {
		c.Rows = append(c.Rows, ledger.Row{
			Hash: userHash(r.identity.Seed, owner), Owner: owner, Kind: kind, Target: target, Since: at, Until: a.Until,
		})
	}
	row(a.User, k.Name, a.Target)
	if k.Reverse != "" {
		row(a.Target, k.Reverse, a.User)
	}
	return c
}

// write queues w and waits until it is decided.
func (r *Recorder) write(ctx context.Context, w *write) error {
	select {
	case <-r.closed:
		return ErrClosed
	default:
	}
	if r.waiting.Add(1) > maxWaiting {
		r.waiting.Add(-1)
		return ErrOverloaded
	}
	defer r.waiting.Add(-1)
	select {
	case r.queue <- w:
	case <-r.closed:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("record %d activities: nothing was changed: %w", len(w.changes), ctx.Err())
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return fmt.Errorf("record %d activities: undecided: %w", len(w.changes), ctx.Err())
	}
	if w.err != nil {
		return fmt.Errorf("record %d activities: %w", len(w.changes), w.err)
	}
	return nil
}
