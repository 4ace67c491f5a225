//go:build race

package httpapi_test

import "testing"

// contract checks nothing under the race detector, which then need not compile the validator.
type contract struct{}

func (s *service) contractOf(testing.TB) *contract { return nil }

func (*contract) judge(exchange) error { return nil }

func (*contract) operations() map[string]map[string]any { return nil }
