package pages

import (
	"errors"

	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

// Codes of an [InvalidError] of this package.
const (
	CodeOutOfRange   = "out_of_range"
	CodeTooManyPages = "too_many_pages"
	CodeFollowed     = "followed" // a source alone writes the kind
)

// InvalidError reports input that can never succeed. Nothing was changed.
type InvalidError struct {
	Code    string // part of the service's contract
	Field   string // field of the input, such as "target"; "" if there is none
	Message string // for people
}

func (e *InvalidError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// UnavailableError reports that a dependency of the call is down or too slow. After it, a write may
// or may not have taken effect. Repeat the write; repeating is safe.
type UnavailableError = known.UnavailableError

// Unavailable returns err as an [*UnavailableError] of the dependency. It returns err itself if
// that is nil, wraps one already, or wraps [ErrOverloaded], which says more.
func Unavailable(dependency string, err error) error { return known.Unavailable(dependency, err) }

// ledgerDown reports whether err says that the ledger is unavailable.
func ledgerDown(err error) bool {
	down, ok := errors.AsType[*UnavailableError](err)
	return ok && down.Dependency == "ledger"
}

// ErrClosed is the error of calls after Close.
var ErrClosed = lifecycle.ErrClosed

// ErrOverloaded reports that too many calls are waiting. Nothing was changed; retry a little later.
var ErrOverloaded = known.ErrOverloaded

// ErrNoPage reports that there is no page of that number.
var ErrNoPage = errors.New("there is no such page")

// ErrBehind reports that the ledger answers, but its changes are not read within the staleness
// bound. Either polls fail, or a poll reads every page after its connection was lost. Feeds stay
// correct but are slower, because each asks the ledger for the sequence of its page.
var ErrBehind = errors.New("changes are not read from the ledger in time")
