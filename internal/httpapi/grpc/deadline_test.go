package grpc

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// TestAtDeadline: only work that ended at the client's deadline is answered so. An invalid request
// is answered as invalid even after the deadline.
func TestAtDeadline(t *testing.T) {
	past, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	canceled, leave := context.WithCancel(t.Context())
	leave()
	down := &activity.UnavailableError{Dependency: "ledger"}
	for _, c := range []struct {
		name string
		from context.Context
		err  error
		want string
	}{
		{"canceled work, past the deadline", past, context.Canceled, wire.CodeDeadlineExceeded},
		{"ledger down, past the deadline", past, down, wire.CodeDeadlineExceeded},
		{"invalid, past the deadline", past, wire.Refuse(activity.CodeOutOfRange, "limit", "0"), activity.CodeOutOfRange},
		{"overloaded, past the deadline", past, activity.ErrOverloaded, wire.CodeOverloaded},
		{"fault, past the deadline", past, errors.New("fault"), wire.CodeInternal},
		{"ledger down, no deadline", t.Context(), down, wire.CodeUnavailable},
		{"client left", canceled, context.Canceled, wire.CodeUnavailable},
	} {
		if got := wire.Describe(atDeadline(c.from, c.err)).Code; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
