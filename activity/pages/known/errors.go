package known

import (
	"errors"
	"fmt"
)

// UnavailableError reports that a dependency of the call is down or too slow. After it, a write may
// or may not have taken effect. Repeat the write; repeating is safe.
type UnavailableError struct {
	Dependency string // "ledger" or "pages"
	Err        error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s unavailable: %v", e.Dependency, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Unavailable returns err as an [*UnavailableError] of the dependency. It returns err itself if
// that is nil, wraps one already, or wraps [ErrOverloaded], which says more.
func Unavailable(dependency string, err error) error {
	_, already := errors.AsType[*UnavailableError](err)
	if err == nil || already || errors.Is(err, ErrOverloaded) {
		return err
	}
	return &UnavailableError{Dependency: dependency, Err: err}
}

// ErrOverloaded reports that too many calls are waiting. Nothing was changed; retry a little later.
var ErrOverloaded = errors.New("overloaded")
