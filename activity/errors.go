package activity

import (
	"errors"
	"fmt"
)

// Codes of [InvalidError], part of the service's contract.
const (
	CodeInvalidID     = "invalid_id"
	CodeUnknownKind   = "unknown_kind"
	CodeUnsupportedOp = "unsupported_op"
	CodeSelfBlock     = "self_block"
	CodeInvalidCursor = "invalid_cursor"
	CodeOutOfRange    = "out_of_range"
	CodeWrongEffect   = "wrong_effect"
	CodeNoLedger      = "no_ledger"
	CodeTooManyPages  = "too_many_pages"
	CodeTooManyIDs    = "too_many_ids"
)

const fieldKind = "kind"

// InvalidError is about input that can never succeed. Nothing was changed.
type InvalidError struct {
	Code    string // one of the Code constants
	Field   string // the input's field, such as "target"; "" where there is none
	Message string // for people
}

func (e *InvalidError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Within puts prefix before the field that an [*InvalidError] in err names, such as
// "posts[3]." before "id". Other errors are returned as they are.
func Within(prefix string, err error) error {
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	moved := *invalid
	moved.Field = prefix + moved.Field
	return &moved
}

// UnavailableError says that something the call needs is down or too slow. A write
// that failed so is undecided: it may have taken effect, and may be repeated.
type UnavailableError struct {
	Dependency string // "ledger" or "pages"
	Err        error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s unavailable: %v", e.Dependency, e.Err)
}

// Unwrap returns what went wrong.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ErrClosed is returned by a [Recorder] that was closed.
var ErrClosed = errors.New("recorder is closed")

// ErrOverloaded says that too much is waiting already: nothing was changed, and the call
// may be repeated a little later.
var ErrOverloaded = errors.New("recorder is overloaded")

func unavailable(dependency string, err error) error {
	var already *UnavailableError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &UnavailableError{Dependency: dependency, Err: err}
}
