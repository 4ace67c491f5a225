//go:build race

package httpapitest

import "testing"

// Contract checks nothing under the race detector, which then need not compile the validator.
type Contract struct{}

// ContractOf returns nil.
func (s *Service) ContractOf(testing.TB) *Contract { return nil }

// Judge returns nil.
func (*Contract) Judge(Exchange) error { return nil }

// Operations returns nil.
func (*Contract) Operations() map[string]map[string]any { return nil }
