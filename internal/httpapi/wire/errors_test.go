package wire

import (
	"context"
	"fmt"
	"testing"
)

// Reads share this message, so it says nothing about writes.
func TestTimedOut(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, context.Canceled} {
		want := Problem{Code: CodeUnavailable, Message: "timed out: not answered in time"}
		if got := Describe(fmt.Errorf("filter: %w", err)); got != want {
			t.Errorf("%v: %+v, want %+v", err, got, want)
		}
	}
}
