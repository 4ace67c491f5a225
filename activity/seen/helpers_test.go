package seen_test

import (
	"context"
	"math/rand/v2"

	"github.com/feedfilter/feedfilter/favfilter"
)

// fataler is the common part of testing.TB and rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

func randomHash(rng *rand.Rand) favfilter.Hash {
	return favfilter.Hash{H1: rng.Uint64(), H2: rng.Uint64()}
}

// oneString is a store that takes every write, and keeps only the last string.
type oneString struct {
	favfilter.Store

	raw []byte
}

func (s *oneString) Replace(_ context.Context, r favfilter.Replacement) (bool, error) {
	s.raw, _ = r.Encode()
	return true, nil
}
