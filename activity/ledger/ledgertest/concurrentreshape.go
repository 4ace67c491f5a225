package ledgertest

import "testing"

func (s suite) concurrentReshapes(t *testing.T) {}
