package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Freshness is what an answer has to have of the sources that are followed. The zero value asks for
// nothing.
type Freshness struct {
	// After is a position of the log of a source, such as "0/16B3748": the answer has all that the
	// source had committed up to there. Where several sources are followed, the position has the
	// name of one before it: "app 0/16B3748". "": no position.
	//
	// After a failover, the log of the new primary begins where the old one was left, and positions
	// of the two cannot be told apart. With the timeline before it, "00000003:0/16B3748", a position
	// is one of that history alone: a source that has gone on to a later one never reaches it.
	After string
	// Within is a time before the call: the answer has all that the sources of Kinds had committed
	// until then. 0: no time.
	Within time.Duration
	// Kinds are those of the answer. Nil: all that are followed.
	Kinds []Kind
}

// NotYetError reports that a source has not been followed as far as a call asked for, in time. Try
// again a little later.
type NotYetError struct {
	Field  string // "after" or "within"
	Source string // name
	Reason string // how far it was followed
}

func (e *NotYetError) Error() string {
	return fmt.Sprintf("source %q has not been followed that far yet: %s", e.Source, e.Reason)
}

const (
	fieldAfter  = "after"
	fieldWithin = "within"
)

func notFollowed(field string) error {
	return &InvalidError{Code: CodeNotFollowed, Field: field, Message: "no such source is followed"}
}

// Await waits until every View that begins afterwards is as fresh as wanted.
//
// Errors are an [*InvalidError], a [*NotYetError] after Config.AfterTimeout or if the source never
// reaches the position, an [*UnavailableError], or that of ctx.
func (r *Recorder) Await(ctx context.Context, want Freshness) error {
	if want.After == "" && want.Within == 0 {
		return nil
	}
	w := wait{kinds: want.Kinds}
	if err := w.parse(want.After); err != nil {
		return err
	}
	if want.Within > 0 {
		_, latest := r.pages.Bounds()
		w.since = latest.Add(-want.Within)
	}
	limited, cancel := context.WithTimeout(ctx, r.afterTimeout)
	defer cancel()
	err := r.pages.Reach(limited, w.reached)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && w.lacks != nil {
		return w.lacks
	}
	return err
}

// wait is one call that waits for sources.
type wait struct {
	source   string // of the position; "": that of the only source
	position *ledger.LogPosition
	since    time.Time // sources of the kinds have to be followed until then; zero: they need not
	kinds    []Kind
	lacks    *NotYetError // what the last poll lacked
}

// parse parses a position that may have the name of a source before it.
func (w *wait) parse(after string) error {
	if after == "" {
		return nil
	}
	name, text, named := strings.Cut(after, " ")
	if !named {
		name, text = "", after
	}
	at, ok := ledger.ParseLogPosition(text)
	if !ok {
		message := fmt.Sprintf("%q is not a position such as 0/16B3748 or 00000001:0/16B3748", after)
		return &InvalidError{Code: CodeInvalidPosition, Field: fieldAfter, Message: message}
	}
	w.source, w.position = name, &at
	return nil
}

// reached reports whether the sources are followed as far as w wants, and notes what they lack.
func (w *wait) reached(sources []ledger.Source) (bool, error) {
	w.lacks = nil
	if w.position != nil {
		if err := w.passed(sources); err != nil || w.lacks != nil {
			return false, err
		}
	}
	if w.since.IsZero() {
		return true, nil
	}
	if len(sources) == 0 {
		return false, notFollowed(fieldWithin)
	}
	for _, s := range sources {
		gives := func(k Kind) bool { return slices.Contains(s.Kinds, k.Name) }
		if s.Followed.Before(w.since) && (w.kinds == nil || slices.ContainsFunc(w.kinds, gives)) {
			reason := "it was last followed at " + s.Followed.Format(time.RFC3339)
			if s.Followed.IsZero() {
				reason = "nobody has followed it yet"
			}
			w.lacks = &NotYetError{fieldWithin, s.Name, reason}
			return false, nil
		}
	}
	return true, nil
}

// passed notes what the source of the position lacks. It returns an error if the source will never
// reach the position.
func (w *wait) passed(sources []ledger.Source) error {
	name := w.source
	if name == "" && len(sources) == 1 {
		name = sources[0].Name
	}
	i := slices.IndexFunc(sources, func(s ledger.Source) bool { return s.Name == name })
	if i < 0 {
		return notFollowed(fieldAfter)
	}
	has, ok := sources[i].Position.Log()
	lacks := func(format string, args ...any) *NotYetError {
		return &NotYetError{fieldAfter, name, fmt.Sprintf(format, args...)}
	}
	switch {
	case !ok:
		w.lacks = lacks("it has to be read whole first")
	case w.position.Timeline != 0 && has.Timeline > w.position.Timeline:
		return lacks(
			"it has failed over to timeline %d, and does not come to a position of timeline %d any more",
			has.Timeline, w.position.Timeline,
		)
	case w.position.Timeline > has.Timeline && w.position.Timeline != 0:
		w.lacks = lacks(
			"it is followed in timeline %d, before a failover to timeline %d",
			has.Timeline, w.position.Timeline,
		)
	case has.Byte < w.position.Byte:
		w.lacks = lacks("it is at %s, %d bytes before the position", has, w.position.Byte-has.Byte)
	}
	return nil
}

// Behind names those of the kinds whose activities may be old, as far as this process knows. Their
// source has not been followed for longer than Config.FollowedWithin, or was never read whole.
func (r *Recorder) Behind(kinds []Kind) (all []Degraded) {
	sources := r.pages.Sources()
	if len(sources) == 0 || r.followedWithin <= 0 {
		return nil
	}
	now := r.Now()
	for _, s := range sources {
		var reason string
		switch age := now.Sub(s.Followed); {
		case s.Followed.IsZero() && s.Position.Whole(): // by a version that does not tell
			continue
		case s.Followed.IsZero():
			reason = fmt.Sprintf("its source %q has not been read yet", s.Name)
		case age > r.followedWithin:
			age = age.Round(time.Second)
			reason = fmt.Sprintf("its source %q has not been followed for %v", s.Name, age)
		default:
			continue
		}
		for i := range kinds {
			if slices.Contains(s.Kinds, kinds[i].Name) {
				all = append(all, Degraded{Kind: kinds[i].Name, Reason: reason})
			}
		}
	}
	return all
}
