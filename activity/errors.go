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

// InvalidError reports input that can never succeed. Nothing was changed.
type InvalidError struct {
	Code    string // one of the Code constants
	Field   string // field of the input, such as "target"; "" if there is none
	Message string // for people
}

func (e *InvalidError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Within prepends prefix to the field that an [*InvalidError] in err names, such as "posts[3]." to
// "id". It returns any other error unchanged.
func Within(prefix string, err error) error {
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	moved := *invalid
	moved.Field = prefix + moved.Field
	return &moved
}

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

// ErrClosed is the error of a [Recorder] after Close.
var ErrClosed = errors.New("recorder is closed")

// ErrOverloaded reports that too many calls are waiting. Nothing was changed; retry a little later.
var ErrOverloaded = errors.New("recorder is overloaded")

func unavailable(dependency string, err error) error {
	var already *UnavailableError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &UnavailableError{Dependency: dependency, Err: err}
}
