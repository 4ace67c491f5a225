package activity

import (
	"errors"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// Codes of [InvalidError], part of the service's contract.
const (
	CodeInvalidID     = "invalid_id"
	CodeUnknownKind   = "unknown_kind"
	CodeUnknownFacet  = "unknown_facet"
	CodeUnsupportedOp = "unsupported_op"
	CodeSelfBlock     = "self_block"
	CodeInvalidCursor = "invalid_cursor"
	CodeOutOfRange    = pages.CodeOutOfRange
	CodeWrongEffect   = "wrong_effect"
	CodeNoLedger      = "no_ledger"
	CodeTooManyPages  = pages.CodeTooManyPages
	CodeTooManyIDs    = "too_many_ids"
	CodeFollowed      = pages.CodeFollowed

	CodeInvalidPosition = "invalid_position"
	CodeNotFollowed     = "not_followed"
)

const fieldKind = "kind"

type (
	// InvalidError reports input that can never succeed. Nothing was changed.
	InvalidError = pages.InvalidError
	// UnavailableError reports that a dependency of the call is down or too slow. After it, a write
	// may or may not have taken effect. Repeat the write; repeating is safe.
	UnavailableError = pages.UnavailableError
)

// Errors of calls, for [errors.Is].
var (
	// ErrClosed is the error of calls after Close.
	ErrClosed = pages.ErrClosed
	// ErrOverloaded reports that too many calls are waiting. Nothing was changed; retry a little
	// later.
	ErrOverloaded = pages.ErrOverloaded
	// ErrBehind reports that the ledger answers, but its changes are not read within the staleness
	// bound. Feeds are correct meanwhile, but slower.
	ErrBehind = pages.ErrBehind
)

// Within prepends prefix to the field that an [*InvalidError] in err names, such as "posts[3]." to
// "id". It returns any other error unchanged.
func Within(prefix string, err error) error {
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok {
		return err
	}
	moved := *invalid
	moved.Field = prefix + moved.Field
	return &moved
}
