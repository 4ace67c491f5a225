package httpapi

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
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
		{"canceled work, past the deadline", past, context.Canceled, codeDeadlineExceeded},
		{"ledger down, past the deadline", past, down, codeDeadlineExceeded},
		{"invalid, past the deadline", past, refuse(activity.CodeOutOfRange, "limit", "0"), activity.CodeOutOfRange},
		{"overloaded, past the deadline", past, activity.ErrOverloaded, codeOverloaded},
		{"fault, past the deadline", past, errors.New("fault"), codeInternal},
		{"ledger down, no deadline", t.Context(), down, codeUnavailable},
		{"client left", canceled, context.Canceled, codeUnavailable},
	} {
		if got := describe(atDeadline(c.from, c.err)).Code; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Reads share this message, so it says nothing about writes.
func TestTimedOut(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, context.Canceled} {
		want := problem{Code: codeUnavailable, Message: "timed out: not answered in time"}
		if got := describe(fmt.Errorf("filter: %w", err)); got != want {
			t.Errorf("%v: %+v, want %+v", err, got, want)
		}
	}
}
