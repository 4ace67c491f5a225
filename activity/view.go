package activity

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/favfilter"
)

// View is one user's activities, as they stood at some moment after the View was
// asked for. It is not safe for concurrent use.
type View struct {
	// Degraded names the kinds that cannot be checked, and why: their matches are None.
	Degraded []Degraded

	seed  uint64
	kinds []lookup
	buf   []byte
}

// Degraded is a kind that could not be checked.
type Degraded struct {
	Kind   string
	Reason string
}

// Match is how an id was found.
type Match uint8

// Matches.
const (
	None    Match = iota // not found: certain
	Direct               // the user has the activity with it
	Reverse              // it has the two-way activity with the user
)

// lookup finds the activities of one kind.
type lookup struct {
	page           *favfilter.Page // nil: not to be checked
	start, reverse []byte          // of keys, up to the id; reverse is nil for one-way kinds
}

// View reads what user has done, and had done to them, of the given kinds: one
// command to the store, whatever the number of kinds, unless the page has to be
// rebuilt. Without the store it is read from the ledger, and kinds with a window
// are degraded. The error is an [*UnavailableError] if neither can be had, or that
// of ctx.
func (r *Recorder) View(ctx context.Context, user string, kinds []Kind) (*View, error) {
	known := r.keepUp(ctx)
	number := r.pageOf(userHash(r.identity.Seed, user))
	parts, index := partsOf(number, kinds)
	want := r.marks.required[number].Load() // before the read: what is written meanwhile may miss
	loaded, storeErr := r.load(ctx, parts)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read activities: %w", err)
	}
	if storeErr != nil {
		r.stats.fromLedger.Add(1)
	}
	v := &View{seed: r.identity.Seed, kinds: make([]lookup, len(kinds))}
	var page *favfilter.Page
	if len(parts) > 0 && parts[0].Part == "" {
		var err error
		if page, err = r.current(ctx, number, want, loaded[0], known); err != nil {
			return nil, fmt.Errorf("read activities: %w", err)
		}
	}
	for i, k := range kinds {
		l := &v.kinds[i]
		l.start = appendKeyStart(nil, k.Name, user, k.Target)
		switch {
		case k.InLedger():
			l.page = page
			if k.Reverse != "" {
				l.reverse = appendKeyStart(nil, k.Reverse, user, k.Target)
			}
		case storeErr != nil:
			v.Degraded = append(v.Degraded, Degraded{Kind: k.Name, Reason: "the page store is unavailable"})
		default:
			l.page = r.window(ctx, loaded[index[i]])
		}
	}
	return v, nil
}

// partsOf lists the pages to read for kinds, that of the ledger first, and for each
// kind which it is.
func partsOf(number uint32, kinds []Kind) (parts []favfilter.PageID, index []int) {
	index = make([]int, len(kinds))
	for _, k := range kinds {
		if k.InLedger() {
			parts = append(parts, favfilter.PageID{Number: number})
			break
		}
	}
	for i, k := range kinds {
		if !k.InLedger() {
			index[i] = len(parts)
			parts = append(parts, favfilter.PageID{Number: number, Part: k.Name})
		}
	}
	return parts, index
}

// load is Store.Load within loadTimeout, with nothing loaded where the store fails.
func (r *Recorder) load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	loaded, err := r.store.Load(limited, ids)
	if err != nil && ctx.Err() != nil {
		return make([]favfilter.Loaded, len(ids)), err // the caller's end says nothing of the store
	}
	if down := err != nil; r.storeDown.Swap(down) != down {
		if down {
			r.log.ErrorContext(ctx, "pages cannot be read: feeds come from the ledger", "error", err)
		} else {
			r.log.InfoContext(ctx, "pages can be read again")
		}
	}
	if err != nil {
		return make([]favfilter.Loaded, len(ids)), err
	}
	return loaded, nil
}

// current returns the page that was loaded if it may be used, at want or beyond; else
// one made anew, or made anew before while the store was down. The latter only if want is known to be what
// readers have to see: nobody else keeps such a page up to date.
func (r *Recorder) current(ctx context.Context, number uint32, want uint64, l favfilter.Loaded, known bool) (*favfilter.Page, error) {
	reason := r.fault(ctx, number, want, standing(l))
	if reason == "" {
		return l.Page, nil
	}
	if known {
		if page := r.images.get(number, want); page != nil {
			r.stats.fromImage.Add(1)
			return page, nil
		}
	}
	f, err := r.rebuild(ctx, number, want, reason, maxFlights)
	if err != nil {
		return nil, err
	}
	return f.page, nil
}

// standing is l as [favfilter.Store.Peek] would have told.
func standing(l favfilter.Loaded) favfilter.Standing {
	if l.Page == nil {
		return favfilter.Standing{Missing: l.Damage == nil, Damage: l.Damage}
	}
	return favfilter.Standing{Header: l.Page.Header()}
}

// fault says why a page that was found standing so must not be used for what has to be
// at want or beyond; "" if it may.
func (r *Recorder) fault(ctx context.Context, number uint32, want uint64, st favfilter.Standing) string {
	h := st.Header
	switch {
	case st.Damage != nil:
		r.log.WarnContext(ctx, "page is damaged", "page", number, "error", st.Damage)
		return "damaged"
	case st.Missing:
		return "missing"
	case h.Identity != r.identity || h.Number != number:
		return "foreign"
	case h.Sequence < want:
		return "behind"
	case r.ahead(ctx, number, h.Sequence):
		return "ahead"
	default:
		return ""
	}
}

// ahead reports whether the page stands at a sequence that the ledger never gave
// out, as after the ledger was set back. Where the ledger cannot be asked, the
// page is believed.
func (r *Recorder) ahead(ctx context.Context, number uint32, sequence uint64) bool {
	if sequence <= r.marks.committed[number].Load() {
		return false
	}
	if r.follow.down.Load() {
		return false // known not to answer: feeds do not wait for it
	}
	known, err := r.ledger.Sequence(ctx, number)
	if err != nil {
		r.log.WarnContext(ctx, "a page newer than known cannot be compared with the ledger", "page", number, "error", err)
		return false
	}
	r.learn(number, known)
	return sequence > known
}

// stand sees to it that the page stands at want or beyond.
func (r *Recorder) stand(ctx context.Context, number uint32, want uint64) error {
	loaded, err := r.load(ctx, []favfilter.PageID{{Number: number}})
	if err != nil {
		return unavailable("pages", err)
	}
	if reason := r.fault(ctx, number, want, standing(loaded[0])); reason != "" {
		return r.remake(ctx, number, want, reason)
	}
	return nil
}

// Check looks for id among the activities of the i-th kind that the View was made for.
// A match may be a false positive.
func (v *View) Check(i int, id string) Match {
	l := &v.kinds[i]
	switch {
	case l.page == nil:
		return None
	case v.has(l.page, l.start, id):
		return Direct
	case l.reverse != nil && v.has(l.page, l.reverse, id):
		return Reverse
	default:
		return None
	}
}

func (v *View) has(page *favfilter.Page, start []byte, id string) bool {
	v.buf = append(v.buf[:0], start...)
	v.buf = appendEscaped(v.buf, id)
	return page.Contains(favfilter.HashKeyBytes(v.seed, v.buf))
}
